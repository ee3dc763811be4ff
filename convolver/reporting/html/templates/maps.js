// MAPS curves with the blocks on them.
const DASHES = ["", "8 4", "8 3 2 3", "2 4", "14 4"], WIDE = 1000, HIGH = 440, EDGE = { left: 70, right: 24, top: 30, bottom: 46 }, FOCUSABLE = 60;

class MapsView {
  constructor(view, tip, report) { this.view = view; this.tip = tip; this.report = report; this.hidden = new Set(); }
  update() {
    const maps = this.report.machine.maps;
    if (!maps) { this.view.replaceChildren(element("p", { class: "muted" }, `The curves of ${this.report.machine.name} are not in this report.`)); return; }
    const xs = maps.curves.flatMap(curve => curve.points.map(point => point[0])), ys = maps.curves.flatMap(curve => curve.points.map(point => point[1]));
    this.ceiling = 4 * Math.max(...ys);  // blocks that spend next to no time on memory stand here instead of stretching the picture
    const rates = maps.circles.map(([row]) => this.shown(row));
    const extent = (values, margin) => [Math.log2(Math.min(...values)) - margin, Math.log2(Math.max(...values)) + margin];
    this.x = extent(xs, 0.6); this.y = extent(ys.concat(rates), 0.8);
    const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": `References per second over working set on ${this.report.machine.name}` });
    this.axes(svg, maps); this.curves(svg, maps); this.circles(svg, maps);
    this.view.replaceChildren(this.legend(maps), svg);
  }
  shown(row) { return Math.min(this.report.machine.block_rate[row], this.ceiling); }
  px(size) { return EDGE.left + (Math.log2(size) - this.x[0]) / (this.x[1] - this.x[0]) * (WIDE - EDGE.left - EDGE.right); }
  py(rate) { return HIGH - EDGE.bottom - (Math.log2(rate) - this.y[0]) / (this.y[1] - this.y[0]) * (HIGH - EDGE.top - EDGE.bottom); }
  axes(svg, maps) {
    const bottom = HIGH - EDGE.bottom, right = WIDE - EDGE.right;
    for (let power = Math.ceil(this.x[0] / 2) * 2; power <= this.x[1]; power += 2) {
      const x = this.px(2 ** power);
      svg.append(drawn("line", { x1: x, x2: x, y1: EDGE.top, y2: bottom, class: "gridline" }), drawn("text", { x, y: bottom + 18, "text-anchor": "middle" }, bytes(2 ** power)));
    }
    for (let power = Math.ceil(this.y[0] * Math.log10(2)); power <= this.y[1] * Math.log10(2); power++) {
      const y = this.py(10 ** power);
      svg.append(drawn("line", { x1: EDGE.left, x2: right, y1: y, y2: y, class: "gridline" }), drawn("text", { x: EDGE.left - 8, y: y + 4, "text-anchor": "end" }, count(10 ** power)));
    }
    let left = 2 ** this.x[0];
    for (const [name, size] of [...maps.edges, ["memory", 2 ** this.x[1]]]) {
      const shown = Math.min(size, 2 ** this.x[1]);
      if (shown > left) svg.append(drawn("text", { x: (this.px(left) + this.px(shown)) / 2, y: EDGE.top - 10, "text-anchor": "middle", class: "muted" }, name));
      if (name !== "memory") svg.append(drawn("line", { x1: this.px(shown), x2: this.px(shown), y1: EDGE.top, y2: bottom, class: "edge" }));
      left = Math.max(left, shown);
    }
    svg.append(drawn("text", { x: WIDE / 2, y: HIGH - 8, "text-anchor": "middle", class: "muted" }, "working set"),
      drawn("text", { x: 16, y: HIGH / 2, "text-anchor": "middle", class: "muted", transform: `rotate(-90 16 ${HIGH / 2})` }, "references per second"));
  }
  curves(svg, maps) {
    maps.curves.forEach((curve, index) => {
      if (this.hidden.has(curve.label)) return;
      const path = curve.points.map(([size, rate], at) => (at ? "L" : "M") + this.px(size).toFixed(1) + " " + this.py(rate).toFixed(1)).join("");
      svg.append(drawn("path", { d: path, fill: "none", stroke: `var(--s${index})`, "stroke-width": 2, "stroke-dasharray": DASHES[index] }, drawn("title", {}, curve.label)));
    });
  }
  circles(svg, maps) {
    maps.circles.forEach(([row, size, share], index) => {
      const circle = drawn("circle", { cx: this.px(size), cy: this.py(this.shown(row)), r: Math.max(2.5, 60 * Math.sqrt(share)), class: "block" + (row === this.report.chosen ? " chosen" : ""),
        "data-row": row, role: "button", "aria-label": this.report.describe(row).replaceAll("\n", "; "), ...(index < FOCUSABLE ? { tabindex: 0 } : {}) });
      const show = event => this.show(row, event.clientX, event.clientY, circle);
      circle.addEventListener("mousemove", show);
      circle.addEventListener("focus", () => this.show(row, null, null, circle));
      for (const kind of ["mouseleave", "blur"]) circle.addEventListener(kind, () => { this.tip.hidden = true; });
      circle.addEventListener("click", () => this.report.choose(row));
      circle.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.report.choose(row); } else if (event.key === "Escape") this.tip.hidden = true; });
      svg.append(circle);
    });
  }
  show(row, x, y, circle) {
    const box = circle.getBoundingClientRect();
    this.tip.textContent = this.report.describe(row);
    this.tip.hidden = false;
    const left = x === null ? box.right : x, top = y === null ? box.bottom : y;
    this.tip.style.left = Math.min(left + 14, innerWidth - this.tip.offsetWidth - 8) + "px";
    this.tip.style.top = Math.min(top + 14, innerHeight - this.tip.offsetHeight - 8) + "px";
  }
  legend(maps) {
    return element("div", { class: "legend", role: "group", "aria-label": "Curves shown" }, ...maps.curves.map((curve, index) => {
      const box = element("input", { type: "checkbox", onchange: event => { if (event.target.checked) this.hidden.delete(curve.label); else this.hidden.add(curve.label); this.update(); } });
      box.checked = !this.hidden.has(curve.label);
      const sample = drawn("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" }, drawn("line", { x1: 0, x2: 34, y1: 6, y2: 6, stroke: `var(--s${index})`, "stroke-width": 2.5, "stroke-dasharray": DASHES[index] }));
      return element("label", {}, box, sample, curve.label);
    }));
  }
}
