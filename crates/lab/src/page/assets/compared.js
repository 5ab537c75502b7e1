"use strict";
(() => {
  const flames = JSON.parse(document.getElementById("flames").textContent);
  const drawn = new Map();
  // What is folded has no width yet: a graph is drawn when it comes into sight, or goes to paper.
  function draw(element) {
    const { run, profile } = element.dataset, key = run + "/" + profile;
    if (drawn.has(key)) return drawn.get(key);
    const { unit, tree, before, after, noise } = flames[run][profile];
    const flame = ladogaFlame(tree, unit, element.querySelector(".flame-graph"));
    flame.show(after, before, ladogaNoiseOfRounds(tree.parent.length, noise));
    drawn.set(key, flame);
    return flame;
  }
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  });
  const differences = [...document.querySelectorAll(".difference")];
  differences.forEach((element) => seen.observe(element));
  // Stages have been opened by then; what else is folded stays as the reader has left it.
  const isOpen = (element) => element.closest("details:not([open])") === null;
  window.addEventListener("beforeprint", () => differences.filter(isOpen).forEach((element) => draw(element).draw()));
  // For tests and other scripts.
  window.ladogaComparison = {
    frames: (run, profile = 0) => draw(document.querySelector(`.difference[data-run="${run}"][data-profile="${profile}"]`)).frames(),
  };
})();
