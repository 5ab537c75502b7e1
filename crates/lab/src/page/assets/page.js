"use strict";
// A range of a latency heat map opens as a flame graph of the same time; what the flame graph's search finds lights up
// above the heat map. Everything else on the page needs no script of its own.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const BUCKETS_A_DECADE = 8;
  const panels = new Map();
  const hover = ladogaHover();

  function seconds(value) { return value.toFixed(value < 10 ? 2 : 1) + " s"; }
  const lowest = (bucket) => ladogaMicros(10 ** (bucket / BUCKETS_A_DECADE));

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
    return all.toLocaleString("en") + " requests, the slowest at least " + lowest(slowest);
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
    const told = { search: (hits, isFilter) => light(number, samples, hits, isFilter) };
    const panel = {
      element, samples, tree: data.tree, nodes: data.tree.parent.length, against: false, range: null,
      flame: ladogaFlame(data.tree, data.unit, element.querySelector(".flame-graph"), told),
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
    const words = panel.element.querySelector(".range"), number = panel.element.dataset.run;
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
  const areaOf = (map) => {
    const pick = map.querySelector(".pick");
    return { left: pick.x.baseVal.value, top: pick.y.baseVal.value, wide: pick.width.baseVal.value };
  };

  // Where in the run the server was in what the search found: the darker, the larger its share of that time's samples.
  // With a filter, columns without a match are veiled.
  function light(number, samples, hits, isFilter) { for (const map of mapsOf(number)) lightOn(map, number, samples, hits, isFilter); }

  function lightOn(map, number, samples, hits, isFilter) {
    const lit = map.querySelector(".lit"), { column_ms: columnMs, columns } = report.runs[number].heat;
    lit.replaceChildren();
    if (!hits) return;
    const all = new Float64Array(columns.length), found = new Float64Array(columns.length);
    for (const sample of samples) {
      const column = Math.floor(sample.at / columnMs);
      if (column < 0 || column >= columns.length) continue;
      all[column] += sample.weight;
      if (hits[sample.node]) found[column] += sample.weight;
    }
    const { left, top, wide } = areaOf(map), length = map.dataset.seconds * 1000;
    const add = (column, name, y, high, opacity) => {
      const rect = document.createElementNS(map.namespaceURI, "rect");
      const from = left + (wide * column * columnMs) / length;
      const attributes = { class: name, x: from, y, width: Math.min((wide * columnMs) / length, left + wide - from), height: high, opacity };
      for (const [key, value] of Object.entries(attributes)) rect.setAttribute(key, value);
      lit.append(rect);
    };
    const high = map.querySelector(".pick").height.baseVal.value;
    columns.forEach((_, column) => {
      if (found[column] > 0) add(column, "match", top - 9, 8, 0.25 + 0.75 * (found[column] / all[column]));
      else if (isFilter) add(column, "veil", top, high, 0.75);
    });
  }

  function outline(number, range) { for (const map of mapsOf(number)) outlineOn(map, range); }

  function outlineOn(map, range) {
    const chosen = map.querySelector(".chosen");
    const { left, wide } = areaOf(map), length = map.dataset.seconds * 1000;
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

  function listen(map) {
    const number = Number(map.dataset.run), pick = map.querySelector(".pick");
    const { column_ms: columnMs, columns } = report.runs[number].heat, length = map.dataset.seconds * 1000;
    const low = Number(map.dataset.low), high = Number(map.dataset.high) + 1;
    let start = null, cursor = -1, anchor = 0;
    // Whole columns, so that what is chosen is what is seen.
    const columnAt = (event) => {
      const area = pick.getBoundingClientRect();
      const part = Math.max(0, Math.min(0.999999, (event.clientX - area.left) / area.width));
      return Math.floor(part * length / columnMs);
    };
    const between = (one, other) => [Math.min(one, other) * columnMs, Math.min(length, (Math.max(one, other) + 1) * columnMs)];
    const tellSample = (event) => {
      const area = pick.getBoundingClientRect();
      const second = Math.floor(Math.max(0, Math.min(0.999999, (event.clientX - area.left) / area.width)) * map.dataset.seconds);
      const part = Math.round(1000 * Math.max(0, 1 - (event.clientY - area.top) / area.height));
      hover.show([second + " s and " + part + " ms", "a column is a second, read from the bottom"], event.clientX, event.clientY);
    };
    const tellRequests = (event) => {
      const column = columnAt(event), area = pick.getBoundingClientRect(), [from, to] = between(column, column);
      const bucket = Math.floor(high - ((event.clientY - area.top) / area.height) * (high - low));
      const cells = columns[column] || [], here = cells.find((cell) => cell[0] === bucket);
      const all = cells.reduce((sum, cell) => sum + cell[1], 0);
      hover.show([
        seconds(from / 1000) + " to " + seconds(to / 1000),
        lowest(bucket) + " to " + lowest(bucket + 1) + ": " + (here ? here[1] : 0).toLocaleString("en") + " requests",
        all.toLocaleString("en") + " requests in this column",
      ], event.clientX, event.clientY);
    };
    const tell = map.classList.contains("samples") ? tellSample : tellRequests;
    pick.addEventListener("pointerdown", (event) => {
      start = cursor = anchor = columnAt(event);
      if (event.isTrusted) pick.setPointerCapture(event.pointerId); // One that a test made up cannot be captured.
      outline(number, between(start, start));
    });
    pick.addEventListener("pointermove", (event) => {
      tell(event);
      if (start !== null) outline(number, between(start, columnAt(event)));
    });
    pick.addEventListener("pointerleave", hover.hide);
    pick.addEventListener("pointerup", (event) => {
      if (start === null) return;
      select(number, between(start, columnAt(event)));
      start = null;
      toSight(map, number);
    });
    pick.addEventListener("pointercancel", () => { start = null; });
    map.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) {
        cursor = Math.max(0, Math.min(Math.ceil(length / columnMs) - 1, cursor + step));
        if (!event.shiftKey) anchor = cursor;
        select(number, between(anchor, cursor));
      } else if (event.key === "Escape") {
        cursor = -1;
        select(number, null);
      } else return;
      event.preventDefault();
    });
  }

  // What a drag has opened is to be seen: as far up as the heat map can stay in sight.
  function toSight(map, number) {
    const [element] = elementsOf(number);
    if (!element) return;
    const hidden = element.getBoundingClientRect().bottom - innerHeight, room = map.getBoundingClientRect().top - 8;
    if (hidden > 0 && room > 0) scrollBy({ top: Math.min(hidden, room), behavior: "smooth" });
  }
  document.querySelectorAll(".heatmap").forEach(listen);

  // A flame graph is drawn when it comes into sight: there may be many.
  const draw = (element) => { if (!panels.has(element)) show(panelOf(element)); else panelOf(element).flame.draw(); };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  const profiles = document.querySelectorAll(".profile");
  profiles.forEach((element) => seen.observe(element));
  // Stages have been opened by then; other rounds stay as the reader has left them.
  const isOpen = (element) => element.closest("details:not([open])") === null;
  window.addEventListener("beforeprint", () => [...profiles].filter(isOpen).forEach(draw));

  // For tests and other scripts.
  window.ladogaReport = { report, select, frames: (number, profile = 0) => panelsOf(number)[profile].flame.frames() };
})();
