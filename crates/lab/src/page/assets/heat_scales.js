"use strict";
// A run of hours in several scales: all of it, and windows of hours, ten minutes, a minute, ten seconds, for the heat maps of
// its requests and of its samples. The page comes with the whole run; windows are drawn here, as `heat.rs` and
// `sample_heat.rs` draw the whole.
function ladogaHeatScales(heat, lengthMs) {
  const WINDOWS_MS = [21600000, 3600000, 600000, 60000, 10000], COLUMNS_MAX = 200, COLUMNS_MIN = 20;
  const fine = heat.fine || heat, whole = { from: 0, to: lengthMs, columnMs: heat.column_ms, columns: heat.columns };
  const spans = [lengthMs, ...WINDOWS_MS.filter((ms) => fine.column_ms > 0 && ms <= lengthMs / 2 && ms >= COLUMNS_MIN * fine.column_ms)];
  let index = 0, view = whole;

  function merged(columns) {
    const counts = new Map();
    for (const cells of columns) for (const [bucket, count] of cells) counts.set(bucket, (counts.get(bucket) || 0) + count);
    return [...counts];
  }

  // A window around a moment, or as near to it as the run goes.
  function use(next, aroundMs) {
    index = Math.max(0, Math.min(spans.length - 1, next));
    if (index === 0) {
      view = whole;
      return;
    }
    const span = spans[index], latest = Math.max(0, lengthMs - span);
    const first = Math.round(Math.max(0, Math.min(latest, aroundMs - span / 2)) / fine.column_ms);
    const each = Math.ceil(span / fine.column_ms / COLUMNS_MAX), end = first + Math.ceil(span / fine.column_ms);
    const columns = [];
    for (let at = first; at < end; at += each) columns.push(merged(fine.columns.slice(at, Math.min(end, at + each))));
    view = { from: first * fine.column_ms, to: Math.min(lengthMs, end * fine.column_ms), columnMs: each * fine.column_ms, columns };
  }
  return { use, spans, fine, index: () => index, view: () => view };
}

// `0.4 s`, `10 s`, `3 min`, `1.5 h`
function ladogaSpan(ms) {
  const text = (value) => String(Number(value.toFixed(1)));
  return ms < 120000 && ms % 60000 ? text(ms / 1000) + " s" : ms < 3600000 ? text(ms / 60000) + " min" : text(ms / 3600000) + " h";
}

// `12.5 s`, `2:05`, `1:02:05`: a moment of a run.
function ladogaClock(seconds, digits) {
  if (seconds < 120) return seconds.toFixed(digits) + " s";
  const rest = (seconds % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0"), minutes = Math.floor(seconds / 60);
  return minutes < 60 ? minutes + ":" + rest : Math.floor(minutes / 60) + ":" + String(minutes % 60).padStart(2, "0") + ":" + rest;
}

// How the samples of so long a time are read: what a column is, and its parts from bottom to top.
function ladogaSampleScale(spanMs) {
  if (spanMs <= 600000) return { columnMs: 1000, partMs: spanMs <= 120000 ? 20 : 100, unitMs: 1, unit: "ms", name: "a second" };
  if (spanMs <= 36000000) return { columnMs: 60000, partMs: 1000, unitMs: 1000, unit: "s", name: "a minute" };
  return { columnMs: 3600000, partMs: 60000, unitMs: 60000, unit: "min", name: "an hour" };
}

// Draws a window into a heat map, and puts back what the page came with for the whole run.
function ladogaHeatPainter(map) {
  const LEVELS = 7, pick = map.querySelector(".pick"), lit = map.querySelector(".lit");
  const left = pick.x.baseVal.value, top = pick.y.baseVal.value, wide = pick.width.baseVal.value, high = pick.height.baseVal.value;
  const isSamples = map.classList.contains("samples"), drawn = isSamples ? ".heat, .x, .y, .grid" : ".heat, .x";
  const whole = [...map.querySelectorAll(drawn)], legend = map.closest("figure").querySelector(".most"), ofWhole = legend.textContent;

  function add(kind, attributes, text) {
    const element = document.createElementNS(map.namespaceURI, kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    map.insertBefore(element, lit);
  }

  function times(view) {
    const seconds = (view.to - view.from) / 1000, rough = seconds / 4, power = 10 ** Math.floor(Math.log10(rough));
    const round = rough > 60 ? [120, 300, 600, 900, 1800, 3600, 7200] : [1, 2, 5, 10].map((factor) => factor * power);
    const step = round.find((one) => one >= rough) || round[round.length - 1], digits = step < 1 ? 1 : 0;
    for (let at = Math.ceil(view.from / 1000 / step) * step; at <= view.to / 1000 + 1e-9; at += step) {
      const x = left + (wide * (at * 1000 - view.from)) / (view.to - view.from), isLast = x > left + wide - 20;
      add("text", { x, y: top + high + 18, class: isLast ? "x end" : "x" }, ladogaClock(at, digits));
    }
  }

  // `cells` are `[from, to, bottom, top, weight]` in milliseconds and parts of the height.
  function shade(view, cells) {
    const most = cells.reduce((sum, cell) => Math.max(sum, cell[4]), 1), paths = Array.from({ length: LEVELS }, () => []);
    legend.textContent = isSamples ? ladogaAmount(most, map.dataset.unit) : most.toLocaleString("en");
    const place = (ms) => left + (wide * (ms - view.from)) / (view.to - view.from);
    for (const [from, to, low, up, weight] of cells) {
      const x = place(from), across = (place(Math.min(to, view.to)) - x).toFixed(1);
      const part = isSamples ? Math.sqrt(weight / most) : Math.log1p(weight) / Math.log1p(most);
      const level = Math.min(LEVELS - 1, Math.floor(LEVELS * part));
      paths[level].push(`M${x.toFixed(1)} ${(top + high * (1 - up)).toFixed(1)}h${across}v${(high * (up - low)).toFixed(1)}h-${across}z`);
    }
    paths.forEach((path, level) => { if (path.length) add("path", { class: "heat h" + level, d: path.join("") }); });
  }

  function requests(view) {
    const lowest = Number(map.dataset.low), rows = Number(map.dataset.high) + 1 - lowest, cells = [];
    view.columns.forEach((column, at) => {
      const from = view.from + at * view.columnMs;
      for (const [bucket, count] of column) cells.push([from, from + view.columnMs, (bucket - lowest) / rows, (bucket + 1 - lowest) / rows, count]);
    });
    return cells;
  }

  function samples(view, all) {
    const { columnMs, partMs, unitMs, unit } = ladogaSampleScale(view.to - view.from), weights = new Map();
    for (const { at, weight } of all) {
      if (at < view.from || at >= view.to) continue;
      const part = Math.floor(at / partMs);
      weights.set(part, (weights.get(part) || 0) + weight);
    }
    for (let line = 0; line <= 5; line++) {
      const y = top + high * (1 - line / 5);
      add("path", { class: "grid", d: `M${left} ${y}H${left + wide}` });
      add("text", { class: "y", x: left - 6, y: y + 4 }, Math.round((line * columnMs) / 5 / unitMs) + " " + unit);
    }
    return [...weights].map(([part, weight]) => {
      const column = Math.floor((part * partMs) / columnMs) * columnMs, up = (part * partMs - column) / columnMs;
      return [Math.max(column, view.from), column + columnMs, up, up + partMs / columnMs, weight];
    });
  }

  // `all` are the samples, for a map of samples.
  return (view, isWhole, all) => {
    map.querySelectorAll(drawn).forEach((element) => element.remove());
    if (isWhole) {
      whole.forEach((element) => map.insertBefore(element, lit));
      legend.textContent = ofWhole;
      return;
    }
    shade(view, isSamples ? samples(view, all) : requests(view));
    times(view);
  };
}
