// The page of a run: all its charts, drawn again whenever a filter is changed.

import { drawDistributions } from "./distributions.js";
import { openPage } from "./frame.js";
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

makeFilters(document.getElementById("filters"));
makeTimeTools();
makeTable();
whenSelected(draw);
openPage(draw);
