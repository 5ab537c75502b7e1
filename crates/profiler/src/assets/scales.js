"use strict";
// The three scales of a heat map over time. Each column is read from top to bottom: a second in its cells, a minute in its
// seconds, an hour in its minutes. A run of hours is first seen in hours or minutes, and every cell of it can still be
// reached.
function ladogaScales(cellMs, cells) {
  const second = Math.round(1000 / cellMs);
  const scale = (name, words, cell, rows, every, column, row) => ({ name, words, cell, rows, every, column, row, columns: Math.ceil(cells / (cell * rows)) });
  const all = [
    scale("Seconds", `One column is a second, one cell ${cellMs} ms`, 1, second, second / 5, (at) => at + " s", (at) => "." + String(at * cellMs).padStart(3, "0")),
    scale("Minutes", "One column is a minute, one cell a second", second, 60, 10, (at) => at + " min", (at) => at + " s"),
    scale("Hours", "One column is an hour, one cell a minute", 60 * second, 60, 10, (at) => at + " h", (at) => at + " min"),
  ];
  // One column alone says nothing.
  return all.filter((one, index) => index === 0 || one.columns > 1);
}

// Weights of the base cells, in the cells of a scale.
function ladogaRescaled(heat, scale) {
  if (scale.cell === 1) return heat;
  const out = new Float64Array(Math.ceil(heat.length / scale.cell));
  heat.forEach((weight, at) => { out[Math.floor(at / scale.cell)] += weight; });
  return out;
}

function ladogaTime(ms) {
  const two = (number) => String(number).padStart(2, "0");
  const seconds = (ms / 1000) % 60, minutes = Math.floor(ms / 60000) % 60, hours = Math.floor(ms / 3600000);
  if (ms < 60000) return seconds.toFixed(2) + " s";
  const rest = ":" + seconds.toFixed(2).padStart(5, "0");
  return hours ? hours + ":" + two(minutes) + rest : minutes + rest;
}
