// What every rank, or thread, does over time.
// Computation, and waiting for a processor, is the background of the rest; the others differ in lightness, too.
const THREAD_WAITS = { 9: 2, 10: 6, 11: 3, 12: 5, 13: 7 };
function stateColour(state) {
  const shade = THREAD_WAITS[state] || state;
  return shade >= 2 && shade <= 7 ? `var(--t${shade})` : "var(--line)";
}

function drawTimeline(view, note, timeline) {
  const bar = Math.max(4, Math.min(26, 520 / timeline.ranks)), high = bar * timeline.ranks + 56, left = 60;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${high}`, role: "img", "aria-label": `${timeline.ranks} ${timeline.each}s, ${seconds(timeline.seconds)} predicted` });
  const x = time => left + time / timeline.seconds * (WIDE - left - 16);
  timeline.rank.forEach((rank, index) => {
    const [from, to] = [x(timeline.begin[index]), x(timeline.end[index])];
    svg.append(drawn("rect", { x: from.toFixed(2), width: Math.max(0.2, to - from).toFixed(2), y: 10 + rank * bar, height: bar * 0.86, fill: stateColour(timeline.state[index]) },
      drawn("title", {}, `${timeline.each} ${rank}: ${timeline.states[timeline.state[index]]}, ${seconds(timeline.end[index] - timeline.begin[index])}`)));
  });
  const step = Math.ceil(timeline.ranks / 20);
  for (let rank = 0; rank < timeline.ranks; rank += step) svg.append(drawn("text", { x: left - 8, y: 10 + rank * bar + bar / 2 + 4, "text-anchor": "end" }, String(rank)));
  for (let tick = 0; tick <= 5; tick++) svg.append(drawn("text", { x: x(timeline.seconds * tick / 5), y: high - 22, "text-anchor": tick === 5 ? "end" : "middle", class: "muted" }, seconds(timeline.seconds * tick / 5)));
  const used = [...new Set(timeline.state)].sort((a, b) => a - b);
  const legend = element("div", { class: "legend" }, ...used.map(state => element("label", {}, drawn("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" }, drawn("rect", { width: 34, height: 12, fill: stateColour(state) })), timeline.states[state])));
  note.textContent = timeline.left_out ? `The ${timeline.left_out} shortest intervals are left out.` : "";
  view.replaceChildren(legend, svg);
}
