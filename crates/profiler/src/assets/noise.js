"use strict";
// How far the share of each frame may move between two ranges of one profile by chance alone: so many standard
// deviations of sampling, for some hundred frames at once, and at least half a point and 3 % of itself. `sides` are the
// samples of the two ranges, `{ node, weight }`. `difference/noise.rs` tells the same of whole profiles.
function ladogaNoise(tree, sides) {
  const DEVIATIONS = 4.5, POINTS_MIN = 0.005, PART_MIN = 0.03;
  const count = tree.parent.length;
  const sums = sides.map((samples) => {
    const own = new Float64Array(count), squares = new Float64Array(count);
    let all = 0, allSquares = 0;
    for (const { node, weight } of samples) {
      own[node] += weight;
      squares[node] += weight * weight;
      all += weight;
      allSquares += weight * weight;
    }
    for (let node = count - 1; node >= 0; node--) {
      const parent = tree.parent[node];
      if (parent < 0) continue;
      own[parent] += own[node];
      squares[parent] += squares[node];
    }
    return { own, squares, all: all || 1, allSquares };
  });
  return Float64Array.from({ length: count }, (_, node) => {
    const shares = sums.map((side) => side.own[node] / side.all), expected = (shares[0] + shares[1]) / 2;
    const variance = sums.reduce((sum, side) => {
      const rest = Math.max(0, side.allSquares - side.squares[node]);
      return sum + ((1 - expected) ** 2 * side.squares[node] + expected ** 2 * rest) / side.all ** 2;
    }, 0);
    return Math.max(DEVIATIONS * Math.sqrt(variance), POINTS_MIN, PART_MIN * Math.max(...shares));
  });
}
