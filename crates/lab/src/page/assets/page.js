"use strict";
// A range of a heat map opens as a flame graph of the same time. Everything else on the page needs no script.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const panels = new Map();

  function seconds(value) { return value.toFixed(value < 10 ? 2 : 1) + " s"; }
  function micros(value) {
    if (value >= 1e6) return (value / 1e6).toFixed(2) + " s";
    return value >= 1000 ? (value / 1000).toFixed(2) + " ms" : value.toFixed(0) + " µs";
  }

  // What the requests of a range were like, from the heat map's own cells.
  function requestsOf(number, from, to) {
    const heat = report.runs[number].heat;
    let all = 0, slowest = -1;
    heat.columns.forEach((cells, column) => {
      const start = column * heat.column_ms, end = start + heat.column_ms;
      if (end <= from || start >= to) return;
      for (const [bucket, count] of cells) {
        all += count;
        slowest = Math.max(slowest, bucket);
      }
    });
    if (slowest < 0) return "no request ended";
    return all.toLocaleString("en") + " requests, the slowest at least " + micros(10 ** (slowest / 8));
  }

  function elementsOf(number) { return document.querySelectorAll('.profile[data-run="' + number + '"]'); }
  // One for each kind of profile that the run has.
  function panelsOf(number) { return Array.from(elementsOf(number), panelOf); }

  function panelOf(element) {
    if (panels.has(element)) return panels.get(element);
    const { run: number, profile } = element.dataset;
    const { offset_ms: offset, data } = report.runs[number].profiles[profile].found.Samples;
    const samples = [];
    let cell = 0;
    for (let at = 0; at < data.samples.length; at += 4) {
      cell += data.samples[at];
      samples.push({ at: offset + (cell + 0.5) * data.cellMs, node: data.samples[at + 2], weight: data.samples[at + 3] });
    }
    const panel = {
      element, samples, tree: data.tree, nodes: data.tree.parent.length, against: false, range: null,
      flame: ladogaFlame(data.tree, data.unit, element),
    };
    panels.set(element, panel);
    element.querySelector(".whole").addEventListener("click", () => select(number, null));
    const against = element.querySelector(".against");
    against.addEventListener("click", () => {
      panel.against = !panel.against;
      against.setAttribute("aria-pressed", String(panel.against));
      show(panel);
    });
    return panel;
  }

  // What may have changed by chance alone.
  function noiseOf(panel, isWanted) {
    const inside = panel.samples.filter((sample) => isWanted(sample.at));
    const outside = panel.samples.filter((sample) => !isWanted(sample.at));
    return ladogaNoise(panel.tree, [outside, inside]);
  }

  function valuesOf(panel, isWanted) {
    const values = new Float64Array(panel.nodes);
    for (const sample of panel.samples) if (isWanted(sample.at)) values[sample.node] += sample.weight;
    return values;
  }

  function show(panel) {
    fill(panel.element.dataset.run, panel);
    // Stacks grow upwards: what matters is at the bottom.
    const scroll = panel.element.querySelector(".scroll");
    scroll.scrollTop = scroll.scrollHeight;
  }

  function fill(number, panel) {
    const words = panel.element.querySelector(".range");
    if (!panel.range) {
      panel.flame.show(valuesOf(panel, () => true));
      words.textContent = panel.against ? "The whole run: drag over the heat map to choose what to hold against the rest."
        : "The whole run. Drag over the heat map above to see a part of it.";
      return;
    }
    const [from, to] = panel.range;
    const inside = (at) => at >= from && at < to;
    const chosen = valuesOf(panel, inside);
    if (panel.against) panel.flame.show(chosen, valuesOf(panel, (at) => !inside(at)), noiseOf(panel, inside));
    else panel.flame.show(chosen);
    words.textContent = seconds(from / 1000) + " to " + seconds(to / 1000) + ": " + requestsOf(number, from, to) +
      (panel.against ? ". Red takes a larger share here than in the rest of the run, blue a smaller one, grey is within noise." : ".");
  }

  // Of requests, and of the samples of each profile.
  function mapsOf(number) { return document.querySelectorAll('.heatmap[data-run="' + number + '"]'); }

  function outline(number, range) { for (const map of mapsOf(number)) outlineOn(map, range); }

  function outlineOn(map, range) {
    const pick = map.querySelector(".pick"), chosen = map.querySelector(".chosen");
    const left = pick.x.baseVal.value, wide = pick.width.baseVal.value, length = map.dataset.seconds * 1000;
    const [from, to] = range || [0, 0];
    chosen.setAttribute("x", left + wide * from / length);
    chosen.setAttribute("width", range ? Math.max(1, wide * (to - from) / length) : 0);
  }

  // `range` in milliseconds since the start of the run; none for all of it.
  function select(number, range) {
    outline(number, range);
    for (const panel of panelsOf(number)) {
      panel.range = range;
      show(panel);
    }
  }

  for (const map of document.querySelectorAll(".heatmap")) {
    const number = Number(map.dataset.run), pick = map.querySelector(".pick");
    const columnMs = report.runs[number].heat.column_ms, length = map.dataset.seconds * 1000;
    let start = null;
    // Whole columns, so that what is chosen is what is seen.
    const columnAt = (event) => {
      const area = pick.getBoundingClientRect();
      const part = Math.max(0, Math.min(0.999999, (event.clientX - area.left) / area.width));
      return Math.floor(part * length / columnMs);
    };
    const range = (event) => {
      const at = columnAt(event);
      return [Math.min(start, at) * columnMs, Math.min(length, (Math.max(start, at) + 1) * columnMs)];
    };
    pick.addEventListener("pointerdown", (event) => {
      start = columnAt(event);
      if (event.isTrusted) pick.setPointerCapture(event.pointerId); // One that a test made up cannot be captured.
      outline(number, range(event));
    });
    pick.addEventListener("pointermove", (event) => { if (start !== null) outline(number, range(event)); });
    pick.addEventListener("pointerup", (event) => {
      if (start !== null) select(number, range(event));
      start = null;
    });
    pick.addEventListener("pointercancel", () => { start = null; });
  }

  // A flame graph is drawn when it comes into sight: there may be many.
  const draw = (element) => show(panelOf(element));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  const profiles = document.querySelectorAll(".profile");
  profiles.forEach((element) => seen.observe(element));
  window.addEventListener("beforeprint", () => {
    for (const round of document.querySelectorAll("details.round")) round.open = true;
    profiles.forEach(draw);
  });

  // For tests and other scripts.
  window.ladogaReport = { report, select, frames: (number, profile = 0) => panelsOf(number)[profile].flame.frames() };
})();
