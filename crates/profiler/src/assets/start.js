"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const flame = ladogaFlame(data.tree, data.unit, document.getElementById("flame"));
  if (data.before) flame.show(data.after, data.before, ladogaNoiseOfRounds(data.tree.parent.length, data.noise));
  else flame.show(data.values);
  window.ladogaProfile = { flame };
})();
