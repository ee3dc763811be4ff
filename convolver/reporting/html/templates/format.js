// Numbers as people read them, and small helpers to build elements.
function scaled(value, steps) {
  for (const [limit, unit] of steps) if (Math.abs(value) >= limit) return significant(value / limit) + " " + unit;
  return significant(value / steps[steps.length - 1][0]) + " " + steps[steps.length - 1][1];
}
function significant(value) { return value === 0 ? "0" : Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6, useGrouping: false }); }
function seconds(value) { return value === 0 ? "0" : scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]); }
function count(value) { return Math.abs(value) < 1000 ? significant(value) : scaled(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]); }
function bytes(value) { return value < 1024 ? value + " B" : scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]); }
function percent(share) { return share === null || !Number.isFinite(share) ? "–" : (100 * share).toFixed(1) + " %"; }
function base(path) { return path.slice(path.lastIndexOf("/") + 1); }

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
