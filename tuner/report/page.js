// A click on a header sorts by its column; a second one turns the order round.
for (const table of document.querySelectorAll("table")) {
  const headers = [...table.querySelectorAll("th")], body = table.tBodies[0];
  headers.forEach((header, column) => header.firstChild.addEventListener("click", () => {
    const up = header.getAttribute("aria-sort") !== "ascending";
    headers.forEach(other => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.key;
    const rows = [...body.rows].sort((a, b) => key(a).localeCompare(key(b), "en", { numeric: true }));
    const numbers = [...body.rows].every(row => !isNaN(key(row)));
    if (numbers) rows.sort((a, b) => key(a) - key(b));
    body.append(...(up ? rows : rows.reverse()));
  }));
}
