"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const flame = ladogaFlame(data.tree, data.unit, document.getElementById("flame"));
  flame.show(data.values || data.after, data.before, data.noise);
  window.ladogaProfile = { flame };
})();
