// What the page does when it opens, is resized, filtered, printed or asked for another theme.

import { saveChart } from "./charts.js";
import { drawDistributions } from "./distributions.js";
import { drawOverview } from "./overview.js";
import { makeFilters, whenSelected } from "./selection.js";
import { drawSweep } from "./sweep.js";
import { makeTable } from "./tables.js";
import { drawTimes, makeTimeTools } from "./times.js";

function draw() {
  for (const id of ["sweep", "over-time", "latency"]) {
    // A place that is not shown has no width to draw in.
    document.getElementById(id).hidden = false;
    for (const figure of document.querySelectorAll(`#${id} figure`)) figure.hidden = false;
  }
  for (const id of ["throughput", "latency-overview"]) document.getElementById(id).hidden = false;
  drawOverview();
  drawSweep();
  drawTimes();
  drawDistributions();
  for (const id of ["sweep", "over-time", "latency"]) {
    document.querySelector(`nav a[href="#${id}"]`).hidden = document.getElementById(id).hidden;
  }
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function sayTheme() {
  const button = document.getElementById("theme");
  button.setAttribute("aria-pressed", String(isDark()));
}

makeFilters(document.getElementById("filters"));
makeTimeTools();
makeTable();
whenSelected(draw);
draw();
sayTheme();

let width = document.documentElement.clientWidth;
let later = 0;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === width) return;
  width = document.documentElement.clientWidth;
  clearTimeout(later);
  later = setTimeout(draw, 120);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sayTheme);
document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  sayTheme();
});
document.getElementById("print").addEventListener("click", () => print());
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-download]");
  if (button) saveChart(button.dataset.download);
});
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const one of folded) one.open = true;
});
addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
addEventListener("hashchange", openTarget);
openTarget();

function openTarget() {
  const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
}

document.documentElement.dataset.drawn = "yes";
