"use strict";
// The heat map. Range A opens as a flame graph; with a range B the graph is the difference from A to B. A search of the
// flame graph lights up the cells in which it is found. Ranges are in cells of the data, whatever the scale.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const HEAD = 22, CELL_HEIGHT = 6, CELL_WIDTH_MIN = 5, CELL_WIDTH_MAX = 36, LEFT = 52, CANVAS_WIDTH_MAX = 16000;
  const scales = ladogaScales(data.cellMs, data.cells);
  const byId = (id) => document.getElementById(id);
  const canvas = byId("heat"), chosen = byId("chosen"), threadSelect = byId("thread"), scaleSelect = byId("scale");
  const buttons = { a: byId("range-a"), b: byId("range-b") };
  const context = canvas.getContext("2d"), hover = ladogaHover();

  const samples = [];
  let cell = 0;
  for (let at = 0; at < data.samples.length; at += 4) {
    cell += data.samples[at];
    samples.push({ cell, thread: data.samples[at + 1], node: data.samples[at + 2], weight: data.samples[at + 3] });
  }
  const ranges = { a: null, b: null };
  let scale = scales[0], mode = "a", thread = "", width = CELL_WIDTH_MIN, drag = null, cursor = null, anchor = 0;
  let hits = null, isFilter = false, heat = new Float64Array(data.cells), lit = null, shown = heat, shownLit = null;
  const flame = ladogaFlame(data.tree, data.unit, byId("flame"), { search: (found, filtered) => { hits = found; isFilter = filtered; weigh(); draw(); } });

  function option(select, value, text) {
    const element = document.createElement("option");
    element.value = value;
    element.textContent = text;
    select.append(element);
  }
  option(threadSelect, "", "All threads");
  [...new Set(data.threads)].sort().forEach((name) => option(threadSelect, "=" + name, name));
  scales.forEach((one, index) => option(scaleSelect, String(index), "Scale: " + one.name.toLowerCase()));
  scaleSelect.hidden = scales.length < 2;

  function wanted(sample) { return thread === "" || "=" + data.threads[sample.thread] === thread; }

  function weigh() {
    heat = new Float64Array(data.cells);
    lit = hits && new Float64Array(data.cells);
    for (const sample of samples) {
      if (!wanted(sample) || (isFilter && hits && !hits[sample.node])) continue;
      heat[sample.cell] += sample.weight;
      if (hits && hits[sample.node]) lit[sample.cell] += sample.weight;
    }
    rescale();
  }
  function rescale() {
    shown = ladogaRescaled(heat, scale);
    shownLit = lit && ladogaRescaled(lit, scale);
    byId("explained").textContent = scale.words + ", from top to bottom. Tap a cell, drag over a range, or tap the number on top of a column.";
    byId("matched").hidden = !lit;
  }

  function samplesOf(range) {
    return samples.filter((sample) => wanted(sample) && sample.cell >= range[0] && sample.cell <= range[1]);
  }
  function valuesOf(range) {
    const values = new Float64Array(data.tree.parent.length);
    for (const sample of samplesOf(range)) values[sample.node] += sample.weight;
    return values;
  }

  const time = (at) => ladogaTime(at * data.cellMs);
  function words(range) { return time(range[0]) + " to " + time(Math.min(range[1] + 1, data.cells)); }
  const corner = (at) => [LEFT + Math.floor(at / scale.rows) * width, HEAD + (at % scale.rows) * CELL_HEIGHT];

  function resize() {
    const room = canvas.parentElement.clientWidth - 2 - LEFT, most = CANVAS_WIDTH_MAX / scale.columns;
    width = Math.max(Math.min(CELL_WIDTH_MIN, Math.max(1, Math.floor(most))), Math.min(CELL_WIDTH_MAX, Math.floor(room / scale.columns)));
    const wide = LEFT + scale.columns * width + 1, high = HEAD + scale.rows * CELL_HEIGHT + 1;
    const ratio = wide * (window.devicePixelRatio || 1) > CANVAS_WIDTH_MAX ? 1 : window.devicePixelRatio || 1;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    canvas.style.width = wide + "px";
    canvas.style.height = high + "px";
    // Where the map fits, a finger selects; where it does not, it scrolls sideways as well.
    canvas.style.touchAction = scale.columns * width <= room ? "none" : "pan-x";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function draw() {
    resize();
    const style = getComputedStyle(document.documentElement);
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches && !window.matchMedia("print").matches;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = style.getPropertyValue("--muted");
    const every = Math.ceil((context.measureText(scale.column(scale.columns)).width + 8) / width);
    for (let column = 0; column < scale.columns; column += every) context.fillText(scale.column(column), LEFT + column * width + 1, HEAD / 2);
    for (let row = 0; row < scale.rows; row += scale.every) context.fillText(scale.row(row), 8, HEAD + row * CELL_HEIGHT + 5);
    const most = shown.reduce((a, b) => Math.max(a, b), 0);
    byId("most").textContent = `${ladogaAmount(most, data.unit)} in a cell`;
    for (let at = 0; at < shown.length; at++) {
      const [x, y] = corner(at), part = most ? Math.sqrt(shown[at] / most) : 0;
      context.fillStyle = shown[at] === 0 ? (dark ? "#1b1d20" : "#f3f3f5")
        : shownLit ? `hsl(0 0% ${dark ? 22 + 22 * part : 90 - 22 * part}%)`
        : `hsl(${52 - 50 * part} 92% ${dark ? 22 + 38 * part : 90 - 46 * part}%)`;
      context.fillRect(x, y, Math.max(1, width - 1), CELL_HEIGHT - 1);
      if (shownLit && shownLit[at] > 0) {
        context.fillStyle = `hsl(320 ${60 + 30 * part}% ${dark ? 45 + 25 * part : 80 - 25 * part}%)`;
        context.fillRect(x, y, Math.max(1, (width - 1) * shownLit[at] / shown[at]), CELL_HEIGHT - 1);
      }
    }
    outline(ranges.a, style.getPropertyValue("--accent"));
    outline(ranges.b, style.getPropertyValue("--b"));
    if (cursor !== null && document.activeElement === canvas) outline([cursor * scale.cell, cursor * scale.cell], style.getPropertyValue("--text"));
  }

  function outline(range, colour) {
    if (!range) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    const end = Math.floor(range[1] / scale.cell);
    for (let from = Math.floor(range[0] / scale.cell); from <= end;) {
      const last = Math.min(end, (Math.floor(from / scale.rows) + 1) * scale.rows - 1);
      const [x, y] = corner(from);
      context.strokeRect(x, y - 0.5, Math.max(1, width - 1), (last - from + 1) * CELL_HEIGHT);
      from = last + 1;
    }
  }

  // From a cell of the scale to the cells of the data.
  function cellsOf(from, to) {
    const last = data.cells - 1, [low, high] = [Math.min(from, to), Math.max(from, to)];
    return [Math.min(low * scale.cell, last), Math.min((high + 1) * scale.cell - 1, last)];
  }

  // The cells of the scale under a point; on a column's number: the whole column.
  function pointed(event) {
    const area = canvas.getBoundingClientRect(), ratio = area.width / canvas.clientWidth || 1;
    const x = (event.clientX - area.left) / ratio, y = (event.clientY - area.top) / ratio;
    const column = Math.max(0, Math.min(scale.columns - 1, Math.floor((x - LEFT) / width)));
    const first = column * scale.rows;
    if (y < HEAD) return [first, Math.min(shown.length, first + scale.rows) - 1];
    const at = Math.min(shown.length - 1, first + Math.min(scale.rows - 1, Math.floor((y - HEAD) / CELL_HEIGHT)));
    return [at, at];
  }

  function open() {
    draw();
    const a = ranges.a || [0, data.cells - 1];
    if (ranges.b) {
      const noise = ladogaNoiseOfRanges(data.tree.parent.length, [samplesOf(a), samplesOf(ranges.b)]);
      flame.show(valuesOf(ranges.b), valuesOf(a), noise);
      chosen.textContent = "Difference: " + words(ranges.b) + " (orange), against " + (ranges.a ? words(a) + " (blue)" : "the whole run") + ". " +
        (noise.tooFew || "Red takes a larger share, blue a smaller one, grey is within noise.");
    } else {
      flame.show(valuesOf(a));
      chosen.textContent = ranges.a ? "Range " + words(a) + "." : "The whole run.";
    }
  }

  function setMode(next) {
    mode = next;
    buttons.a.setAttribute("aria-pressed", String(mode === "a"));
    buttons.b.setAttribute("aria-pressed", String(mode === "b"));
  }
  function choose(range) {
    ranges[mode] = range;
    if (mode === "a") ranges.b = null;
  }
  function all() { ranges.a = ranges.b = null; setMode("a"); open(); }

  function tell(event) {
    const [from, to] = pointed(event), range = cellsOf(from, to);
    let sum = 0, found = 0;
    for (let at = from; at <= to; at++) { sum += shown[at]; found += shownLit ? shownLit[at] : 0; }
    const lines = [words(range), ladogaAmount(sum, data.unit)];
    if (data.startedMs) lines.splice(1, 0, new Date(data.startedMs + range[0] * data.cellMs).toISOString().slice(11, 22) + " UTC");
    if (data.unit === "nanoseconds") lines.push((sum / 1e6 / ((range[1] - range[0] + 1) * data.cellMs)).toFixed(2) + " threads at a time");
    if (shownLit) lines.push((sum ? 100 * found / sum : 0).toFixed(1) + " % match the search");
    hover.show(lines, event.clientX, event.clientY);
  }

  canvas.addEventListener("pointerdown", (event) => {
    drag = pointed(event);
    cursor = anchor = drag[0];
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    choose(cellsOf(...drag));
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    tell(event);
    if (!drag) return;
    const at = pointed(event);
    const inHead = event.clientY - canvas.getBoundingClientRect().top < HEAD;
    if (inHead && drag[0] === drag[1]) return;
    choose(cellsOf(Math.min(drag[0], at[0]), Math.max(drag[1], at[1])));
    draw();
  });
  canvas.addEventListener("pointerleave", hover.hide);
  // The answer to a drag has to be in sight, without a jump when it is.
  const finish = () => {
    if (!drag) return;
    drag = null;
    open();
    byId("flame").scrollIntoView({ block: "nearest" });
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -scale.rows, ArrowRight: scale.rows };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) {
      const to = cursor === null ? 0 : cursor + steps[event.key];
      cursor = Math.max(0, Math.min(shown.length - 1, to));
      if (!event.shiftKey) anchor = cursor;
      choose(cellsOf(anchor, cursor));
      open();
    } else if (event.key === "Escape") {
      cursor = null;
      all();
    } else if (event.key.toLowerCase() === "b") setMode(mode === "a" ? "b" : "a");
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("focus", draw);
  canvas.addEventListener("blur", draw);
  buttons.a.addEventListener("click", () => setMode("a"));
  buttons.b.addEventListener("click", () => setMode("b"));
  byId("whole").addEventListener("click", all);
  threadSelect.addEventListener("change", () => { thread = threadSelect.value; weigh(); open(); });
  scaleSelect.addEventListener("change", () => useScale(Number(scaleSelect.value)));
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", draw);
  window.addEventListener("afterprint", draw);

  function useScale(index) {
    scale = scales[index];
    scaleSelect.value = String(index);
    cursor = null;
    rescale();
    draw();
  }

  // The finest scale that has room; the coarsest if none has.
  const room = canvas.parentElement.clientWidth - LEFT;
  const fitting = scales.findIndex((one) => one.columns * CELL_WIDTH_MIN <= room);
  useScale(fitting < 0 ? scales.length - 1 : fitting);
  weigh();
  open();
  // For tests and for pages that embed this one: ranges in milliseconds since the start.
  window.ladogaProfile = {
    flame,
    select(which, fromMs, toMs) {
      ranges[which] = [Math.floor(fromMs / data.cellMs), Math.min(data.cells, Math.ceil(toMs / data.cellMs)) - 1];
      if (which === "a") ranges.b = null;
      open();
    },
    heat: () => Array.from(heat),
    lit: () => (lit ? Array.from(lit) : null),
    scales: scales.map((one) => one.name),
    useScale,
    // Where the middle of a cell lies on the map, as parts of its width and height.
    place(at) {
      const [x, y] = corner(Math.floor(at / scale.cell));
      return [(x + width / 2) / canvas.clientWidth, (y + CELL_HEIGHT / 2) / canvas.clientHeight];
    },
  };
})();
