// The list of runs: two are ticked to be compared.

import { openPage } from "./frame.js";
import { makeTable } from "./tables.js";

const boxes = [...document.querySelectorAll("#choose input[type=checkbox]")];

const KINDS = { valid: "good", bound: "client", void: "void" };

// One after another: what a run's records say takes the longer the more there are.
async function fillIn() {
  for (const row of document.querySelectorAll("tr[data-run]")) {
    const answer = await fetch(`run/${row.dataset.run}.json`, { cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return;
    const said = await answer.json();
    const [, , , , target, operation, rate, p99, standing] = row.cells;
    for (const [cell, text] of [[target, said.target], [operation, said.operation], [rate, [said.of, said.rate].filter(Boolean).join(" ")], [p99, said.p99]]) cell.textContent = text || "–";
    for (const [cell, value] of [[rate, said.rate_value], [p99, said.p99_value]]) if (value) cell.dataset.value = value;
    rate.title = said.case ?? "";
    if (said.standing) {
      const chip = document.createElement("span");
      chip.className = `chip ${KINDS[said.standing]}`;
      chip.textContent = said.standing;
      standing.append(chip);
    }
  }
  document.documentElement.dataset.filled = "yes";
}

function allow() {
  const ticked = boxes.filter((one) => one.checked).length;
  for (const one of boxes) one.disabled = ticked >= 2 && !one.checked;
  const button = document.getElementById("compare");
  if (button) button.disabled = ticked !== 2;
}

for (const one of boxes) one.addEventListener("change", allow);
makeTable();
openPage(allow);
fillIn();
