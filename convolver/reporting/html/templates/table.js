// The table of blocks: sorted by index arrays, filtered, and only the visible rows exist (50,000 rows stay quick).
const ROW = 27, BEYOND = 12, LEAST_HEIGHT = 520;
const FASTEST = 1e11; // no core carries out so many references in a second

class BlockTable {
  constructor(view, status, report) {
    this.view = view; this.status = status; this.report = report;
    this.key = "seconds"; this.down = true; this.words = "";
    this.view.addEventListener("scroll", () => this.draw());
  }
  columns() {
    const { blocks, machine } = this.report, first = this.report.data.machines[0];
    const text = (name, label, get) => ({ name, label, text: true, get });
    const number = (name, label, values, show) => ({ name, label, get: row => values[row], show });
    const found = [
      text("function", "function", row => blocks.function.names[blocks.function.index[row]] || this.report.place(row)),
      text("place", "line", row => this.report.place(row)),
      number("seconds", "time", machine.block_seconds, seconds),
      { name: "share", label: "share", get: row => machine.block_seconds[row] / machine.seconds, show: percent, share: true },
      text("limit", "limited by", row => machine.block_limit.names[machine.block_limit.index[row]] || "–"),
      number("executions", "executions", blocks.executions, count),
      number("memops", "accesses", blocks.memops, count),
      ...machine.levels.map((level, index) => number("hit" + index, level + " hits", machine.block_hits[index], percent)),
      text("location", "data in", row => machine.block_location.names[machine.block_location.index[row]] || "–"),
      number("random", "random", machine.block_random, percent),
      number("rate", "accesses /s", machine.block_rate, value => value > FASTEST ? "> " + count(FASTEST) : value > 0 ? count(value) : "–"),
    ];
    if (machine !== first) {
      const ratio = row => machine.block_seconds[row] > 0 ? first.block_seconds[row] / machine.block_seconds[row] : null;
      found.push({ name: "ratio", label: first.name + " / this", get: ratio, show: value => value === null ? "–" : significant(value) });
    }
    return found;
  }
  update() {
    this.all = this.columns();
    if (!this.all.some(column => column.name === this.key)) this.key = "seconds";
    this.sort(); this.frame(); this.draw();
  }
  filter(words) { this.words = words.trim().toLowerCase(); this.update(); this.view.scrollTop = 0; }
  sort() {
    const column = this.all.find(one => one.name === this.key), rows = [];
    const { blocks } = this.report, match = this.words ? this.matches() : null;
    for (let row = 0; row < blocks.block.length; row++) if (!match || match(row)) rows.push(row);
    const keys = new Array(blocks.block.length);
    for (const row of rows) { const value = column.get(row); keys[row] = value === null || value === undefined ? (column.text ? "" : -Infinity) : value; }
    const sign = this.down ? -1 : 1;
    rows.sort(column.text ? (a, b) => sign * (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) || a - b
                          : (a, b) => sign * (keys[a] - keys[b]) || a - b);
    this.rows = rows;
    const { machine } = this.report;
    let time = 0, memops = 0, whole = 0;
    for (const row of rows) { time += machine.block_seconds[row]; memops += blocks.memops[row]; }
    for (const value of blocks.memops) whole += value;
    this.status.textContent = `${rows.length} of ${blocks.block.length} blocks: ${percent(machine.seconds ? time / machine.seconds : 0)} of the time, ${percent(whole ? memops / whole : 0)} of the accesses`;
  }
  matches() {
    const { blocks } = this.report;
    const hit = texts => texts.names.map(name => name.toLowerCase().includes(this.words));
    const [inFunction, inFile, inModule] = [hit(blocks.function), hit(blocks.file), hit(blocks.module)];
    return row => inFunction[blocks.function.index[row]] || inFile[blocks.file.index[row]] || inModule[blocks.module.index[row]];
  }
  frame() {
    const head = this.all.map(column => element("th", {
      scope: "col", class: column.text ? "text" : null,
      "aria-sort": column.name === this.key ? (this.down ? "descending" : "ascending") : "none",
    }, element("button", { type: "button", "data-key": column.name, onclick: () => this.by(column.name) },
      column.label + (column.name === this.key ? (this.down ? " ▼" : " ▲") : ""))));
    this.body = element("tbody");
    const table = element("table", { class: "grid", "aria-rowcount": this.rows.length + 1 }, element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...head)), this.body);
    this.view.replaceChildren(table);
    this.from = this.to = -1;
  }
  by(name) {
    const column = this.all.find(one => one.name === name);
    this.down = this.key === name ? !this.down : !column.text;
    this.key = name; this.update();
    this.view.querySelector(`button[data-key="${name}"]`).focus({ preventScroll: true });
  }
  draw() {
    const from = Math.max(0, Math.floor(this.view.scrollTop / ROW) - BEYOND);
    const to = Math.min(this.rows.length, Math.ceil((this.view.scrollTop + Math.max(LEAST_HEIGHT, this.view.clientHeight)) / ROW) + BEYOND);
    if (from === this.from && to === this.to) return;
    const focused = document.activeElement && this.body.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    this.from = from; this.to = to;
    const space = rows => element("tr", { class: "spacer", "aria-hidden": "true" }, element("td", { colspan: this.all.length, style: `height:${rows * ROW}px` }));
    const made = [space(from)];
    for (let at = from; at < to; at++) made.push(this.row(this.rows[at], at));
    made.push(space(this.rows.length - to));
    this.body.replaceChildren(...made);
    if (focused !== null) { const again = this.body.querySelector(`button[data-row="${focused}"]`); if (again) again.focus({ preventScroll: true }); }
  }
  row(row, at) {
    const cells = this.all.map((column, index) => {
      const value = column.get(row), shown = column.show ? column.show(value) : value;
      if (index === 0) return element("td", { class: "text" }, element("button", { type: "button", "data-row": row, title: shown, onclick: () => this.report.choose(row) }, shown));
      if (column.share) return element("td", { class: "share", style: `--part:${Math.min(1, value) * 0.9}` }, shown);
      return element("td", { class: column.text ? "text" : null, title: column.text ? shown : null }, shown);
    });
    return element("tr", { "aria-rowindex": at + 2, class: row === this.report.chosen ? "chosen" : null, style: `height:${ROW}px` }, ...cells);
  }
  refresh() { this.from = -1; this.draw(); }
  csv() {
    const quote = value => /[",\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : value;
    const lines = [this.all.map(column => column.label).join(",")];
    for (const row of this.rows) lines.push(this.all.map(column => quote(String(column.get(row) ?? ""))).join(","));
    return lines.join("\n") + "\n";
  }
}
