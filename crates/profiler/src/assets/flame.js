"use strict";
// A flame graph on a canvas inside of `host`, with all that one does with it: tap or Enter to widen a frame, arrow keys to
// walk, a regular expression to mark or to filter. With a second set of values it shows the difference: width is the
// second's, red is more, blue is less, both as parts of their own total.
// `told.search(hits, isFilter)` hears what a search matches, by node of the tree.
function ladogaFlame(tree, unit, host, told) {
  const ROW = 18, MIN_WIDTH = 0.4, PHONE_WIDTH = 340;
  const stacks = ladogaStacks(tree), hover = ladogaHover();
  const parts = ladogaFlameParts(host, unit);
  const { canvas, scroll, tip, search } = parts;
  const context = canvas.getContext("2d");
  const options = { fold: true, reverse: false, icicle: false, filter: false };
  let after = [], before = null, noise = null, pattern = null, hits = null;
  let view = null, sums = [], oldSums = null, changes = null, zoom = -1, at = -1, boxes = [], rows = 1, isInSight = false;

  const label = (node) => (node < 0 ? "all" : view.names[node]);
  const amount = (value) => ladogaAmount(value, unit);
  const percent = (part) => (100 * part).toFixed(1) + " %";
  const share = (of, node) => (of[0] > 0 ? of[node + 1] / of[0] : 0);

  // Index 0 is the root: each node's own weight and all of its callees'.
  function totals(values) {
    const out = new Float64Array(view.names.length + 1);
    for (let node = view.names.length - 1; node >= 0; node--) {
      out[node + 1] += values[node];
      out[view.parent[node] + 1] += out[node + 1];
    }
    return out;
  }

  function rebuild() {
    hits = pattern ? stacks.hits(pattern.test) : null;
    view = stacks.view(after, before, options, options.filter ? hits : null);
    sums = totals(view.after);
    oldSums = before ? totals(view.before) : null;
    changes = before ? ladogaNoise(view, noise, options.reverse) : null;
    zoom = at = -1;
    refresh();
  }

  function lines(node) {
    const out = [label(node), amount(sums[node + 1]) + " · " + percent(share(sums, node)) + " of what is shown"];
    if (node >= 0 && view.after[node]) out.push(amount(view.after[node]) + " in itself");
    if (changes && node >= 0) {
      const change = 100 * changes.change[node];
      out.push((change >= 0 ? "+" : "−") + Math.abs(change).toFixed(1) + " points" + (isNoise(node) ? ", within noise" : "") + ", before " + percent(changes.before[node]));
    }
    if (node >= 0 && view.hidden[node]) out.push(`${view.hidden[node].size} functions of the runtime are folded here`);
    return out;
  }

  // What may have changed by chance has no colour.
  const isNoise = (node) => node < 0 || Math.abs(changes.change[node]) <= changes.limit[node];

  function isMarked(node) {
    if (!pattern || node < 0) return false;
    const hidden = view.hidden[node];
    return pattern.test.test(label(node)) || (hidden !== null && [...hidden].some((name) => pattern.test.test(name)));
  }

  function colour(node) {
    if (isMarked(node)) return "#f08fd0";
    if (changes) {
      if (isNoise(node)) return "#d9d9d9";
      const change = changes.change[node];
      const weak = Math.round(225 - 130 * Math.min(1, Math.abs(change) * 8));
      return change > 0 ? `rgb(240,${weak},${weak})` : `rgb(${weak},${weak},245)`;
    }
    return ladogaFrameColour(label(node), node < 0 || (!options.reverse && view.parent[node] < 0));
  }

  // A frame that vanished has no width in the second set: it keeps its share of the first, so that it is seen.
  const width = (node) => (oldSums ? Math.max(share(sums, node), share(oldSums, node)) : share(sums, node));

  function layout(size) {
    boxes = [];
    const place = (node, x, wide, row) => {
      if (wide < MIN_WIDTH) return;
      boxes.push({ node, x, wide, row });
      const list = view.kids[node + 1];
      let sum = 0;
      for (const child of list) sum += width(child);
      const scale = wide / Math.max(width(node), sum, 1e-12);
      for (const child of list) {
        const part = width(child) * scale;
        place(child, x, part, row + 1);
        x += part;
      }
    };
    const above = [];
    for (let node = zoom; node >= 0; node = view.parent[node]) above.push(view.parent[node]);
    above.reverse().forEach((node, row) => boxes.push({ node, x: 0, wide: size, row }));
    place(zoom, 0, size, above.length);
  }

  const top = (box) => (options.icicle ? box.row : rows - 1 - box.row) * ROW;

  function draw() {
    if (!view) return;
    const size = Math.max(PHONE_WIDTH, scroll.clientWidth), ratio = window.devicePixelRatio || 1;
    layout(size);
    rows = boxes.reduce((most, box) => Math.max(most, box.row), 0) + 1;
    canvas.width = size * ratio;
    canvas.height = rows * ROW * ratio;
    canvas.style.width = size + "px";
    canvas.style.height = rows * ROW + "px";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const letter = context.measureText("m").width * 0.62;
    for (const box of boxes) {
      const y = top(box);
      context.fillStyle = colour(box.node);
      context.fillRect(box.x, y, Math.max(box.wide - 0.5, 0.4), ROW - 1);
      const letters = Math.floor((box.wide - 6) / letter);
      if (letters > 2) {
        context.fillStyle = "#16181d";
        context.fillText(ladogaShortened(label(box.node), letters), box.x + 3, y + ROW / 2, box.wide - 4);
      }
    }
    const box = isInSight && boxes.find((other) => other.node === at);
    if (box) {
      context.strokeStyle = "#0b0d10";
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, top(box) + 1, Math.max(box.wide - 2.5, 1), ROW - 3);
    }
  }

  function summary() {
    const problem = pattern && pattern.problem ? " · " + pattern.problem : "";
    if (sums[0] <= 0 && !(oldSums && oldSums[0] > 0)) return (hits && options.filter ? "Nothing matches the search." : "No samples here.") + problem;
    let text = amount(sums[0]) + " in all" + (oldSums ? ", before " + amount(oldSums[0]) : "");
    if (hits) {
      let marked = 0, all = 0;
      for (let node = 0; node < stacks.count; node++) {
        all += after[node] || 0;
        if (hits[node]) marked += after[node] || 0;
      }
      text += " · " + (all > 0 ? percent(marked / all) : "0.0 %") + " match the search";
    }
    return text + problem;
  }

  // The base is where one begins to read.
  function toBase() { scroll.scrollTop = options.icicle ? 0 : scroll.scrollHeight; }
  function refresh() { draw(); tip.textContent = summary(); toBase(); }
  function zoomTo(node) {
    zoom = at = node;
    draw();
    tip.textContent = node < 0 ? summary() : lines(node).join(" · ");
    toBase();
  }

  function boxAt(event) {
    const area = canvas.getBoundingClientRect();
    const x = event.clientX - area.left, line = Math.floor((event.clientY - area.top) / ROW);
    const row = options.icicle ? line : rows - 1 - line;
    return boxes.find((box) => box.row === row && x >= box.x && x < box.x + box.wide);
  }

  // The frame that the keyboard is on: told, outlined, and scrolled to.
  function walkTo(box) {
    if (!box) return;
    at = box.node;
    isInSight = true;
    draw();
    tip.textContent = lines(at).join(" · ");
    const y = top(box);
    if (y < scroll.scrollTop) scroll.scrollTop = y;
    if (y + ROW > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = y + ROW - scroll.clientHeight;
  }

  function step(key) {
    const here = boxes.find((box) => box.node === at) || boxes.find((box) => box.node === zoom);
    const up = options.icicle ? "ArrowDown" : "ArrowUp";
    const inRow = (row) => boxes.filter((box) => box.row === row).sort((a, b) => a.x - b.x);
    if (key === up) {
      const callees = boxes.filter((box) => box.row === here.row + 1 && box.x >= here.x - 1e-6 && box.x < here.x + here.wide);
      return callees.sort((a, b) => b.wide - a.wide)[0];
    }
    if (key === "ArrowUp" || key === "ArrowDown") return boxes.find((box) => box.row === here.row - 1 && here.x >= box.x - 1e-6 && here.x < box.x + box.wide);
    const row = inRow(here.row);
    return row[row.indexOf(here) + (key === "ArrowLeft" ? -1 : 1)];
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) walkTo(step(event.key));
    else if (event.key === "Enter" || event.key === " ") zoomTo(at);
    else if (event.key === "Escape" && zoom >= 0) zoomTo(-1);
    else if (event.key === "Escape" && pattern) find("");
    else if (event.key === "/") search.focus();
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("blur", () => { isInSight = false; draw(); });
  const tell = (event) => {
    const box = boxAt(event);
    if (box) hover.show(lines(box.node), event.clientX, event.clientY);
    else hover.hide();
  };
  canvas.addEventListener("pointermove", tell);
  canvas.addEventListener("pointerdown", tell);
  canvas.addEventListener("pointerleave", hover.hide);
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) zoomTo(box.node);
  });

  function find(text) {
    search.value = text;
    pattern = ladogaPattern(text.trim());
    parts.buttons.filter.disabled = !pattern;
    if (!pattern && options.filter) toggle("filter");
    else rebuild();
    if (told && told.search) told.search(hits, options.filter);
  }
  function toggle(name) {
    options[name] = !options[name];
    parts.press(name, options[name]);
    rebuild();
    if (told && told.search && name === "filter") told.search(hits, options.filter);
  }
  for (const name of Object.keys(options)) parts.buttons[name].addEventListener("click", () => toggle(name));
  parts.buttons.reset.addEventListener("click", () => zoomTo(-1));
  search.addEventListener("input", () => find(search.value));
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") find(""); });
  window.addEventListener("resize", draw);
  parts.press("fold", true);

  return {
    // `old` makes it a difference, and `known` is what `ladogaNoise` tells chance by.
    show(values, old, known) {
      after = values;
      before = old || null;
      noise = known;
      host.classList.toggle("is-difference", before !== null);
      rebuild();
    },
    find, toggle, draw,
    hits: () => hits,
    // For tests and other scripts: the sum of what is shown, where the widest frame of a name lies on the graph as parts of
    // its width and height, and what is drawn, widest first, with the row from the base.
    total: () => sums[0],
    place(name) {
      const box = boxes.filter((other) => label(other.node) === name).sort((a, b) => b.wide - a.wide)[0];
      return [(box.x + box.wide / 2) / canvas.clientWidth, (top(box) + ROW / 2) / canvas.clientHeight];
    },
    frames() {
      return boxes.map((box) => ({ name: label(box.node), row: box.row, share: share(sums, box.node),
        before: oldSums ? share(oldSums, box.node) : null, isNoise: oldSums ? isNoise(box.node) : null }))
        .sort((a, b) => b.share - a.share);
    },
    amount,
  };
}
