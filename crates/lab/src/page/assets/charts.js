"use strict";
// Values of every chart, at the pointer and by keys; and links that open what they lead to.
(() => {
  const LEFT = 76, NEAR = 7;
  const hover = ladogaHover();

  const texts = {
    seconds: (value) => ladogaClock(value, 2),
    micros: (value) => ladogaMicros(value),
    millis: (value) => value.toFixed(1) + " ms",
    minutes: (value) => value.toFixed(1) + " min",
    count: (value) => Math.round(value).toLocaleString("en"),
    plain: (value) => String(Number(value.toPrecision(4))),
    share: (value) => (100 * value).toFixed(value && value < 0.0001 ? 4 : 2) + " %",
    rarity: (value) => (100 - 100 / value).toFixed(Math.max(0, Math.min(6, Math.ceil(Math.log10(value))))) + " %",
  };

  function placeOf(scale, value) {
    const number = scale.log ? Math.log10(Math.max(value, 1e-300)) : value;
    const part = Math.max(0, Math.min(1, (number - scale.from) / (scale.to - scale.from)));
    return scale.at[0] + part * (scale.at[1] - scale.at[0]);
  }

  function svgPart(svg, kind, attributes) {
    const element = document.createElementNS(svg.namespaceURI, kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    svg.append(element);
    return element;
  }

  function prepare(svg) {
    const values = JSON.parse(svg.parentElement.querySelector("script.values").textContent);
    const places = new Set();
    for (const line of values.lines) for (const [x] of line.points) places.add(x);
    const stops = [...places].sort((a, b) => a - b).map((x) => [x, placeOf(values.across, x)]);
    const cross = svgPart(svg, "g", { class: "cross" });
    let at = -1;

    // What is at a stop: the values of all lines there, and what happened nearby.
    function show(index, clientX, clientY) {
      at = index;
      cross.replaceChildren();
      const [x, px] = stops[index], box = svg.viewBox.baseVal;
      svgPart(cross, "path", { d: `M${px} ${values.upwards.at[1]}V${values.upwards.at[0]}` });
      const lines = [texts[values.x](x)];
      for (const line of values.lines) {
        const point = line.points.find((one) => one[0] === x);
        if (!point) continue;
        svgPart(cross, "circle", { cx: px, cy: placeOf(values.upwards, point[1]), r: 3.5, class: "c" + line.colour });
        lines.push([(line.name ? line.name + ": " : "") + texts[values.y](point[1]), "key c" + line.colour]);
      }
      for (const [when, title] of values.marks) if (Math.abs(placeOf(values.across, when) - px) < NEAR) lines.push(title);
      const area = svg.getBoundingClientRect();
      hover.show(lines, clientX ?? area.left + (px / box.width) * area.width, clientY ?? area.top + area.height / 3);
    }
    function hide() {
      at = -1;
      cross.replaceChildren();
      hover.hide();
    }
    const toPointer = (event) => {
      const area = svg.getBoundingClientRect();
      const px = ((event.clientX - area.left) / area.width) * svg.viewBox.baseVal.width;
      if (px < LEFT - NEAR) return hide();
      let best = 0;
      stops.forEach((stop, index) => { if (Math.abs(stop[1] - px) < Math.abs(stops[best][1] - px)) best = index; });
      show(best, event.clientX, event.clientY);
    };
    if (!stops.length) return;
    svg.addEventListener("pointermove", toPointer);
    svg.addEventListener("pointerdown", toPointer);
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: stops.length - 1 }[event.key];
      if (event.key === "Escape") hide();
      else if (to !== undefined) show(Math.max(0, Math.min(stops.length - 1, at < 0 && event.key === "ArrowLeft" ? stops.length - 1 : to)));
      else return;
      event.preventDefault();
    });
  }
  document.querySelectorAll("svg.plot").forEach(prepare);

  // A part that is folded has to open when a link leads to it.
  function open() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    // A second click on the same link changes no address.
    if (link && link.hash === location.hash) open();
  });
  open();
  const openAll = () => document.querySelectorAll("details.stage").forEach((part) => { part.open = true; });
  document.querySelectorAll(".open-all").forEach((button) => button.addEventListener("click", openAll));
  window.addEventListener("beforeprint", openAll);
})();

function ladogaMicros(value) {
  if (value >= 1e6) return (value / 1e6).toFixed(2) + " s";
  if (value >= 1000) return (value / 1000).toFixed(2) + " ms";
  return value.toFixed(value < 100 ? 1 : 0) + " µs";
}
