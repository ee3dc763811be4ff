// The table of data objects is there without a script; with it, a button in each head sorts the rows.
function sortableObjects(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, at) => row.cells[at].dataset.value === undefined ? row.cells[at].textContent : Number(row.cells[at].dataset.value);
  const sort = (at, down) => {
    const sign = down ? -1 : 1, rows = [...body.rows];
    rows.sort((a, b) => { const x = value(a, at), y = value(b, at); return sign * (x < y ? -1 : x > y ? 1 : 0); });
    body.replaceChildren(...rows);
    heads.forEach((head, place) => {
      head.setAttribute("aria-sort", place === at ? (down ? "descending" : "ascending") : "none");
      head.firstChild.textContent = head.dataset.label + (place === at ? (down ? " ▼" : " ▲") : "");
    });
  };
  heads.forEach((head, at) => {
    head.dataset.label = head.textContent;
    const button = element("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => sort(at, head.getAttribute("aria-sort") === "descending" ? false
      : head.getAttribute("aria-sort") === "ascending" ? true : !head.classList.contains("text")));
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
  });
}
