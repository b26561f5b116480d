// The table of results: sorted by a click on its head, filtered, and saved as CSV.

import { save } from "./charts.js";
import { chosenRound, isShown, whenSelected } from "./selection.js";

export function makeTable() {
  const table = document.getElementById("result-table");
  const find = document.getElementById("find");
  if (!table) { find.closest("label").hidden = true; document.getElementById("save-csv").hidden = true; return; }
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head) sort(table, head);
  });
  find.addEventListener("input", () => show(table, find.value));
  whenSelected(() => show(table, find.value));
  show(table, "");
  document.getElementById("save-csv").addEventListener("click", () => save(`${document.title.split(" – ")[0]}.csv`, "text/csv", csvOf(table)));
}

function sort(table, head) {
  const isDown = head.getAttribute("aria-sort") === "descending";
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  const isNumber = head.classList.contains("right");
  // Numbers fall at first, for the most is looked for; words rise.
  const isRising = isNumber ? isDown : !(head.dataset.rising === "yes");
  head.dataset.rising = isRising ? "yes" : "";
  head.setAttribute("aria-sort", isRising ? "ascending" : "descending");
  const column = head.cellIndex;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    if (!isNumber) return x.textContent.localeCompare(y.textContent) * (isRising ? 1 : -1);
    if (x.dataset.value === undefined || y.dataset.value === undefined) return (x.dataset.value === undefined) - (y.dataset.value === undefined);
    return (Number(x.dataset.value) - Number(y.dataset.value)) * (isRising ? 1 : -1);
  });
  table.tBodies[0].append(...rows);
}

function show(table, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  let all = 0;
  for (const row of table.tBodies[0].rows) {
    const isOwn = row.dataset.round === chosenRound();
    const text = row.textContent.toLowerCase();
    row.hidden = !(isOwn && isShown(row.dataset) && wanted.every((word) => text.includes(word)));
    all += isOwn;
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown === all ? all : `${shown} of ${all}`} row${all === 1 ? "" : "s"}.`;
}

function csvOf(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (cells) => cells.map(quoted).join(",");
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].map((cell) => {
    const chips = [...cell.querySelectorAll(".chip")].map((chip) => chip.textContent);
    return chips.length ? chips.join("; ") : cell.textContent.trim();
  }));
  return `${[heads, ...rows].map(line).join("\n")}\n`;
}
