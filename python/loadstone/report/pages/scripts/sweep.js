// A sweep: latency against rate with the knee, and a field for each size and load.

import { AXIS, colorScale, legendOf, put } from "./charts.js";
import { alongLoad, facetMargin, lineNames, rings, tipOf } from "./overview.js";
import { chosenRound, data, results, sortedBy, unique } from "./selection.js";
import { axisDuration, byteRate, logTicks, rate, shortRate } from "./words.js";

export function drawSweep() {
  const section = document.getElementById("sweep");
  section.hidden = data.load === null;
  if (data.load === null) return;
  const points = alongLoad(results().filter((one) => one.rate > 0));
  drawRateLatency(points.filter((one) => one.p99 !== null && !one.is_void), lineNames(points));
  drawHeatmap(points);
}

function knees(points) {
  if (chosenRound()) return [];
  const found = data.curves.filter((one) => one.point === "knee").map((one) => data.results[one.result]);
  return points.filter((one) => found.some((result) => result.trials[0] === one.trials[0] && result.operation === one.operation));
}

function drawRateLatency(points, names) {
  if (points.length < 3) { put("rate-latency", "", null); return; }
  const operations = unique(points.map((one) => one.operation));
  const place = { x: "rate", y: "p99", ...(operations.length > 1 ? { fy: "operation" } : {}) };
  put("rate-latency", `p99 against rate of ${names.length} series`, {
    height: Math.max(320, operations.length * 200), marginBottom: 40, marginTop: 28, insetTop: 18, insetBottom: 8, marginRight: facetMargin(operations, 30),
    x: { ...AXIS, label: `good ${data.counted}s per second`, labelAnchor: "center", tickFormat: shortRate, grid: true, zero: true },
    y: { ...AXIS, type: "log", label: "p99 (logarithmic)", tickFormat: axisDuration, ticks: logTicks(points.map((one) => one.p99)), grid: true },
    fy: { label: null, domain: operations }, color: colorScale(names),
    marks: [
      Plot.line(points, { ...place, stroke: "line", strokeWidth: 1.6, z: "line" }),
      Plot.dot(points, { ...place, fill: "line", r: 4 }),
      Plot.text(points, { ...place, text: (one) => `${one.load}`, dy: -10, fill: "currentColor" }),
      rings(points, place),
      Plot.dot(knees(points), { ...place, symbol: "diamond2", r: 9, stroke: "currentColor", strokeWidth: 1.6 }),
      Plot.text(knees(points), { ...place, text: () => "knee", dy: 16, fill: "currentColor", fontWeight: 600 }),
      Plot.tip(points, Plot.pointer({ ...place, title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names, { rings: points.some((one) => one.is_bound) }));
}

function drawHeatmap(points) {
  const sized = points.filter((one) => one.size !== null);
  const sizes = unique(sortedBy(sized, (one) => one.size).map((one) => one.size_words));
  const loads = unique(sized.map((one) => one.load)).sort((a, b) => a - b);
  if (sizes.length < 2 || loads.length < 2) { put("heatmap", "", null); return; }
  const isData = sized.some((one) => one.bytes_per_s > 0);
  const key = isData ? "bytes_per_s" : "rate";
  const panels = unique(sized.map((one) => `${one.target} ${one.operation}`));
  const cells = sized.map((one) => ({ ...one, panel: `${one.target} ${one.operation}` }));
  const best = panels.map((panel) => cells.filter((one) => one.panel === panel && !one.is_void).reduce((a, b) => (!a || b[key] > a[key] ? b : a), null)).filter(Boolean);
  const most = new Map(best.map((one) => [one.panel, one[key]]));
  const place = { x: "load", y: "size_words", fy: "panel" };
  const words = (one) => (isData ? byteRate(one.bytes_per_s).replace("/s", "") : shortRate(one.rate));
  put("heatmap", `${isData ? "Data" : "Rate"} by size and ${data.load}, ${cells.length} results`, {
    height: panels.length * (30 * sizes.length + 26) + 50, marginLeft: 76, marginBottom: 40, marginRight: 10, marginTop: 24,
    x: { ...AXIS, type: "band", domain: loads, label: data.load.replaceAll("_", " "), labelAnchor: "center", padding: 0.04, tickSize: 0 },
    y: { ...AXIS, type: "band", domain: sizes, label: null, padding: 0.06, tickSize: 0 },
    fy: { axis: null, domain: panels, padding: 0.16 },
    marks: [
      Plot.text(panels, { fy: (one) => one, text: (one) => one, frameAnchor: "top-left", dy: -14, fontWeight: 600, fill: "currentColor" }),
      Plot.cell(cells, { ...place, fill: "var(--series-0)", fillOpacity: (one) => (one.is_void ? 0.03 : 0.08 + 0.62 * (one[key] / (most.get(one.panel) || 1))) }),
      Plot.cell(cells.filter((one) => one.is_bound), { ...place, fill: "url(#hatch)", fillOpacity: 0.5 }),
      Plot.cell(best, { ...place, stroke: "currentColor", strokeWidth: 2, fill: "none" }),
      ...(loads.length <= 14 ? [Plot.text(cells, { ...place, text: words, fill: "currentColor", stroke: "var(--page)", strokeWidth: 3, fontSize: 11 })] : []),
      Plot.tip(cells, Plot.pointer({ ...place, title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  });
  document.querySelector("#heatmap figcaption").textContent =
    `${isData ? "Data moved a second" : `${data.counted === "action" ? "Actions" : "Requests"} a second`} by object size and ${data.load.replaceAll("_", " ")}; the best is framed, hatched fields are lower bounds.`
    + (best.length === 1 ? ` Best: ${words(best[0])}, ${rate(best[0].rate)}.` : "");
}
