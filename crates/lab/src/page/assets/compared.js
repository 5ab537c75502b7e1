"use strict";
(() => {
  const { flames } = JSON.parse(document.getElementById("report").textContent);
  const drawn = new Map();
  for (const element of document.querySelectorAll(".profile")) {
    const { run, profile } = element.dataset, { unit, tree, before, after, noise } = flames[run][profile];
    const flame = ladogaFlame(tree, unit, element);
    flame.show(after, before, noise);
    const scroll = element.querySelector(".scroll");
    scroll.scrollTop = scroll.scrollHeight;
    drawn.set(run + "/" + profile, flame);
  }
  // For tests and other scripts.
  window.ladogaComparison = { frames: (run, profile = 0) => drawn.get(run + "/" + profile).frames() };
})();
