// Source files line by line: accesses, misses by level and time of the blocks that begin on each line.
class SourceView {
  constructor(view, select, note, report) {
    this.view = view; this.select = select; this.note = note; this.report = report;
    report.data.sources.forEach((source, index) => select.append(element("option", { value: index }, source.path)));
    select.addEventListener("change", () => this.update());
  }
  none() {
    const { unreadable } = this.report.data;
    return unreadable.length ? `No source file can be read here. ${base(unreadable[0][0])}: ${unreadable[0][1]}` : "No block has a known source file: compile with -g and trace again.";
  }
  lines(path) {
    const { blocks, machine } = this.report, wanted = blocks.file.names.indexOf(path), found = new Map();
    for (let row = 0; row < blocks.block.length; row++) {
      if (blocks.file.index[row] !== wanted || blocks.line[row] === 0) continue;
      const line = blocks.line[row];
      if (!found.has(line)) found.set(line, { memops: 0, seconds: 0, misses: machine.levels.map(() => 0) });
      const sums = found.get(line);
      sums.memops += blocks.memops[row]; sums.seconds += machine.block_seconds[row];
      machine.levels.forEach((_, level) => { const rate = machine.block_hits[level][row]; if (rate !== null) sums.misses[level] += blocks.memops[row] * (1 - rate); });
    }
    return found;
  }
  update() {
    const source = this.report.data.sources[Number(this.select.value)], { machine } = this.report;
    if (!source) { this.view.replaceChildren(element("p", { class: "muted" }, this.none())); this.note.textContent = ""; return; }
    this.note.textContent = source.problem || (source.newer ? "This file is newer than the trace: lines may have moved." : "");
    const costs = this.lines(source.path), head = ["line", "accesses", ...machine.levels.map(level => level + " misses"), "time", "share", "source"];
    const texts = source.text ? source.text.split("\n") : [];
    const shown = texts.length ? texts.map((_, index) => index + 1) : [...costs.keys()].sort((a, b) => a - b);
    const chosen = this.report.chosen === null || this.report.file(this.report.chosen) !== source.path ? null : this.report.blocks.line[this.report.chosen];
    const rows = shown.map(line => this.row(line, costs.get(line), texts[line - 1] || "", line === chosen));
    const table = element("table", { class: "source" }, element("thead", {}, element("tr", {}, ...head.map(name => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows));
    this.view.replaceChildren(table);
    let hottest = 0, most = 0;
    for (const [line, cost] of costs) if (cost.seconds > most) { most = cost.seconds; hottest = line; }
    this.show(chosen === null ? hottest : chosen);
  }
  show(number) {
    const line = document.getElementById("line-" + number);
    if (line) this.view.scrollTop = line.offsetTop - this.view.clientHeight / 2;
    return Boolean(line);
  }
  row(line, costs, text, chosen) {
    const { machine } = this.report, share = costs ? costs.seconds / machine.seconds : 0;
    const cells = costs ? [count(costs.memops), ...costs.misses.map(value => value < 0.5 ? "" : count(value)), seconds(costs.seconds)] : new Array(machine.levels.length + 2).fill("");
    return element("tr", { id: "line-" + line, class: chosen ? "chosen" : null },
      element("td", { class: "line" }, String(line)), ...cells.map(cell => element("td", {}, cell)),
      element("td", { class: "share", style: `--part:${Math.min(1, share)}` }, share >= 0.0005 ? percent(share) : ""), element("td", {}, text));
  }
  go(row) {
    const index = this.report.data.sources.findIndex(source => source.path === this.report.file(row));
    if (index < 0) return false;
    this.select.value = index; this.update();
    return this.show(this.report.blocks.line[row]);
  }
}
