"use strict";
// How far the share of each frame may move if nothing has changed, in any view of a tree: folded, reversed, filtered.
// `difference/noise.rs` tells the same of the tree as it was recorded. Shares are those of everything, also if a part is shown.
//
// `noise` holds for both sides the shares of each round by node of the tree, the squares of the samples, and how many
// deviations chance alone goes, from the base and reversed: none if too few rounds leave nothing to tell.
function ladogaNoise(view, noise, isReversed) {
  const POINTS_MIN = 0.005, PART_MIN = 0.03, SHARE_MIN = 0.001;
  const count = view.names.length, deviations = noise.deviations[isReversed ? 1 : 0];

  // By frame of the view, with what it calls.
  function summed(own) {
    const out = new Float64Array(count);
    for (let node = 0; node < own.length; node++) if (view.ends[node] >= 0) out[view.ends[node]] += own[node];
    for (let frame = count - 1; frame >= 0; frame--) if (view.parent[frame] >= 0) out[view.parent[frame]] += out[frame];
    return out;
  }
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0);
  // Of the mean.
  function squaredError(values) {
    if (values.length < 2) return 0;
    const middle = mean(values);
    return values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1) / values.length;
  }
  function drift(values) {
    const half = Math.floor(values.length / 2);
    return Math.abs(mean(values.slice(0, half)) - mean(values.slice(half)));
  }

  const rounds = noise.rounds.map((side) => side.map(summed)), squares = noise.squares.map(summed);
  const allSquares = noise.squares.map((side) => side.reduce((sum, value) => sum + value, 0));
  const out = { before: new Float64Array(count), change: new Float64Array(count), limit: new Float64Array(count).fill(Infinity) };
  for (let frame = 0; frame < count; frame++) {
    const sides = rounds.map((side) => side.map((shares) => shares[frame])), means = sides.map(mean);
    out.before[frame] = means[0];
    out.change[frame] = means[1] - means[0];
    const largest = Math.max(...means);
    if (deviations === null || largest < SHARE_MIN) continue;
    const expected = mean(sides.flat());
    const sampling = Math.sqrt(sides.reduce((sum, side, index) => {
      const rest = Math.max(0, allSquares[index] - squares[index][frame]);
      return sum + ((1 - expected) ** 2 * squares[index][frame] + expected ** 2 * rest) / Math.max(1, side.length) ** 2;
    }, 0));
    const chance = noise.isSampling ? deviations * sampling
      : Math.max(deviations * (Math.sqrt(sides.reduce((sum, side) => sum + squaredError(side), 0)) + sampling), ...sides.map(drift));
    out.limit[frame] = Math.max(chance, POINTS_MIN, PART_MIN * largest);
  }
  return out;
}

// As a page has it: each round as `node, share in ten millionths, node, …`, and squares alike.
function ladogaNoiseOfRounds(count, { rounds, squares, deviations, isSampling }) {
  const dense = (pairs, unit) => {
    const out = new Float64Array(count);
    for (let at = 0; at < pairs.length; at += 2) out[pairs[at]] += pairs[at + 1] * unit;
    return out;
  };
  return {
    rounds: rounds.map((side) => side.map((round) => dense(round, 1e-7))), squares: squares.map((side) => dense(side, 1)),
    deviations, isSampling,
  };
}

// Of two ranges of one profile, `{ node, weight }`: there are no rounds, so it is told by so many standard deviations of
// sampling, for some hundred frames at once. With too few samples on a side, of unequal ones so many equal ones as tell as much,
// nothing is told, as in `difference/noise.rs`; `tooFew` says so.
function ladogaNoiseOfRanges(count, sides) {
  const DEVIATIONS = 4.5, SAMPLES_MIN = 20;
  const of = sides.map((samples) => {
    const own = new Float64Array(count), squares = new Float64Array(count);
    const all = samples.reduce((sum, sample) => sum + sample.weight, 0) || 1;
    for (const { node, weight } of samples) {
      own[node] += weight / all;
      squares[node] += (weight / all) ** 2;
    }
    return { own, squares };
  });
  const equal = of.map((side) => {
    const squares = side.squares.reduce((sum, value) => sum + value, 0);
    return squares ? Math.round(1 / squares) : 0;
  });
  const isTooFew = equal.some((samples) => samples < SAMPLES_MIN), deviations = isTooFew ? null : DEVIATIONS;
  return {
    rounds: of.map((side) => [side.own]), squares: of.map((side) => side.squares), deviations: [deviations, deviations], isSampling: true,
    tooFew: isTooFew ? `Everything is grey, as nothing can be told: ${equal[0]} and ${equal[1]} samples, ${SAMPLES_MIN} needed on each side.` : "",
  };
}
