"use strict";
// A range of a latency heat map opens as a flame graph of the same time; what the flame graph's search finds lights up
// above the heat map. Everything else on the page needs no script of its own.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const BUCKETS_A_DECADE = 8;
  const panels = new Map();
  const hover = ladogaHover();

  const seconds = (value) => ladogaClock(value, value < 10 ? 2 : 1);
  const lowest = (bucket) => ladogaMicros(10 ** (bucket / BUCKETS_A_DECADE));

  // The window of time that all heat maps of a run show, and what a search last lit up in them.
  const states = new Map();
  function stateOf(number) {
    if (!states.has(number)) {
      const { heat, elapsed_s: length } = report.runs[number];
      states.set(number, { scales: ladogaHeatScales(heat, length * 1000), painters: new Map(), range: null, lit: null });
    }
    return states.get(number);
  }
  const viewOf = (number) => stateOf(number).scales.view();

  // When it was, for what happened elsewhere at the same time.
  function wallClock(number, ms) {
    const started = report.runs[number].started_unix_ms;
    return started ? [new Date(started + ms).toISOString().slice(11, 21) + " UTC"] : [];
  }

  // What the requests of a range were like, from the heat map's own cells.
  function requestsOf(number, from, to) {
    const { column_ms: columnMs, columns } = stateOf(number).scales.fine;
    let all = 0, slowest = -1;
    columns.forEach((cells, column) => {
      const start = column * columnMs, end = start + columnMs;
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

  const profileOf = (element) => report.runs[element.dataset.run].profiles[element.dataset.profile].found.Samples;
  const samplesOfAll = new Map();
  function samplesOf(element) {
    if (samplesOfAll.has(element)) return samplesOfAll.get(element);
    const { offset_ms: offset, data } = profileOf(element), samples = [];
    let cell = 0;
    for (let at = 0; at < data.samples.length; at += 4) {
      cell += data.samples[at];
      samples.push({ at: offset + (cell + 0.5) * data.cellMs, node: data.samples[at + 2], weight: data.samples[at + 3] });
    }
    samplesOfAll.set(element, samples);
    return samples;
  }

  function panelOf(element) {
    if (panels.has(element)) return panels.get(element);
    const number = Number(element.dataset.run), { data } = profileOf(element), samples = samplesOf(element);
    const told = { search: (hits, isFilter) => light(number, samples, hits, isFilter) };
    const panel = {
      element, samples, nodes: data.tree.parent.length, against: false, range: null,
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
    return ladogaNoiseOfRanges(panel.nodes, [outside, inside]);
  }

  function valuesOf(panel, isWanted) {
    const values = new Float64Array(panel.nodes);
    for (const sample of panel.samples) if (isWanted(sample.at)) values[sample.node] += sample.weight;
    return values;
  }

  function show(panel) {
    const words = panel.element.querySelector(".range"), number = Number(panel.element.dataset.run);
    if (!panel.range) {
      panel.flame.show(valuesOf(panel, () => true));
      words.textContent = panel.against ? "The whole run: drag over the heat map to choose what to hold against the rest."
        : "The whole run. Drag over the heat map above to see a part of it.";
      return;
    }
    const [from, to] = panel.range;
    const inside = (at) => at >= from && at < to;
    const chosen = valuesOf(panel, inside);
    const noise = panel.against ? noiseOf(panel, inside) : null;
    if (noise) panel.flame.show(chosen, valuesOf(panel, (at) => !inside(at)), noise);
    else panel.flame.show(chosen);
    words.textContent = inWords(number, panel.range) + "." +
      (noise ? " " + (noise.tooFew || "Red takes a larger share here than in the rest of the run, blue a smaller one, grey is within noise.") : "");
  }

  // Of requests, and of the samples of each profile.
  function mapsOf(number) { return document.querySelectorAll('.heatmap[data-run="' + number + '"]'); }
  const areaOf = (map) => {
    const pick = map.querySelector(".pick");
    return { left: pick.x.baseVal.value, top: pick.y.baseVal.value, wide: pick.width.baseVal.value };
  };

  // Where in the run the server was in what the search found: the darker, the larger its share of that time's samples.
  // With a filter, columns without a match are veiled.
  function light(number, samples, hits, isFilter) {
    stateOf(number).lit = [samples, hits, isFilter];
    for (const map of mapsOf(number)) lightOn(map, number, samples, hits, isFilter);
  }

  function lightOn(map, number, samples, hits, isFilter) {
    const lit = map.querySelector(".lit"), { from: begin, to: end, columnMs, columns } = viewOf(number);
    lit.replaceChildren();
    if (!hits) return;
    const all = new Float64Array(columns.length), found = new Float64Array(columns.length);
    for (const sample of samples) {
      const column = Math.floor((sample.at - begin) / columnMs);
      if (column < 0 || column >= columns.length) continue;
      all[column] += sample.weight;
      if (hits[sample.node]) found[column] += sample.weight;
    }
    const { left, top, wide } = areaOf(map), length = end - begin;
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

  function outline(number, range) { for (const map of mapsOf(number)) outlineOn(map, viewOf(number), range); }

  function outlineOn(map, view, range) {
    const chosen = map.querySelector(".chosen"), { left, wide } = areaOf(map);
    const part = (ms) => Math.max(0, Math.min(1, (ms - view.from) / (view.to - view.from)));
    const [from, to] = range ? range.map(part) : [0, 0];
    chosen.setAttribute("x", left + wide * from);
    chosen.setAttribute("width", from < to ? Math.max(1, wide * (to - from)) : 0);
  }

  const inWords = (number, [from, to]) => seconds(from / 1000) + " to " + seconds(to / 1000) + ": " + requestsOf(number, from, to);

  // What was chosen, below the map of requests itself: its flame graph may be far below.
  function tellHere(number, range) {
    const [profile] = elementsOf(number);
    for (const map of mapsOf(number)) {
      if (map.classList.contains("samples")) continue;
      const figure = map.closest("figure"), here = document.createElement("p");
      figure.querySelector(".here")?.remove();
      if (!range) continue;
      here.className = "here";
      here.setAttribute("aria-live", "polite");
      here.append(inWords(number, range) + ".");
      if (profile) {
        const go = document.createElement("button");
        go.type = "button";
        go.textContent = "To its flame graph";
        go.addEventListener("click", () => profile.querySelector(".range").scrollIntoView());
        here.append(go);
      }
      figure.append(here);
    }
  }

  // `range` in milliseconds since the start of the run; none for all of it.
  function select(number, range) {
    stateOf(number).range = range;
    outline(number, range);
    tellHere(number, range);
    for (const panel of panelsOf(number)) {
      panel.range = range;
      show(panel);
    }
  }

  // Draws the window of a run anew in all of its heat maps.
  function redraw(number) {
    const state = stateOf(number), view = viewOf(number);
    for (const map of mapsOf(number)) {
      if (!state.painters.has(map)) state.painters.set(map, ladogaHeatPainter(map));
      const element = map.closest(".profile");
      state.painters.get(map)(view, state.scales.index() === 0, element && samplesOf(element));
    }
    outline(number, state.range);
    if (state.lit) light(number, ...state.lit);
    for (const bar of document.querySelectorAll('.scales[data-run="' + number + '"]')) bar.ladogaTell();
  }
  // To a wider or a narrower scale, around what is chosen; or along the run, by parts of the window.
  function zoom(number, index) {
    const { range, scales } = stateOf(number), { from, to } = viewOf(number);
    scales.use(index, range ? (range[0] + range[1]) / 2 : (from + to) / 2);
    redraw(number);
  }
  function move(number, by) {
    const { scales } = stateOf(number), { from, to } = viewOf(number);
    scales.use(scales.index(), (from + to) / 2 + by * (to - from));
    redraw(number);
  }

  // For a run that is too long for one scale.
  function controls(map, number) {
    const { scales } = stateOf(number), bar = document.createElement("div"), words = document.createElement("span");
    if (scales.spans.length < 2) return;
    bar.className = "bar scales";
    bar.dataset.run = number;
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Scale of the heat maps");
    scales.spans.forEach((ms, index) => select.add(new Option(index ? "Scale: " + ladogaSpan(ms) : "Scale: whole run", index)));
    select.addEventListener("change", () => zoom(number, Number(select.value)));
    const button = (text, by) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = text;
      element.addEventListener("click", () => move(number, by));
      return element;
    };
    const [earlier, later] = [button("Earlier", -0.5), button("Later", 0.5)];
    bar.append(select, earlier, later, words);
    bar.ladogaTell = () => {
      const { from, to, columnMs } = viewOf(number);
      select.value = String(scales.index());
      earlier.disabled = from <= 0;
      later.disabled = to >= scales.spans[0];
      words.textContent = seconds(from / 1000) + " to " + seconds(to / 1000) + ", a column is " + ladogaSpan(columnMs);
    };
    bar.ladogaTell();
    map.after(bar);
  }

  function listen(map) {
    const number = Number(map.dataset.run), pick = map.querySelector(".pick");
    const low = Number(map.dataset.low), high = Number(map.dataset.high) + 1;
    let start = null, cursor = -1, anchor = 0;
    const partAt = (event) => {
      const area = pick.getBoundingClientRect();
      return Math.max(0, Math.min(0.999999, (event.clientX - area.left) / area.width));
    };
    const timeAt = (event) => { const { from, to } = viewOf(number); return from + partAt(event) * (to - from); };
    // Whole columns, so that what is chosen is what is seen.
    const columnAt = (event) => { const { from, columnMs } = viewOf(number); return Math.floor((timeAt(event) - from) / columnMs); };
    const between = (one, other) => {
      const { from, to, columnMs } = viewOf(number);
      return [from + Math.min(one, other) * columnMs, Math.min(to, from + (Math.max(one, other) + 1) * columnMs)];
    };
    const tellSample = (event) => {
      const { from, to } = viewOf(number), { columnMs, partMs, name } = ladogaSampleScale(to - from);
      const area = pick.getBoundingClientRect(), column = Math.floor(timeAt(event) / columnMs) * columnMs;
      const up = Math.max(0, Math.min(0.999999, 1 - (event.clientY - area.top) / area.height));
      const at = column + Math.floor((up * columnMs) / partMs) * partMs, digits = partMs < 1000 ? 2 : 0;
      hover.show([
        ladogaClock(at / 1000, digits) + " to " + ladogaClock((at + partMs) / 1000, digits),
        ...wallClock(number, at),
        "a column is " + name + ", read from the bottom",
      ], event.clientX, event.clientY);
    };
    const tellRequests = (event) => {
      const column = columnAt(event), area = pick.getBoundingClientRect(), [from, to] = between(column, column), { columns } = viewOf(number);
      const bucket = Math.floor(high - ((event.clientY - area.top) / area.height) * (high - low));
      const cells = columns[column] || [], here = cells.find((cell) => cell[0] === bucket);
      const all = cells.reduce((sum, cell) => sum + cell[1], 0);
      hover.show([
        seconds(from / 1000) + " to " + seconds(to / 1000),
        ...wallClock(number, from),
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
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], closer = { "+": 1, "-": -1 }[event.key];
      const far = { PageUp: -0.5, PageDown: 0.5 }[event.key], { scales } = stateOf(number);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if ((closer || far) && scales.spans.length > 1) {
        if (closer) zoom(number, scales.index() + closer);
        else move(number, far);
        cursor = -1;
      } else if (step) {
        const { from, to, columnMs } = viewOf(number);
        cursor = Math.max(0, Math.min(Math.ceil((to - from) / columnMs) - 1, cursor + step));
        if (!event.shiftKey) anchor = cursor;
        select(number, between(anchor, cursor));
      } else if (event.key === "Escape") {
        cursor = -1;
        select(number, null);
      } else return;
      event.preventDefault();
    });
  }

  // What a drag has opened is to be seen: as far up as the heat map can stay in sight. Where that is not far enough, at least
  // what is told below the map.
  function toSight(map, number) {
    const SEEN_MIN = 200, [element] = elementsOf(number);
    map.closest("figure").querySelector(".here")?.scrollIntoView({ block: "nearest" });
    if (!element) return;
    const area = element.getBoundingClientRect(), room = map.getBoundingClientRect().top - 8, by = Math.min(area.bottom - innerHeight, room);
    if (by > 0 && area.top - by < innerHeight - SEEN_MIN) scrollBy(0, by);
  }
  document.querySelectorAll(".heatmap").forEach(listen);
  document.querySelectorAll(".heatmap:not(.samples)").forEach((map) => controls(map, Number(map.dataset.run)));

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
  window.ladogaReport = { report, select, zoom, view: viewOf, frames: (number, profile = 0) => panelsOf(number)[profile].flame.frames() };
})();
