// Tables sort by a button in each header cell: numbers as numbers, empty cells last, rows of equal keys as they were.

const sortable = {
  /** The key of a cell: the number at its beginning, or its text in lower case; null if it is empty. */
  key(text) {
    const words = text.trim().replace("−", "-");
    const number = /^[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?(?![\w.])/i.exec(words);
    if (words === "") return null;
    return number ? Number(number[0].replaceAll(",", "")) : words.toLowerCase();
  },

  /** Which of two keys comes first, as for Array.sort: numbers before words, and empty cells last in both directions. */
  compare(a, b, direction) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -direction : direction;
    return direction * (typeof a === "number" ? a - b : a.localeCompare(b));
  },

  /** Sort the rows of a table by a column, upwards first, and say so in its header. */
  sort(table, column) {
    const headers = [...table.tHead.rows[0].cells];
    const direction = headers[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = [...table.tBodies[0].rows].map((row) => [sortable.key(row.cells[column].textContent), row]);
    rows.sort(([a], [b]) => sortable.compare(a, b, direction));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    headers.forEach((header) => header.removeAttribute("aria-sort"));
    headers[column].setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  },

  /** Put a button into each header cell of a table of at least three rows. */
  prepare(table) {
    if (table.tHead === null || table.tBodies.length !== 1 || table.tBodies[0].rows.length < 3) return;
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if (header.textContent.trim() === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.style.cssText = "font: inherit; color: inherit; background: none; border: 0; padding: 0; text-align: inherit; cursor: pointer";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sortable.sort(table, column));
      header.append(button);
    });
  },
};

if (typeof document !== "undefined") {
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("table").forEach(sortable.prepare));
}
