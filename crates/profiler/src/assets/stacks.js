"use strict";
// Stacks as one tree, in the ways in which people look at them: with the frames of the runtime folded, from the
// leaves instead of from the base, only those that match a search. Pure: nothing is drawn here.
//
// `tree` has names, and for each node its parent (-1: a thread, which is a root) and its name; parents stand before their
// children. Weights are of each node itself.
function ladogaStacks(tree) {
  const RUNTIME = /^(<?(std|core|alloc|tokio|mio|hyper|hyper_util|futures_\w+|crossbeam_\w+|parking_lot\w*|rayon_core)::|\[[^\]]*\.so[^\]]*\]|_{1,2}libc_start|_start$|start_thread$|clone3?$|_?_rust_)/;
  const FOLDED = "[runtime]";
  const count = tree.parent.length;
  const names = tree.names;
  const isRuntime = names.map((name) => RUNTIME.test(name) && !name.endsWith("_[k]"));
  const nameOf = (node) => names[tree.name[node]];

  // A tree that grows: nodes by their caller and their name.
  function forest() {
    const grown = { names: [], parent: [], hidden: [], after: [], before: [], kids: [], ends: new Int32Array(0) };
    const known = new Map();
    grown.child = (parent, name) => {
      const key = parent + "\n" + name;
      let node = known.get(key);
      if (node === undefined) {
        node = grown.names.length;
        known.set(key, node);
        grown.names.push(name);
        grown.parent.push(parent);
        grown.hidden.push(null);
        grown.after.push(0);
        grown.before.push(0);
      }
      return node;
    };
    return grown;
  }

  // Runs of runtime frames become one; the last frame of a stack stays, for it says where the time went.
  function fromBase(out, options) {
    const bases = new Int32Array(count).fill(-2), runs = new Int32Array(count);
    const hide = (base, node) => {
      const folded = out.child(base, FOLDED);
      const hidden = out.hidden[folded] || (out.hidden[folded] = new Set());
      let at = node;
      for (let left = runs[node]; left > 0; left--, at = tree.parent[at]) hidden.add(nameOf(at));
      return folded;
    };
    const baseOf = (node) => {
      if (node < 0) return -1;
      if (bases[node] !== -2) return bases[node];
      const parent = tree.parent[node], base = baseOf(parent), run = parent < 0 ? 0 : runs[parent];
      if (options.fold && parent >= 0 && isRuntime[tree.name[node]]) {
        runs[node] = run + 1;
        bases[node] = base;
      } else {
        const caller = run > 0 ? hide(base, parent) : base;
        bases[node] = out.child(caller, nameOf(node));
      }
      return bases[node];
    };
    return (node) => {
      const base = baseOf(node);
      if (runs[node] === 0) return base;
      return out.child(runs[node] === 1 ? base : hide(base, tree.parent[node]), nameOf(node));
    };
  }

  function reversed(grown) {
    const out = forest(), endOf = new Int32Array(grown.names.length).fill(-1);
    for (let node = 0; node < grown.names.length; node++) {
      if (!grown.after[node] && !grown.before[node]) continue;
      let at = -1;
      for (let frame = node; frame >= 0; frame = grown.parent[frame]) {
        at = out.child(at, grown.names[frame]);
        out.hidden[at] = grown.hidden[frame];
      }
      endOf[node] = at;
      out.after[at] += grown.after[node];
      out.before[at] += grown.before[node];
    }
    out.ends = grown.ends.map((end) => (end < 0 ? end : endOf[end]));
    return out;
  }

  // `wanted` says which nodes count, by number; none for all. `ends` of what it answers says where the weight of each node of
  // the tree went; -1 for what is left out.
  function view(after, before, options, wanted) {
    let out = forest();
    out.ends = new Int32Array(count).fill(-1);
    const leafOf = fromBase(out, options);
    for (let node = 0; node < count; node++) {
      const now = after[node] || 0, old = before ? before[node] || 0 : 0;
      if ((!now && !old) || (wanted && !wanted[node])) continue;
      const leaf = leafOf(node);
      out.ends[node] = leaf;
      out.after[leaf] += now;
      out.before[leaf] += old;
    }
    if (options.reverse) out = reversed(out);
    out.kids = Array.from({ length: out.names.length + 1 }, () => []);
    out.parent.forEach((parent, node) => out.kids[parent + 1].push(node));
    const label = (node) => out.names[node];
    for (const list of out.kids) list.sort((a, b) => (label(a) < label(b) ? -1 : label(a) > label(b) ? 1 : 0));
    return out;
  }

  // Which nodes lie in a stack that has a match, on the way to the root.
  function hits(pattern) {
    const isMatch = names.map((name) => pattern.test(name));
    const hit = new Uint8Array(count);
    for (let node = 0; node < count; node++) {
      const parent = tree.parent[node];
      hit[node] = isMatch[tree.name[node]] || (parent >= 0 && hit[parent]) ? 1 : 0;
    }
    return hit;
  }

  return { view, hits, count };
}
