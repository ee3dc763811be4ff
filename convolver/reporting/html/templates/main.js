// Opens the data and ties the views together.
async function opened() {
  const text = atob(document.getElementById("data").textContent), packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

class Report {
  constructor(data) {
    this.data = data; this.blocks = data.blocks; this.machine = data.machines[0]; this.chosen = null;
    const find = id => document.getElementById(id);
    this.table = new BlockTable(find("table-view"), find("shown"), this);
    this.maps = new MapsView(find("maps-view"), find("tip"), this);
    this.source = new SourceView(find("source-view"), find("file"), find("file-note"), this);
    find("filter").addEventListener("input", event => this.table.filter(event.target.value));
    find("csv").addEventListener("click", () => this.save());
    this.switcher(find("machines"));
    this.update();
    if (find("objects-table")) sortableObjects(find("objects-table"));
    if (data.timeline && find("timeline-view")) drawTimeline(find("timeline-view"), find("timeline-note"), data.timeline);
  }
  switcher(view) {
    if (this.data.machines.length < 2) return;
    view.replaceChildren(...this.data.machines.map(machine => element("button", { type: "button", "aria-pressed": String(machine === this.machine),
      onclick: () => { this.machine = machine; this.switcher(view); this.update(); view.querySelector('[aria-pressed="true"]').focus(); } }, machine.name)));
  }
  update() { this.maps.update(); this.table.update(); this.source.update(); }
  file(row) { return this.blocks.file.names[this.blocks.file.index[row]]; }
  place(row) {
    const file = this.file(row), module = this.blocks.module.names[this.blocks.module.index[row]];
    return file ? base(file) + ":" + this.blocks.line[row] : (base(module) || "?") + "+0x" + this.blocks.offset[row].toString(16);
  }
  describe(row) {
    const { machine, blocks } = this, name = blocks.function.names[blocks.function.index[row]] || "?";
    const limit = machine.block_limit.names[machine.block_limit.index[row]];
    const hits = machine.levels.map((level, index) => `${level} ${percent(machine.block_hits[index][row])}`).join(", ");
    return `${name}, ${this.place(row)}\n${seconds(machine.block_seconds[row])} (${percent(machine.block_seconds[row] / machine.seconds)})\n` +
      (limit ? `limited by ${limit}\n` : "") + `${count(machine.block_rate[row])} references per second\nserved by or before: ${hits}\n` +
      `${count(blocks.memops[row])} accesses, ${percent(machine.block_random[row])} random`;
  }
  choose(row) {
    this.chosen = row;
    this.table.refresh(); this.maps.update();
    if (this.source.go(row)) document.getElementById("sources").scrollIntoView({ block: "nearest" });
  }
  save() {
    const link = element("a", { href: URL.createObjectURL(new Blob([this.table.csv()], { type: "text/csv" })), download: "blocks.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

function theme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const set = name => root.setAttribute("data-theme", name);
  const wanted = new URLSearchParams(location.hash.slice(1)).get("theme");
  set(wanted === "dark" || wanted === "light" ? wanted : dark.matches ? "dark" : "light");
  dark.addEventListener("change", event => set(event.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => set(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));
}

theme();
opened().then(data => { window.report = new Report(data); document.documentElement.setAttribute("data-ready", ""); }).catch(error => {
  document.querySelector("main").prepend(element("p", { class: "warning" }, `The data of this page could not be opened (${error.message}); use a browser of 2023 or newer.`));
});
