// The list of runs: two are ticked to be compared.

import { openPage } from "./frame.js";
import { makeTable } from "./tables.js";

const boxes = [...document.querySelectorAll("#choose input[type=checkbox]")];

function allow() {
  const ticked = boxes.filter((one) => one.checked).length;
  for (const one of boxes) one.disabled = ticked >= 2 && !one.checked;
  const button = document.getElementById("compare");
  if (button) button.disabled = ticked !== 2;
}

for (const one of boxes) one.addEventListener("change", allow);
makeTable();
openPage(allow);
