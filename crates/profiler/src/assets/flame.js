// A flame graph on a canvas: tap a frame to widen it, search to mark. With a second set of values it shows the
// difference: width is the second's, red is more, blue is less, both as parts of their own total.
// Its parts are known by their ids, or, on a page with several, by the same names as classes inside of `root`.
function ladogaFlame(tree, unit, root) {
  const ROW = 18, MIN_WIDTH = 0.4, PHONE_WIDTH = 340;
  const part = (name) => (root ? root.querySelector("." + name) : document.getElementById(name));
  const canvas = part("flame"), tip = part("tip"), search = part("search");
  const context = canvas.getContext("2d");
  const count = tree.parent.length;
  const children = Array.from({ length: count + 1 }, () => []);
  const depth = new Array(count).fill(0);
  for (let node = 0; node < count; node++) {
    const parent = tree.parent[node];
    children[parent + 1].push(node);
    depth[node] = parent < 0 ? 1 : depth[parent] + 1;
  }
  for (const list of children) list.sort((a, b) => (label(a) < label(b) ? -1 : label(a) > label(b) ? 1 : 0));
  let after = new Float64Array(count + 1), before = null, noise = null, zoom = -1, boxes = [], wanted = "";

  function label(node) { return node < 0 ? "all" : tree.names[tree.name[node]]; }

  // Index 0 is the root: each node's own weight and all of its callees'.
  function totals(values) {
    const sums = new Float64Array(count + 1);
    for (let node = count - 1; node >= 0; node--) {
      sums[node + 1] += values[node] || 0;
      sums[tree.parent[node] + 1] += sums[node + 1];
    }
    return sums;
  }

  function amount(value) {
    if (unit === "bytes") {
      const units = ["B", "KiB", "MiB", "GiB", "TiB"];
      let at = 0;
      while (value >= 1024 && at < units.length - 1) { value /= 1024; at++; }
      return value.toFixed(at ? 1 : 0) + " " + units[at];
    }
    if (value >= 1e9) return (value / 1e9).toFixed(2) + " s";
    return (value / 1e6).toFixed(1) + " ms";
  }

  function share(sums, node) { return sums[0] > 0 ? sums[node + 1] / sums[0] : 0; }

  function describe(node) {
    let text = label(node) + " · " + amount(after[node + 1]) + " · " + (100 * share(after, node)).toFixed(1) + " %";
    if (before) {
      const change = 100 * (share(after, node) - share(before, node));
      text += " · " + (change >= 0 ? "+" : "−") + Math.abs(change).toFixed(1) + " points" + (isNoise(node) ? ", within noise" : "") +
        " (before " + amount(before[node + 1]) + ")";
    }
    return text;
  }

  // What may have changed by chance has no colour.
  function isNoise(node) { return Math.abs(share(after, node) - share(before, node)) <= (node < 0 ? 1 : noise[node]); }

  function colour(node) {
    const name = label(node);
    if (wanted && name.toLowerCase().includes(wanted)) return "#f08fd0";
    if (before) {
      const change = share(after, node) - share(before, node);
      const strength = Math.min(1, Math.abs(change) * 8);
      if (isNoise(node)) return "#d9d9d9";
      const weak = Math.round(225 - 130 * strength);
      return change > 0 ? `rgb(240,${weak},${weak})` : `rgb(${weak},${weak},245)`;
    }
    let hash = 0;
    for (let at = 0; at < name.length; at++) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
    const spread = hash % 25;
    if (name.endsWith("_[k]")) return `hsl(${20 + spread} 85% 68%)`;
    if (name.startsWith("[")) return `hsl(0 0% ${72 + (spread % 12)}%)`;
    if (/^<?(std|core|alloc)::/.test(name)) return `hsl(${40 + (spread % 12)} 80% 66%)`;
    return name.includes("::") ? `hsl(${105 + spread} 45% 68%)` : `hsl(${185 + spread} 45% 72%)`;
  }

  // A frame that vanished has no width in the second set: it keeps its share of the first, so that it is seen.
  function width(node) {
    if (!before) return share(after, node);
    return Math.max(share(after, node), share(before, node));
  }

  function layout(size) {
    boxes = [];
    const place = (node, x, wide, row) => {
      if (wide < MIN_WIDTH) return;
      boxes.push({ node, x, wide, row });
      const list = children[node + 1];
      let sum = 0;
      for (const child of list) sum += width(child);
      const scale = wide / Math.max(width(node), sum, 1e-12);
      let at = x;
      for (const child of list) {
        const part = width(child) * scale;
        place(child, at, part, row + 1);
        at += part;
      }
    };
    const above = [];
    for (let node = zoom; node >= 0; node = tree.parent[node]) above.push(tree.parent[node]);
    above.reverse().forEach((node, row) => boxes.push({ node, x: 0, wide: size, row }));
    place(zoom, 0, size, above.length);
  }

  function draw() {
    const size = Math.max(PHONE_WIDTH, canvas.parentElement.clientWidth - 2);
    const ratio = window.devicePixelRatio || 1;
    layout(size);
    const rows = boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1;
    canvas.width = size * ratio;
    canvas.height = rows * ROW * ratio;
    canvas.style.width = size + "px";
    canvas.style.height = rows * ROW + "px";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const letter = context.measureText("m").width * 0.62;
    for (const box of boxes) {
      const y = (rows - 1 - box.row) * ROW;
      context.fillStyle = colour(box.node);
      context.fillRect(box.x, y, Math.max(box.wide - 0.5, 0.4), ROW - 1);
      const letters = Math.floor((box.wide - 6) / letter);
      if (letters > 2) {
        context.fillStyle = "#16181d";
        context.fillText(shortened(label(box.node), letters), box.x + 3, y + ROW / 2, box.wide - 4);
      }
    }
    canvas.rows = rows;
  }

  // As much of a path's end as there is room for: the function says more than its crate.
  function shortened(text, letters) {
    let rest = text;
    while (rest.length > letters) {
      const at = rest.indexOf("::");
      if (at < 0 || rest.startsWith("<")) return rest.slice(0, letters - 1) + "…";
      // A closure is called like every other: what it is in has to stand before it.
      if (rest.startsWith("{", at + 2)) return rest.slice(0, letters - 1) + "…";
      rest = rest.slice(at + 2);
    }
    return rest;
  }

  function boxAt(event) {
    const area = canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const row = canvas.rows - 1 - Math.floor((event.clientY - area.top) / ROW);
    return boxes.find((box) => box.row === row && x >= box.x && x < box.x + box.wide);
  }

  function summary() {
    if (after[0] <= 0 && !(before && before[0] > 0)) return "No samples here.";
    let text = amount(after[0]) + " in all" + (before ? ", before " + amount(before[0]) : "");
    if (wanted) {
      let marked = 0;
      const visit = (node) => {
        if (label(node).toLowerCase().includes(wanted)) marked += after[node + 1];
        else children[node + 1].forEach(visit);
      };
      children[0].forEach(visit);
      text += " · " + (after[0] > 0 ? (100 * marked / after[0]).toFixed(1) : "0.0") + " % match the search";
    }
    return text;
  }

  function refresh() { draw(); tip.textContent = summary(); }
  function zoomTo(node) { zoom = node; draw(); tip.textContent = describe(node); }

  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (box) tip.textContent = describe(box.node);
  });
  // A graph that was widened may be lower, and no longer under the pointer: what it shows is still told.
  canvas.addEventListener("pointerleave", () => { tip.textContent = zoom < 0 ? summary() : describe(zoom); });
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) zoomTo(box.node);
  });
  part("reset").addEventListener("click", () => { zoom = -1; refresh(); });
  search.addEventListener("input", () => { wanted = search.value.trim().toLowerCase(); refresh(); });
  window.addEventListener("resize", draw);

  return {
    // `old` makes it a difference, of which `limits` says by node how far a share may move by chance.
    show(values, old, limits) {
      after = totals(values);
      before = old ? totals(old) : null;
      noise = limits;
      zoom = -1;
      refresh();
    },
    // For tests and other scripts: the sum of what is shown, where a frame lies on the graph as parts of its width and
    // height, and what is drawn, widest first.
    total: () => after[0],
    place(part) {
      const box = boxes.filter((box) => label(box.node).includes(part)).sort((a, b) => b.wide - a.wide)[0];
      return [(box.x + box.wide / 2) / canvas.clientWidth, ((canvas.rows - 1 - box.row + 0.5) * ROW) / canvas.clientHeight];
    },
    frames() {
      return boxes.map((box) => ({ name: label(box.node), share: share(after, box.node), before: before ? share(before, box.node) : null,
        isNoise: before ? isNoise(box.node) : null }))
        .sort((a, b) => b.share - a.share);
    },
    amount,
  };
}
