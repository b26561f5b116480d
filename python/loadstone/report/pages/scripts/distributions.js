// Latency distributions: one line for each result, the rarer the farther to the right.

import { AXIS, colorScale, legendOf, put } from "./charts.js";
import { facetMargin } from "./overview.js";
import { data, namesOf, results, unique } from "./selection.js";
import { axisDuration, duration, share } from "./words.js";

const SERIES_MAX = 8;

export function drawDistributions() {
  const found = results().filter((one) => one.curve.length > 1 && !one.is_void);
  // More lines than colours cannot be distinguished: those shown lie evenly among the rest.
  const series = unique(found.map((one) => `${one.target}, ${one.words}`));
  const step = Math.max(1, series.length / SERIES_MAX);
  const kept = new Set(series.filter((_, place) => Math.floor(place / step) !== Math.floor((place - 1) / step)));
  const shown = found.filter((one) => kept.has(`${one.target}, ${one.words}`));
  const section = document.getElementById("latency");
  section.hidden = shown.length === 0;
  if (!shown.length) { put("distribution", "", null); return; }
  const named = namesOf(found);
  const rows = shown.flatMap((one, line) => one.curve.map(([x, value]) => ({
    x, value, line, operation: one.operation, target: one.target,
    series: named[found.indexOf(one)],
  })));
  const names = unique(rows.map((row) => row.series));
  const operations = unique(rows.map((row) => row.operation));
  const place = { x: "x", y: "value", ...(operations.length > 1 ? { fy: "operation" } : {}) };
  const most = Math.max(...rows.map((row) => row.x));
  put("distribution", `Percentiles of ${shown.length} results`, {
    height: Math.max(300, operations.length * 190), marginLeft: 66, marginBottom: 40, marginTop: 28, marginRight: facetMargin(operations, 24),
    x: { ...AXIS, type: "log", label: `share of the ${data.counted}s`, labelAnchor: "center", grid: true,
      ticks: [2, 10, 100, 1000, 1e4, 1e5, 1e6].filter((tick) => tick <= most * 2), tickFormat: share },
    y: { ...AXIS, type: "log", label: "took at most (logarithmic)", tickFormat: axisDuration, ticks: 5, grid: true },
    fy: { label: null, domain: operations }, color: colorScale(names),
    marks: [
      Plot.line(rows, { ...place, z: "line", stroke: "series", strokeWidth: 1.8 }),
      Plot.tip(rows, Plot.pointer({ ...place, title: (row) => `${row.series}, ${row.operation}\n${share(row.x)} took at most ${duration(row.value)}`, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names));
  const rest = found.length - shown.length;
  document.querySelector("#distribution .legend").append(rest > 0 ? ` ${rest} more results: filter to see them` : "");
}
