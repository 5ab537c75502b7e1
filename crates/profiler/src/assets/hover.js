"use strict";
// What the pointer is on, told at the pointer. One element a page; lines are text, never markup.
function ladogaHover() {
  if (window.ladogaHoverOfPage) return window.ladogaHoverOfPage;
  const GAP = 14, EDGE = 4;
  const element = document.createElement("div");
  element.className = "hover";
  element.setAttribute("role", "tooltip");
  element.hidden = true;
  document.body.append(element);

  function show(lines, x, y) {
    element.replaceChildren(...lines.map((line) => {
      const row = document.createElement("div");
      const [text, key] = Array.isArray(line) ? line : [line, ""];
      if (key) {
        const mark = document.createElement("span");
        mark.className = key;
        row.append(mark);
      }
      row.append(text);
      return row;
    }));
    element.hidden = false;
    const wide = element.offsetWidth, high = element.offsetHeight;
    const left = x + GAP + wide > innerWidth - EDGE ? x - GAP - wide : x + GAP;
    const top = y + GAP + high > innerHeight - EDGE ? y - GAP - high : y + GAP;
    element.style.left = Math.max(EDGE, Math.min(left, innerWidth - EDGE - wide)) + "px";
    element.style.top = Math.max(EDGE, top) + "px";
  }

  const hide = () => { element.hidden = true; };
  // What is under the pointer moves away with the page.
  window.addEventListener("scroll", hide, true);
  window.ladogaHoverOfPage = { show, hide };
  return window.ladogaHoverOfPage;
}

// What a person types into a search: a regular expression, or, if it is none, the text as it stands.
function ladogaPattern(text) {
  if (!text) return null;
  try {
    return { test: new RegExp(text, "i"), problem: "" };
  } catch (error) {
    const literal = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return { test: new RegExp(literal, "i"), problem: "No regular expression, searched as plain text: " + error.message };
  }
}

function ladogaAmount(value, unit) {
  if (unit === "bytes") {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (value >= 1024 && at < units.length - 1) { value /= 1024; at++; }
    return value.toFixed(at ? 1 : 0) + " " + units[at];
  }
  if (value >= 1e9) return (value / 1e9).toFixed(2) + " s";
  return (value / 1e6).toFixed(1) + " ms";
}
