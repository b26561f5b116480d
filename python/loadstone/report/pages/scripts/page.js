// A page: its charts in their places, its filters and tools, as far as it has them.

import { place } from "./charts.js";
import { openPage } from "./frame.js";
import { makeFilters, whenSelected } from "./selection.js";
import { SECTIONS } from "./sections.js";
import { makeTable } from "./tables.js";
import { makeTimeTools } from "./times.js";

function drawSections() {
  const optional = document.querySelectorAll("section[data-optional]");
  // A place that is not shown has no width to draw in.
  for (const section of optional) section.hidden = false;
  for (const container of document.querySelectorAll("[data-charts]")) place(container, SECTIONS[container.dataset.charts]());
  for (const section of optional) {
    section.hidden = !section.querySelector("figure") && !section.querySelector("#time-words")?.textContent;
    const link = document.querySelector(`nav a[href="#${section.id}"]`);
    if (link) link.hidden = section.hidden;
  }
}

const filters = document.getElementById("filters");
if (filters) makeFilters(filters);
if (document.getElementById("time-tools")) makeTimeTools(drawSections);
if (document.getElementById("result-table") || document.getElementById("find")) makeTable();
whenSelected(drawSections);
openPage(drawSections);
