// Along the load: rates, data and times of each operation, a panel for each, with a scale of its own.

import { AXIS, LOG_AXIS, COLOURS, colorScale, legendOf, standingMarks, standingOf, tip } from "./charts.js";
import { findRoom, lineBoxes, pointBox } from "./lettering.js";
import { operationCharts } from "./operations.js";
import { latencyBars, rateBars, ringWords, spreadWords, tipOf, trialsOf } from "./overview.js";
import { data, namesOf, results, sortedBy, unique } from "./selection.js";
import { axisDuration, bitRate, byteRate, logTicks, parameterName, shortRate } from "./words.js";

const PANELS_MAX = 12;
const LOADS_MIN = 3;
const FAR = 3.5; // a ceiling so many times above the best result would press the results into the chart's bottom
const LOAD_MARGINS = { marginLeft: 78, marginRight: 24, marginTop: 12, marginBottom: 40 };
const CALLOUTS = [34, -26, 58, 82, 106, 130, -50].flatMap((down) => [10, 60].flatMap((right) => [-1, 1].map((side) => [side * right, down])));

export function overview() {
  const shown = results().filter((result) => result.rate > 0);
  const points = alongLoad(shown);
  if (!points.length) return [rateBars(shown), latencyBars(shown)];
  const charts = isCrowded(points) ? operationCharts(points) : [rateAlongLoad(points), latencyAlongLoad(points)];
  // Under a load of another kind, a rate beside threads, a result has no place on the axis.
  const left = shown.length - points.length;
  return left ? charts.map((chart) => chart && { ...chart, caption: `${chart.caption} Not drawn: ${left} without ${parameterName(data.load)}, which the table has.` }) : charts;
}

function isCrowded(points) {
  const lines = unique(points.map((point) => point.line)).length;
  return lines > COLOURS || unique(points.map((point) => point.load)).length < LOADS_MIN || panelsOf(points).length > PANELS_MAX;
}

export function alongLoad(shown) {
  if (data.load === null) return [];
  const points = shown.filter((result) => typeof result.parameters[data.load] === "number").map((result) => ({ ...result, load: result.parameters[data.load] }));
  // A line for each target, and for what else differs; each size has a panel.
  const names = namesOf(points, { without: data.load, sizes: false });
  const panels = panelNames(points);
  for (const [place, point] of points.entries()) { point.line = names[place]; point.panel = panels[place]; }
  return sortedBy(points, (point) => point.load);
}

function panelNames(points) {
  const severalSizes = unique(points.map((point) => point.size_words)).length > 1;
  const severalWorkloads = unique(points.map((point) => point.workload)).length > 1;
  return points.map((point) => [severalWorkloads ? point.workload : "", point.operation, severalSizes ? point.size_words : ""].filter(Boolean).join(", "));
}

export function lineNames(points) {
  // As they stand in the table, whichever of them a chart leaves out: a line keeps its colour.
  const place = new Map(data.results.map((result, at) => [result.trials[0], at]));
  return unique(sortedBy(points, (point) => place.get(point.trials[0]) ?? 0).map((point) => point.line));
}

export function panelsOf(points) {
  const order = new Map(data.results.map((result, at) => [result.trials[0], at]));
  const inOrder = sortedBy(points, (point) => order.get(point.trials[0]) ?? 0);
  return unique(inOrder.map((point) => point.panel)).map((title) => [title, points.filter((point) => point.panel === title)]);
}

function loadScale(points) {
  const loads = sortedBy(unique([...points.map((point) => point.load), ...(data.planned_loads ?? [])]), (load) => load);
  const isWide = loads[0] > 0 && loads.at(-1) / loads[0] > 12;
  return { type: isWide ? "log" : "linear", domain: [isWide ? loads[0] : Math.min(0, loads[0]), loads.at(-1)], loads };
}

// The loads whose numbers fit beside each other: the last and the first in any case.
export function loadAxis(points, width, suffix = "") {
  const { type, domain, loads } = loadScale(points);
  const scale = Plot.scale({ x: { type, domain, range: [0, width - LOAD_MARGINS.marginLeft - LOAD_MARGINS.marginRight] } });
  const ticks = [];
  for (const load of [loads.at(-1), ...loads]) {
    if (ticks.every((other) => Math.abs(scale.apply(load) - scale.apply(other)) >= 7 * `${load}`.length + 7)) ticks.push(load);
  }
  return { ...AXIS, type, ...(type === "log" ? { base: LOG_AXIS.base } : {}), domain, ticks, label: `${parameterName(data.load)}${suffix}${type === "log" ? " (logarithmic)" : ""}`, labelAnchor: "center", tickFormat: (value) => `${+value.toPrecision(4)}` };
}

// Names the client's own limit where a line first meets it: from there on it shows the client.
function callouts(points, key, frame, xScale, yScale) {
  const place = (point) => [xScale.apply(point.load), yScale.apply(point[key])];
  const lines = unique(points.map((point) => point.line)).map((line) => points.filter((point) => point.line === line));
  const taken = lines.flatMap((line) => [...lineBoxes(line.map(place)), ...line.map((point) => pointBox(place(point)))]);
  return lines.flatMap((line) => {
    const limits = unique(line.filter((point) => point.is_bound && point.limit).map((point) => point.limit));
    return limits.map((limit) => {
      const first = line.find((point) => point.is_bound && point.limit === limit);
      const half = limit.length * 3.4;
      const offsets = CALLOUTS.map(([right, down]) => [right + Math.sign(right) * half, down]);
      const found = findRoom(limit, place(first), offsets, taken, frame) ?? [Math.max(frame.left + half, place(first)[0] - half), place(first)[1] + 24];
      return { limit, load: first.load, [key]: first[key], x: xScale.invert(found[0]), y: yScale.invert(found[1]) };
    });
  });
}

function valuePanel(title, points, names, { key, height, tickFormat, ticks = () => 5, ceilings = [], isJoined = true }) {
  const usable = points.filter((point) => !point.is_void && !point.is_said);
  const trials = key === "rate" ? trialsOf(points) : [];
  const ends = (point) => (key === "rate" && point.low ? [point.low, point.high] : point.data_low ? [point.data_low, point.data_high] : null);
  const top = 1.12 * Math.max(...points.map((point) => Math.max(point[key], ends(point)?.[1] ?? 0)), ...trials.map((trial) => trial.value), ...ceilings.map((one) => one.limit));
  return { title, options: (width) => {
    const x = loadAxis(points, width);
    const frame = { left: LOAD_MARGINS.marginLeft, right: width - LOAD_MARGINS.marginRight, top: LOAD_MARGINS.marginTop, bottom: height - LOAD_MARGINS.marginBottom };
    const xScale = Plot.scale({ x: { type: x.type, domain: x.domain, range: [frame.left, frame.right] } });
    const yScale = Plot.scale({ y: { domain: [0, top], range: [frame.bottom, frame.top] } });
    const called = callouts(points, key, frame, xScale, yScale);
    const place = { x: "load", y: key };
    return {
      ...LOAD_MARGINS, height, x, y: { ...AXIS, label: null, domain: [0, top], tickFormat, ticks: ticks(top), grid: true }, color: colorScale(names),
      marks: [
        Plot.ruleY([0], { strokeOpacity: 0.3 }),
        Plot.rect(ceilings.filter((one) => one.low !== null), { x1: x.domain[0], x2: x.domain[1], y1: "low", y2: "high", fill: "currentColor", fillOpacity: 0.08 }),
        ...ceilings.map((one) => Plot.ruleY([one], { y: "limit", stroke: "currentColor", strokeWidth: 1.6, strokeDasharray: one.dash })),
        Plot.ruleX(points.filter(ends), { x: "load", y1: (point) => ends(point)[0], y2: (point) => ends(point)[1], stroke: "line", strokeWidth: 1.5 }),
        Plot.dot(trials, { x: "load", y: "value", r: 2.5, stroke: "line", strokeOpacity: 0.6 }),
        ...(isJoined ? [Plot.line(usable, { ...place, stroke: "line", strokeWidth: 2, z: "line" })] : []),
        Plot.dot(points, { ...place, fill: "line", r: 3.5, fillOpacity: (point) => (point.is_void ? 0.25 : 1) }),
        ...standingMarks(points, place),
        Plot.link(called, { x1: "load", y1: key, x2: "x", y2: "y", stroke: "var(--caution)" }),
        Plot.text(called, { x: "x", y: "y", text: "limit", fill: "var(--caution)", stroke: "var(--page)", strokeWidth: 4, fontWeight: 600, fontSize: 11 }),
        tip(points, { ...place, title: tipOf }),
      ],
    };
  } };
}

function rateAlongLoad(points) {
  const names = lineNames(points);
  const panels = panelsOf(points);
  const height = panels.length > 2 ? 220 : 270;
  return {
    name: "throughput", title: `Throughput against ${parameterName(data.load)}`, rows: points,
    caption: `Good ${data.counted}s per second. ${spreadWords(points)}${ringWords(points)}`,
    words: `Rate against ${parameterName(data.load)} of ${names.length} series`,
    legend: legendOf(names, standingOf(points)),
    panels: panels.map(([title, rows]) => valuePanel(title, rows, names, { key: "rate", height, tickFormat: shortRate })),
  };
}

function latencyAlongLoad(all) {
  const points = all.filter((point) => point.p50 !== null);
  if (!points.length) return null;
  const names = lineNames(all);
  const panels = panelsOf(points);
  return {
    name: "latency", title: `Latency against ${parameterName(data.load)}`, rows: points,
    caption: "The median, and dashed the slowest hundredth (p99); logarithmic. A point is missing where there were too few requests for it.",
    words: `Median and p99 against ${parameterName(data.load)} of ${names.length} series`,
    legend: [...legendOf(names, standingOf(points)), { label: "median", dash: "" }, { label: "p99", dash: "5 3" }],
    panels: panels.map(([title, rows]) => {
      const late = rows.filter((point) => point.p99 !== null);
      const usable = (found) => found.filter((point) => !point.is_void);
      return { title, options: (width) => ({
        ...LOAD_MARGINS, height: panels.length > 2 ? 220 : 270, x: loadAxis(rows, width), color: colorScale(names),
        y: { ...LOG_AXIS, label: null, tickFormat: axisDuration, ticks: logTicks([...rows.map((point) => point.p50), ...late.map((point) => point.p99)]), grid: true },
        marks: [
          Plot.line(usable(rows), { x: "load", y: "p50", stroke: "line", strokeWidth: 2, z: "line" }),
          Plot.line(usable(late), { x: "load", y: "p99", stroke: "line", strokeWidth: 2, strokeDasharray: "5 3", z: "line" }),
          Plot.dot(rows, { x: "load", y: "p50", fill: "line", r: 3 }),
          Plot.dot(late, { x: "load", y: "p99", fill: "line", r: 3 }),
          ...standingMarks(rows, { x: "load", y: (point) => point.p99 ?? point.p50 }),
          tip(rows, { x: "load", y: (point) => point.p99 ?? point.p50, title: tipOf }),
        ],
      }) };
    }),
  };
}

const READS = new Set(["get", "read", "range_get", "seq", "rand"]);
const DASHES = ["6 3", "2 2", "10 3 2 3", "1 4", "12 4"];

// The ceilings of a panel: those that are near, each as it is drawn, and in words those that are too far.
export function ceilingsOf(rows, most, names) {
  const { target, operation } = rows[0];
  const word = operation.split(" ")[0];
  const held = data.ceilings.filter((one) => (!one.targets.length || one.targets.includes(target)) && (one.bounds === null || (one.bounds === "read") === READS.has(word)));
  const [near, far] = [held.filter((one) => one.limit <= FAR * most), held.filter((one) => one.limit > FAR * most)];
  return {
    near: near.map((one) => ({ ...one, dash: DASHES[names.indexOf(one.name) % DASHES.length] })),
    far: far.map((one) => `${target}, ${operation}: ${one.name}, ${mebibytes(one.limit)}`),
  };
}

export function mebibytes(value) { return `${(value / 2 ** 20).toLocaleString("en-US", { maximumFractionDigits: 0 })} MiB/s`; }

export function mebibyteTicks(top) {
  const step = 2 ** 20 * [1, 2, 5].flatMap((one) => [1, 10, 100, 1e3, 1e4, 1e5].map((power) => one * power)).sort((a, b) => a - b).find((one) => top / (one * 2 ** 20) <= 6);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, at) => at * step);
}

export function ceilingLegend(names, drawn) {
  return names.filter((name) => drawn.has(name)).map((label) => {
    const { limit } = data.ceilings.find((one) => one.name === label);
    return { label: `${label}, ${mebibytes(limit)} = ${bitRate(8 * limit)}`, dash: DASHES[names.indexOf(label) % DASHES.length] };
  });
}

export function farWords(far) { return far.length ? ` Far above, and not drawn: ${unique(far).join("; ")}.` : ""; }

export function dataAlongLoad() {
  const shown = data.ceilings?.length ? alongLoad(results().filter((result) => result.bytes_per_s > 0)) : [];
  if (!shown.length) return null;
  const points = shown.map((point) => ({ ...point, panel: `${point.target}, ${point.panel}` }));
  const names = lineNames(points);
  const ceilings = unique(data.ceilings.map((one) => one.name));
  const panels = panelsOf(points).map(([title, rows]) => [title, rows, ceilingsOf(rows, Math.max(...rows.map((row) => row.bytes_per_s)), ceilings)]);
  const drawn = new Set(panels.flatMap(([, , found]) => found.near.map((one) => one.name)));
  // Between two points a line would claim what was not measured.
  const isJoined = panels.every(([, rows]) => rows.filter((row) => !row.is_said).length >= LOADS_MIN);
  const said = points.some((point) => point.is_said) ? " What is said in words only stands where the words put it, and is inferred." : "";
  return {
    name: "data-against-load", title: `Data rate against ${parameterName(data.load)}, and the ceilings`, rows: points, ceilings: panels.map(([title, , found]) => ({ title, ...found })),
    caption: `Data of good requests. Dashed: what was measured apart from the load${data.ceilings.some((one) => one.low !== null) ? "; shaded: between the lowest and the highest that was seen of it" : ""}.`
      + `${isJoined ? "" : " Loads of which no number was printed have no point."}${said}${ringWords(points)}${farWords(panels.flatMap(([, , found]) => found.far))}`,
    words: `Data rate against ${parameterName(data.load)}, with ${drawn.size} ceilings`,
    legend: [...legendOf(names, standingOf(points)), ...ceilingLegend(ceilings, drawn)],
    panels: panels.map(([title, rows, found]) => valuePanel(title, rows, names, { key: "bytes_per_s", height: 240, tickFormat: mebibytes, ticks: mebibyteTicks, ceilings: found.near, isJoined })),
  };
}

export function knees(points) {
  const found = data.curves.filter((curve) => curve.point === "knee").map((curve) => data.results[curve.result]);
  return points.filter((point) => point.round === null && found.some((result) => result.trials[0] === point.trials[0] && result.operation === point.operation));
}

export function rateLatency() {
  const points = alongLoad(results().filter((result) => result.rate > 0)).filter((point) => point.p99 !== null);
  if (points.length < LOADS_MIN || isCrowded(points)) return null;
  const names = lineNames(points);
  const panels = panelsOf(points);
  return {
    name: "rate-latency", title: "Latency against rate", rows: points,
    caption: "Each point is one load, named at it; the line goes from the least load to the most. Where it turns upwards, more load brings waiting and no more work.",
    words: `p99 against rate of ${names.length} series`,
    legend: legendOf(names, standingOf(points)),
    panels: panels.map(([title, rows]) => ({ title, options: () => {
      const place = { x: "rate", y: "p99" };
      const usable = rows.filter((point) => !point.is_void);
      return {
        ...LOAD_MARGINS, height: panels.length > 2 ? 230 : 300, marginTop: 28, insetTop: 18, insetBottom: 8, color: colorScale(names),
        x: { ...AXIS, label: `good ${data.counted}s per second`, labelAnchor: "center", tickFormat: shortRate, grid: true, zero: true, ticks: 6 },
        y: { ...LOG_AXIS, label: "p99 (logarithmic)", tickFormat: axisDuration, ticks: logTicks(rows.map((point) => point.p99)), grid: true },
        marks: [
          Plot.line(usable, { ...place, stroke: "line", strokeWidth: 1.6, z: "line" }),
          Plot.dot(rows, { ...place, fill: "line", r: 4, fillOpacity: (point) => (point.is_void ? 0.25 : 1) }),
          Plot.text(rows, { ...place, text: (point) => `${point.load}`, dy: -12, fill: "currentColor" }),
          ...standingMarks(rows, place),
          Plot.dot(knees(rows), { ...place, symbol: "diamond2", r: 9, stroke: "currentColor", strokeWidth: 1.6 }),
          Plot.text(knees(rows), { ...place, text: () => "knee", dy: 18, fill: "currentColor", fontWeight: 600 }),
          tip(rows, { ...place, title: tipOf }),
        ],
      };
    } })),
  };
}

export function heatmap() {
  const sized = alongLoad(results().filter((result) => result.rate > 0 && result.size !== null));
  const sizes = unique(sortedBy(sized, (point) => point.size).map((point) => point.size_words));
  const loads = sortedBy(unique(sized.map((point) => point.load)), (load) => load);
  if (sizes.length < 2 || loads.length < 2) return null;
  const isData = sized.some((point) => point.bytes_per_s > 0);
  const key = isData ? "bytes_per_s" : "rate";
  const cells = sized.map((point) => ({ ...point, panel: `${point.panel.split(", ").filter((word) => word !== point.size_words).join(", ")}, ${point.line}` }));
  // Rounds, say, would lie over each other.
  if (unique(cells.map((cell) => `${cell.panel}|${cell.load}|${cell.size_words}|${cell.round}`)).length < cells.length || unique(cells.map((cell) => cell.round)).length > 1) return null;
  const words = (cell) => `${cell.is_bound ? "≥ " : ""}${isData ? byteRate(cell.bytes_per_s) : `${shortRate(cell.rate)}/s`}`;
  const panels = panelsOf(cells);
  if (panels.length > PANELS_MAX) return null;
  return {
    name: "heatmap", title: "Size and load", rows: cells,
    caption: `${isData ? "Data moved a second" : `Good ${data.counted}s a second`} by object size and ${parameterName(data.load)}. The best is framed, hatched fields are lower bounds, crossed ones are void.`,
    words: `${isData ? "Data" : "Rate"} by size and ${parameterName(data.load)}, ${cells.length} results`,
    legend: legendOf([], { bounds: cells.some((cell) => cell.is_bound), voids: cells.some((cell) => cell.is_void) }),
    panels: panels.map(([title, rows]) => {
      const usable = rows.filter((cell) => !cell.is_void);
      const best = usable.reduce((most, cell) => (!most || cell[key] > most[key] ? cell : most), null);
      const place = { x: "load", y: "size_words" };
      return { title, options: (width) => ({
        height: 30 * sizes.length + 46, marginLeft: 76, marginBottom: 40, marginRight: 10, marginTop: 6,
        x: { ...AXIS, type: "band", domain: loads, label: parameterName(data.load), labelAnchor: "center", padding: 0.04, tickSize: 0 },
        y: { ...AXIS, type: "band", domain: sizes, label: null, padding: 0.06, tickSize: 0 },
        marks: [
          Plot.cell(rows, { ...place, fill: "var(--series-0)", fillOpacity: (cell) => (cell.is_void ? 0.05 : 0.08 + 0.62 * (cell[key] / (best?.[key] || 1))) }),
          Plot.cell(rows.filter((cell) => cell.is_bound), { ...place, fill: "url(#lines)" }),
          Plot.dot(rows.filter((cell) => cell.is_void), { ...place, symbol: "times", r: 7, stroke: "var(--bad)", strokeWidth: 2 }),
          ...(best ? [Plot.cell([best], { ...place, stroke: "currentColor", strokeWidth: 2, fill: "none" })] : []),
          ...(width / loads.length > 62 ? [Plot.text(rows, { ...place, text: words, fill: "currentColor", stroke: "var(--page)", strokeWidth: 3, fontSize: 11 })] : []),
          tip(rows, { ...place, title: tipOf }),
        ],
      }) };
    }),
  };
}
