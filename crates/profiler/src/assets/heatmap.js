"use strict";
// The heat map: columns are seconds, rows the cells of a second. Range A opens as a flame graph; with a range B the
// graph is the difference from A to B.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const flame = ladogaFlame(data.tree, data.unit);
  const HEAD = 22, CELL_HEIGHT = 6, CELL_WIDTH_MIN = 5, CELL_WIDTH_MAX = 36, LEFT = 44;
  const rows = Math.round(1000 / data.cellMs);
  const columns = Math.ceil(data.cells / rows);
  const canvas = document.getElementById("heat");
  const context = canvas.getContext("2d");
  const chosen = document.getElementById("chosen");
  const buttons = { a: document.getElementById("range-a"), b: document.getElementById("range-b") };
  const threadSelect = document.getElementById("thread");

  const samples = [];
  let cell = 0;
  for (let at = 0; at < data.samples.length; at += 4) {
    cell += data.samples[at];
    samples.push({ cell, thread: data.samples[at + 1], node: data.samples[at + 2], weight: data.samples[at + 3] });
  }
  const ranges = { a: null, b: null };
  let mode = "a", thread = "", width = CELL_WIDTH_MIN, drag = null;
  let heat = new Float64Array(data.cells);

  function option(value, text) {
    const element = document.createElement("option");
    element.value = value;
    element.textContent = text;
    threadSelect.append(element);
  }
  option("", "All threads");
  [...new Set(data.threads)].sort().forEach((name) => option("=" + name, name));

  function wanted(sample) { return thread === "" || "=" + data.threads[sample.thread] === thread; }

  function weigh() {
    heat = new Float64Array(data.cells);
    for (const sample of samples) if (wanted(sample)) heat[sample.cell] += sample.weight;
  }

  function samplesOf(range) {
    return samples.filter((sample) => wanted(sample) && sample.cell >= range[0] && sample.cell <= range[1]);
  }
  function valuesOf(range) {
    const values = new Float64Array(data.tree.parent.length);
    for (const sample of samplesOf(range)) values[sample.node] += sample.weight;
    return values;
  }

  function time(at) { return (at * data.cellMs / 1000).toFixed(2) + " s"; }
  function words(range) { return time(range[0]) + " to " + time(Math.min(range[1] + 1, data.cells)); }

  function draw() {
    const room = canvas.parentElement.clientWidth - 2 - LEFT;
    width = Math.max(CELL_WIDTH_MIN, Math.min(CELL_WIDTH_MAX, Math.floor(room / columns)));
    const ratio = window.devicePixelRatio || 1;
    const wide = LEFT + columns * width + 1, high = HEAD + rows * CELL_HEIGHT + 1;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    canvas.style.width = wide + "px";
    canvas.style.height = high + "px";
    // Where the map fits, a finger selects; where it does not, it scrolls sideways as well.
    canvas.style.touchAction = columns * width <= room ? "none" : "pan-x";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = style.getPropertyValue("--muted");
    const every = Math.ceil(26 / width);
    for (let column = 0; column < columns; column += every) context.fillText(column + " s", LEFT + column * width + 1, HEAD / 2);
    for (let row = 0; row < rows; row += 10) context.fillText("." + String(row * data.cellMs).padStart(3, "0"), 8, HEAD + row * CELL_HEIGHT + 5);
    const most = heat.reduce((a, b) => Math.max(a, b), 0) || 1;
    for (let at = 0; at < data.cells; at++) {
      const part = Math.sqrt(heat[at] / most);
      context.fillStyle = heat[at] === 0 ? (dark ? "#1b1d20" : "#f3f3f5")
        : `hsl(${52 - 50 * part} 92% ${dark ? 22 + 38 * part : 90 - 46 * part}%)`;
      const [x, y] = corner(at);
      context.fillRect(x, y, width - 1, CELL_HEIGHT - 1);
    }
    outline(ranges.a, style.getPropertyValue("--accent"));
    outline(ranges.b, style.getPropertyValue("--b"));
  }

  function corner(at) { return [LEFT + Math.floor(at / rows) * width, HEAD + (at % rows) * CELL_HEIGHT]; }

  function outline(range, colour) {
    if (!range) return;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    for (let from = range[0]; from <= range[1];) {
      const last = Math.min(range[1], (Math.floor(from / rows) + 1) * rows - 1);
      const [x, y] = corner(from);
      context.strokeRect(x, y - 0.5, width - 1, (last - from + 1) * CELL_HEIGHT);
      from = last + 1;
    }
  }

  // The cell under a point; on the second's number: the whole second.
  function rangeAt(event) {
    const area = canvas.getBoundingClientRect();
    const column = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - area.left - LEFT) / width)));
    const y = event.clientY - area.top - HEAD;
    const clip = (at) => Math.max(0, Math.min(data.cells - 1, at));
    if (y < 0 && !drag) return [clip(column * rows), clip(column * rows + rows - 1)];
    const at = clip(column * rows + Math.max(0, Math.min(rows - 1, Math.floor(y / CELL_HEIGHT))));
    return [at, at];
  }

  function open() {
    const a = ranges.a || [0, data.cells - 1];
    if (ranges.b) {
      flame.show(valuesOf(ranges.b), valuesOf(a), ladogaNoise(data.tree, [samplesOf(a), samplesOf(ranges.b)]));
      chosen.textContent = "Difference: " + words(ranges.b) + ", against " + words(a) + ". Red is more, blue is less, grey is within noise.";
    } else {
      flame.show(valuesOf(a));
      chosen.textContent = ranges.a ? "Range " + words(a) + "." : "The whole run.";
    }
    draw();
  }

  function setMode(next) {
    mode = next;
    buttons.a.setAttribute("aria-pressed", String(mode === "a"));
    buttons.b.setAttribute("aria-pressed", String(mode === "b"));
  }

  function select(which, from, to) {
    ranges[which] = [Math.min(from, to), Math.max(from, to)];
    if (which === "a") ranges.b = null;
    open();
  }

  canvas.addEventListener("pointerdown", (event) => {
    const start = rangeAt(event);
    drag = start;
    canvas.setPointerCapture(event.pointerId);
    ranges[mode] = start;
    if (mode === "a") ranges.b = null;
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const at = rangeAt(event);
    const inHead = event.clientY - canvas.getBoundingClientRect().top < HEAD;
    if (inHead && drag[0] !== drag[1]) return;
    ranges[mode] = [Math.min(drag[0], at[0]), Math.max(drag[1], at[1])];
    draw();
  });
  const finish = () => { if (drag) { drag = null; open(); } };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  buttons.a.addEventListener("click", () => { setMode("a"); });
  buttons.b.addEventListener("click", () => { setMode("b"); });
  document.getElementById("whole").addEventListener("click", () => { ranges.a = ranges.b = null; setMode("a"); open(); });
  threadSelect.addEventListener("change", () => { thread = threadSelect.value; weigh(); open(); });
  window.addEventListener("resize", draw);

  weigh();
  open();
  // For tests and for pages that embed this one: ranges in milliseconds since the start.
  window.ladogaProfile = {
    flame,
    select(which, fromMs, toMs) { select(which, Math.floor(fromMs / data.cellMs), Math.min(data.cells, Math.ceil(toMs / data.cellMs)) - 1); },
    heat: () => Array.from(heat),
    // Where the middle of a cell lies on the map, as parts of its width and height.
    place(at) {
      const [x, y] = corner(at);
      return [(x + width / 2) / canvas.clientWidth, (y + CELL_HEIGHT / 2) / canvas.clientHeight];
    },
  };
})();
