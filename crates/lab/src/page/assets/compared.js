"use strict";
(() => {
  const { flames } = JSON.parse(document.getElementById("report").textContent);
  const drawn = new Map();
  for (const element of document.querySelectorAll(".profile")) {
    const number = Number(element.dataset.run), { tree, before, after } = flames[number];
    const flame = ladogaFlame(tree, "nanoseconds", element.querySelector(".flame-graph"));
    flame.show(after, before);
    drawn.set(number, flame);
  }
  // For tests and other scripts.
  window.ladogaComparison = { frames: (number) => drawn.get(number).frames() };
})();
