// The first screen's charts: rates with their intervals, and latency beside them.

import { AXIS, colorScale, legendOf, put } from "./charts.js";
import { data, namesOf, results, sortedBy, unique } from "./selection.js";
import { axisDuration, byteRate, duration, logTicks, number, rate, shortRate } from "./words.js";

const BARS_MAX = 60;

export function drawOverview() {
  const shown = results().filter((one) => one.rate > 0);
  const isSweep = data.load !== null && shown.some((one) => one.parameters[data.load] !== undefined);
  if (isSweep) { drawRateAlongLoad(shown); drawLatencyAlongLoad(shown); } else { drawRates(shown); drawLatencies(shown); }
}

export function tipOf(one) {
  const bound = one.is_bound ? "at least " : "";
  return [
    `${one.target} ${one.operation}${one.words ? `, ${one.words}` : ""}${one.round ? `, round ${one.round}` : ""}`,
    `${bound}${rate(one.rate)}${one.bytes_per_s ? ` (${byteRate(one.bytes_per_s)})` : ""}`,
    one.low ? `95 % interval ${number(one.low)} to ${number(one.high)}, ${one.n} trials` : `${one.n} trial${one.n === 1 ? "" : "s"}, no interval`,
    `p50 ${duration(one.p50)}, p99 ${duration(one.p99)}, slowest ${duration(one.max)}`,
    one.failed === null ? "failures not stated" : `${one.failed ? `${number(one.failed)} of ${number(one.requests)} failed` : "none failed"}`,
    one.limit && one.limit !== "not known" ? `limited by ${one.limit}` : "",
    one.is_void ? "must not be used" : "",
  ].filter(Boolean).join("\n");
}

function labelled(shown) {
  const names = namesOf(shown);
  return shown.map((one, place) => ({ ...one, bar: names[place] }));
}

export function facetMargin(operations, single = 20) {
  return operations.length > 1 ? Math.min(140, 16 + 7 * Math.max(...operations.map((one) => one.length))) : single;
}

function barFrame(bars) {
  const operations = unique(bars.map((one) => one.operation));
  const names = unique(bars.map((one) => one.bar));
  const longest = Math.max(4, ...names.map((name) => name.length));
  const rows = operations.reduce((sum, operation) => sum + new Set(bars.filter((one) => one.operation === operation).map((one) => one.bar)).size, 0);
  return {
    height: Math.max(110, Math.min(rows, BARS_MAX) * (rows > 16 ? 18 : 22) + operations.length * 8 + 50),
    marginLeft: Math.min(240, 22 + 7 * longest), marginRight: facetMargin(operations),
    marginBottom: 40, marginTop: 8,
    y: { ...AXIS, label: null, domain: names, padding: 0.15, tickSize: 0 },
    fy: { label: null, domain: operations, padding: 0.06 },
  };
}

function drawRates(shown) {
  const bars = labelled(shown).slice(0, BARS_MAX);
  if (!bars.length) { put("throughput", "", null); return; }
  const names = unique(bars.map((one) => one.target));
  const several = unique(bars.map((one) => one.operation)).length > 1;
  const facet = several ? { fy: "operation" } : {};
  const place = { y: "bar", ...facet };
  // An interval of two trials may be wider than any chart: it is cut off then.
  const most = Math.max(...bars.map((one) => one.rate));
  const end = (one) => Math.min(1.1 * most, Math.max(one.rate, one.high ?? 0));
  put("throughput", `Good ${data.counted}s per second of ${bars.length} results`, {
    ...barFrame(bars),
    x: { ...AXIS, label: `good ${data.counted}s per second`, labelAnchor: "center", tickFormat: shortRate, ticks: 5, grid: true,
      // The longest label, "≥ 1.85k void", ends before the names of operations.
      domain: [0, (innerWidth < 600 ? 1.8 : 1.32) * most] },
    color: colorScale(names),
    marks: [
      Plot.barX(bars, { ...place, x: "rate", fill: "target", fillOpacity: (one) => (one.is_void ? 0.25 : 1) }),
      Plot.barX(bars.filter((one) => one.is_bound), { ...place, x: "rate", fill: "url(#hatch)" }),
      Plot.ruleY(bars.filter((one) => one.low), { ...place, x1: "low", x2: end, stroke: "currentColor", strokeWidth: 1.6 }),
      Plot.text(bars, { ...place, x: end, text: (one) => `${one.is_bound ? "≥ " : ""}${shortRate(one.rate)}${one.is_void ? " void" : ""}`, textAnchor: "start", dx: 5, fill: "currentColor" }),
      Plot.ruleX([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
      Plot.tip(bars, Plot.pointerY({ ...place, x: "rate", title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names, { bounds: bars.some((one) => one.is_bound) }));
}

function drawLatencies(shown) {
  const bars = labelled(shown).filter((one) => one.p50 !== null).slice(0, BARS_MAX);
  if (!bars.length) { put("latency-overview", "", null); return; }
  const names = unique(bars.map((one) => one.target));
  const several = unique(bars.map((one) => one.operation)).length > 1;
  const place = { y: "bar", ...(several ? { fy: "operation" } : {}) };
  const far = (one) => one.max ?? one.p99 ?? one.p50;
  put("latency-overview", `Median, p99 and slowest ${data.counted} of ${bars.length} results`, {
    ...barFrame(bars),
    x: { ...AXIS, type: "log", label: innerWidth < 600 ? "○ median, ● p99, | slowest" : `time of ${data.counted === "action" ? "an action" : "a request"}: ○ median, ● p99, | slowest (logarithmic)`, labelAnchor: "center", tickFormat: axisDuration, ticks: 4, grid: true },
    color: colorScale(names),
    marks: [
      Plot.ruleY(bars, { ...place, x1: "p50", x2: far, stroke: "target", strokeOpacity: 0.35, strokeWidth: 2 }),
      Plot.ruleY(bars.filter((one) => one.p99 !== null), { ...place, x1: "p50", x2: "p99", stroke: "target", strokeWidth: 3 }),
      Plot.dot(bars, { ...place, x: "p50", stroke: "target", fill: "var(--page)", r: 4, strokeWidth: 2 }),
      Plot.dot(bars.filter((one) => one.p99 !== null), { ...place, x: "p99", fill: "target", r: 4.5 }),
      Plot.tickX(bars, { ...place, x: far, stroke: "target", strokeWidth: 2, inset: 4 }),
      Plot.tip(bars, Plot.pointerY({ ...place, x: "p50", title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names));
}

export function alongLoad(shown) {
  // One line for each target and what else differs.
  const points = shown.filter((one) => typeof one.parameters[data.load] === "number").map((one) => {
    return { ...one, load: one.parameters[data.load] };
  });
  const names = namesOf(points, { without: data.load });
  for (const [place, one] of points.entries()) one.line = names[place];
  return sortedBy(points, (one) => one.load);
}

export function lineNames(points) {
  // As they stand in the table, whichever of them a chart leaves out: a line keeps its colour.
  const place = new Map(data.results.map((one, at) => [one.trials[0], at]));
  return unique(sortedBy(points, (one) => place.get(one.trials[0]) ?? 0).map((one) => one.line));
}

export function loadAxis(points) {
  const loads = unique(points.map((one) => one.load));
  const isWide = Math.min(...loads) > 0 && Math.max(...loads) / Math.min(...loads) > 12;
  return { ...AXIS, label: data.load.replaceAll("_", " ").replace("rate per s", "offered per second"), labelAnchor: "center",
    type: isWide ? "log" : "linear", base: 2, ticks: loads.length <= 12 ? loads : 8, tickFormat: (value) => `${+value.toPrecision(4)}` };
}

function facetOf(points) {
  return unique(points.map((one) => one.operation)).length > 1 ? { fy: "operation" } : {};
}

export function rings(points, place) {
  return Plot.dot(points.filter((one) => one.is_bound), { ...place, r: 7.5, stroke: "var(--bad)", strokeWidth: 1.8 });
}

function ceilingsOf(points) {
  // Ceilings are bytes; an axis of requests shows them where all requests have one size.
  const sizes = unique(points.map((one) => one.size));
  const reads = new Set(["get", "read", "range_get"]);
  if (sizes.length !== 1 || !sizes[0]) return [];
  const most = Math.max(...points.map((one) => one.rate));
  return data.ceilings
    .filter((one) => points.some((point) => !one.targets.length || one.targets.includes(point.target)))
    .flatMap((one) => unique(points.map((point) => point.operation))
      .filter((operation) => (one.bounds === "read") === reads.has(operation))
      .map((operation) => ({ ...one, operation, rate: one.bytes_per_s / sizes[0] })))
    .filter((one) => one.rate < 5 * most);
}

function drawRateAlongLoad(shown) {
  const points = alongLoad(shown);
  if (!points.length) { put("throughput", "", null); return; }
  const names = lineNames(points);
  const facet = facetOf(points);
  const usable = points.filter((one) => !one.is_void);
  const place = { x: "load", y: "rate", ...facet };
  const operations = unique(points.map((one) => one.operation));
  const ceilings = ceilingsOf(points);
  // An interval of two trials may be wider than any chart: it is cut off then.
  const top = 1.15 * Math.max(...points.map((one) => one.rate), ...ceilings.map((one) => one.rate));
  put("throughput", `Rate against ${data.load} of ${names.length} series`, {
    height: Math.max(270, operations.length * 170), marginBottom: 40, marginRight: facetMargin(operations, 16), marginTop: 14,
    x: loadAxis(points),
    y: { ...AXIS, label: null, domain: [0, top], tickFormat: shortRate, ticks: 5, grid: true },
    fy: { label: null, domain: operations }, color: colorScale(names),
    marks: [
      Plot.ruleY([0], { strokeOpacity: 0.3 }),
      Plot.ruleY(ceilings, { y: "rate", ...facet, stroke: "currentColor", strokeDasharray: "6 3" }),
      Plot.text(ceilings, { y: "rate", ...facet, text: (one) => `ceiling: ${one.name}`, frameAnchor: "left", dx: 4, dy: -7, fill: "currentColor" }),
      Plot.ruleX(points.filter((one) => one.low), { x: "load", y1: "low", y2: (one) => Math.min(one.high, top), ...facet, stroke: "line", strokeWidth: 1.5 }),
      Plot.lineY(usable, { ...place, stroke: "line", strokeWidth: 2, z: "line" }),
      Plot.dot(points, { ...place, fill: "line", r: 3.5, fillOpacity: (one) => (one.is_void ? 0.25 : 1) }),
      rings(points, place),
      Plot.tip(points, Plot.pointer({ ...place, title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names, { rings: points.some((one) => one.is_bound) }));
}

function drawLatencyAlongLoad(shown) {
  const all = alongLoad(shown);
  const points = all.filter((one) => one.p50 !== null);
  if (!points.length) { put("latency-overview", "", null); return; }
  const names = lineNames(all);
  const facet = facetOf(points);
  const operations = unique(points.map((one) => one.operation));
  const late = points.filter((one) => one.p99 !== null);
  put("latency-overview", `Median and p99 against ${data.load} of ${names.length} series`, {
    height: Math.max(270, operations.length * 170), marginBottom: 40, marginRight: facetMargin(operations, 16), marginTop: 28,
    x: loadAxis(points),
    y: { ...AXIS, type: "log", label: "full: median, dashed: p99 (logarithmic)", tickFormat: axisDuration,
      ticks: logTicks([...points.map((one) => one.p50), ...late.map((one) => one.p99)]), grid: true },
    fy: { label: null, domain: operations }, color: colorScale(names),
    marks: [
      Plot.lineY(points, { x: "load", y: "p50", ...facet, stroke: "line", strokeWidth: 2, z: "line" }),
      Plot.lineY(late, { x: "load", y: "p99", ...facet, stroke: "line", strokeWidth: 2, strokeDasharray: "5 3", z: "line" }),
      Plot.dot(points, { x: "load", y: "p50", ...facet, fill: "line", r: 3 }),
      Plot.dot(late, { x: "load", y: "p99", ...facet, fill: "line", r: 3 }),
      rings(late, { x: "load", y: "p99", ...facet }),
      Plot.tip(points, Plot.pointer({ x: "load", y: "p99", ...facet, title: tipOf, lineWidth: 40, lineHeight: 1.25 })),
    ],
  }, legendOf(names, { rings: points.some((one) => one.is_bound) }));
}
