"use strict";
// What stands around a flame graph: its buttons, its words, its legend.
function ladogaFlameParts(host, unit) {
  const make = (kind, name, text) => {
    const element = document.createElement(kind);
    element.className = name;
    if (text) element.textContent = text;
    return element;
  };
  const bar = make("div", "bar");
  const search = make("input", "search");
  search.type = "search";
  search.placeholder = "Search: a regular expression";
  search.setAttribute("aria-label", "Search functions by a regular expression");
  bar.append(search);
  const buttons = {};
  const button = (name, text, title) => {
    const element = make("button", name, text);
    element.type = "button";
    element.title = title;
    if (name !== "reset") element.setAttribute("aria-pressed", "false");
    buttons[name] = element;
    bar.append(element);
  };
  button("filter", "Only matches", "Leave out every stack without a match");
  button("fold", "Fold runtime", "Frames of the standard library and of the async runtime, as one frame");
  button("icicle", "Icicle", "The base on top");
  button("reverse", "Reverse", "From the functions in which the time went to their callers");
  button("reset", "Reset zoom", "Back to the whole graph (Escape)");
  buttons.filter.disabled = true;

  const tip = make("p", "tip");
  tip.setAttribute("aria-live", "polite");
  const scroll = make("div", "scroll flame-scroll");
  const canvas = make("canvas", "flame");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", "Flame graph: arrow keys walk, Enter widens, Escape goes back, / searches");
  scroll.append(canvas);
  host.replaceChildren(bar, tip, scroll, ladogaLegendOf(make, unit));
  const press = (name, isOn) => buttons[name].setAttribute("aria-pressed", String(isOn));
  return { canvas, scroll, tip, search, buttons, press };
}

function ladogaFrameLegend() {
  return [
    ["hsl(115 45% 68%)", "program and its crates"], ["hsl(50 80% 66%)", "standard library"], ["hsl(22 85% 68%)", "kernel, _[k]"],
    ["hsl(195 45% 72%)", "C and system libraries"], ["hsl(0 0% 78%)", "threads, [runtime], unknown"], ["#f08fd0", "search"],
  ];
}

function ladogaLegendOf(make, unit) {
  const out = make("p", "legend");
  const key = (colour, text, name) => {
    const part = make("span", name);
    const mark = make("span", "swatch");
    mark.style.background = colour;
    part.append(mark, text);
    out.append(part);
  };
  for (const [colour, text] of ladogaFrameLegend()) key(colour, text, text === "search" ? "always" : "plain");
  key("rgb(240,95,95)", "a larger share than before", "changed");
  key("rgb(95,95,245)", "a smaller share", "changed");
  key("#d9d9d9", "within noise", "changed");
  const words = make("span", "always", `Width: ${unit === "bytes" ? "bytes" : "time"}. _[i]: inlined into its caller. Keys: arrows, Enter, Escape, /.`);
  out.append(words);
  return out;
}

function ladogaFrameColour(name, isThread) {
  let hash = 0;
  for (let at = 0; at < name.length; at++) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
  const spread = hash % 25;
  if (name.endsWith("_[k]")) return `hsl(${10 + spread} 85% 68%)`;
  if (isThread || name.startsWith("[")) return `hsl(0 0% ${72 + (spread % 12)}%)`;
  if (/^<?(std|core|alloc)::/.test(name)) return `hsl(${45 + (spread % 12)} 80% 66%)`;
  return name.includes("::") ? `hsl(${105 + spread} 45% 68%)` : `hsl(${185 + spread} 45% 72%)`;
}

// As much of a path's end as there is room for: the function says more than its crate.
function ladogaShortened(text, letters) {
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
