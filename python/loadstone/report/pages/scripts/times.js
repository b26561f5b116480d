// Charts against time: all share one clock, the trial's own, and one zoom.

import { AXIS, colorScale, legendOf, put } from "./charts.js";
import { data, isShown, trialsShown, unique } from "./selection.js";
import { axisDuration, duration, logTicks, number, rate, seconds, shortRate } from "./words.js";

const TRIALS_MAX = 12;
const MARGINS = { marginLeft: 66, marginRight: 16, marginTop: 26, marginBottom: 38 };
let zoom = null;
let whole = [0, 1];
let chosenTrials = "";

export function drawTimes() {
  const section = document.getElementById("over-time");
  const any = data.timelines.length > 0;
  section.hidden = !any && !data.short_trials;
  if (section.hidden) return;
  const short = data.short_trials;
  document.getElementById("time-words").textContent = short
    ? `${short} trial${short === 1 ? "" : "s"} took less than ${data.seconds_min} s: too short for a chart over time.` : "";
  document.getElementById("time-tools").hidden = !any;
  const lines = linesShown();
  // One axis for all: the longest of what is shown.
  whole = [0, Math.max(1, ...lines.map((line) => Math.max(0, ...[...line.rates, ...line.errors].map(([elapsed]) => elapsed)) + line.step_s / 2))];
  drawRatesOverTime(lines);
  drawLatenciesOverTime(lines);
  drawErrorsOverTime(lines);
  drawResourcesOverTime(new Set(lines.map((one) => one.trial)));
  document.getElementById("zoom-reset").disabled = zoom === null;
}

export function makeTimeTools() {
  const select = document.getElementById("time-trials");
  const first = data.timelines[0];
  const all = unique(data.timelines.map((one) => one.trial));
  const cases = data.results.filter((one) => one.trials.some((trial) => all.includes(trial)));
  if (all.length <= TRIALS_MAX) select.append(new Option(`all ${all.length}`, ""));
  for (const one of cases) {
    select.append(new Option(`${one.target} ${one.operation}${one.words ? `, ${one.words}` : ""}`, `case ${data.results.indexOf(one)}`));
  }
  chosenTrials = select.options.length && first ? select.options[0].value : "";
  select.addEventListener("change", () => { chosenTrials = select.value; zoom = null; drawTimes(); });
  document.getElementById("zoom-reset").addEventListener("click", () => { zoom = null; drawTimes(); });
}

function linesShown() {
  const trials = trialsShown();
  const one = chosenTrials ? data.results[Number(chosenTrials.split(" ")[1])] : null;
  const isOf = one && isShown(one) ? (line) => one.trials.includes(line.trial) : (line) => trials.has(line.trial);
  const found = data.timelines.filter((line) => isOf(line) && (!one || !isShown(one) || one.operation.startsWith(line.operation)));
  const kept = new Set(unique(found.map((line) => line.trial)).slice(0, TRIALS_MAX));
  const operations = unique(found.map((line) => line.operation));
  return found.filter((line) => kept.has(line.trial)).map((line) => ({
    ...line, series: operations.length > 1 ? `${line.target} ${line.operation}` : line.target,
  }));
}

function timeAxis() {
  return { ...AXIS, label: "seconds since the trial's start", labelAnchor: "center", domain: zoom ?? whole };
}

function clipped(rows) {
  return zoom === null ? rows : rows.filter((row) => row.elapsed >= zoom[0] && row.elapsed <= zoom[1]);
}

function marksOf(trials) {
  const rows = clipped(data.marks.filter((one) => trials.has(one.trial)).map((one) => ({ ...one, elapsed: one.elapsed_s })));
  return [
    Plot.ruleX(rows, { x: "elapsed", stroke: "var(--bad)", strokeDasharray: "3 2" }),
    Plot.text(rows, { x: "elapsed", text: "words", frameAnchor: "top-left", dx: 3, dy: 2, fill: "var(--bad)" }),
  ];
}

function drawLines(name, rows, trials, { y, lines, tip, words, names }) {
  const shown = clipped(rows);
  if (!shown.length) { put(name, "", null); return; }
  const svg = put(name, words, {
    ...MARGINS, height: 220, x: timeAxis(), y: { ...AXIS, grid: true, ticks: 5, ...y }, color: colorScale(names),
    marks: [...lines(shown), ...marksOf(trials), Plot.tip(shown, Plot.pointer({ x: "elapsed", y: "value", title: tip, lineWidth: 40, lineHeight: 1.25 }))],
  }, legendOf(names));
  linkZoom(svg);
}

function drawRatesOverTime(lines) {
  const rows = lines.flatMap((line) => line.rates.map(([elapsed, value]) => ({ ...line, key: `${line.trial} ${line.operation}`, elapsed, value })));
  drawLines("rate-over-time", rows, new Set(lines.map((one) => one.trial)), {
    names: unique(rows.map((row) => row.series)), words: `Rate over time of ${lines.length} lines`,
    y: { label: "good requests per second", zero: true, tickFormat: shortRate },
    lines: (shown) => [Plot.ruleY([0], { strokeOpacity: 0.3 }), Plot.lineY(shown, { x: "elapsed", y: "value", z: "key", stroke: "series", strokeWidth: 1.6, clip: true })],
    tip: (row) => `${row.series}, trial ${row.trial}\n${rate(row.value)} at ${seconds(row.elapsed)}\nmean of ${row.step_s} s`,
  });
}

function drawLatenciesOverTime(lines) {
  const rows = lines.flatMap((line) => line.latencies.flatMap(([elapsed, p50, p99]) => [["p50", p50], ["p99", p99]]
    .filter(([, value]) => value !== null)
    .map(([quantile, value]) => ({ ...line, key: `${line.trial} ${line.operation} ${quantile}`, quantile, elapsed, value }))));
  drawLines("latency-over-time", rows, new Set(lines.map((one) => one.trial)), {
    names: unique(rows.map((row) => row.series)), words: `Median and p99 over time of ${lines.length} lines`,
    y: { label: "time of a request (logarithmic)", type: "log", tickFormat: axisDuration, ticks: logTicks(rows.map((row) => row.value)) },
    lines: (shown) => ["p50", "p99"].map((quantile) => Plot.lineY(shown.filter((row) => row.quantile === quantile), {
      x: "elapsed", y: "value", z: "key", stroke: "series", strokeWidth: 1.6, clip: true, strokeDasharray: quantile === "p99" ? "5 3" : undefined })),
    tip: (row) => `${row.series}, trial ${row.trial}\n${row.quantile} ${duration(row.value)} at ${seconds(row.elapsed)}`,
  });
}

function drawErrorsOverTime(lines) {
  const rows = lines.flatMap((line) => line.errors.map(([elapsed, kind, value]) => ({ ...line, series: kind.replaceAll("_", " "), elapsed, value })));
  drawLines("errors-over-time", rows, new Set(lines.map((one) => one.trial)), {
    names: unique(rows.map((row) => row.series)), words: "Failed requests over time",
    y: { label: "failed requests per second", zero: true, tickFormat: shortRate },
    lines: (shown) => [Plot.ruleY([0], { strokeOpacity: 0.3 }), Plot.dot(shown, { x: "elapsed", y: "value", fill: "series", r: 3 })],
    tip: (row) => `${row.target} ${row.operation}, trial ${row.trial}\n${number(row.value)}/s ${row.series} at ${seconds(row.elapsed)}`,
  });
}

function drawResourcesOverTime(trials) {
  const place = document.getElementById("resources");
  const charts = [
    ...Object.entries(data.resource_kinds).map(([kind, one]) => ({
      name: `client-${kind}`, title: one.title, unit: one.unit,
      lines: data.resources.filter((line) => line.kind === kind && trials.has(line.trial)),
    })),
    ...data.exporters.map((metric, index) => ({
      name: `target-metric-${index}`, title: metric.title, unit: metric.unit,
      lines: metric.lines.filter((line) => trials.has(line.trial)),
    })),
  ];
  for (const chart of charts) {
    if (!document.getElementById(chart.name)) place.append(figureOf(chart));
    const hosts = unique(chart.lines.map((line) => line.host));
    const rows = chart.lines.flatMap((line) => line.points.map(([elapsed, value]) => ({
      trial: line.trial, key: `${line.trial} ${line.host} ${line.subject}`, elapsed, value,
      series: [hosts.length > 1 ? line.host : "", line.subject].filter(Boolean).join(", ") || line.host,
    })));
    drawLines(chart.name, rows, trials, {
      names: unique(rows.map((row) => row.series)), words: `${chart.title} over time`,
      y: { label: chart.unit, zero: true },
      lines: (shown) => [Plot.ruleY([0], { strokeOpacity: 0.3 }), Plot.lineY(shown, { x: "elapsed", y: "value", z: "key", stroke: "series", strokeWidth: 1.3, clip: true })],
      tip: (row) => `${row.series}, trial ${row.trial}\n${number(row.value)} ${chart.unit} at ${seconds(row.elapsed)}`,
    });
  }
}

function figureOf(chart) {
  const figure = document.createElement("figure");
  figure.id = chart.name;
  figure.innerHTML = '<div class="figure-head"><h3></h3><button type="button" class="small">SVG</button></div>'
    + '<div class="legend" data-legend></div><div class="chart" data-chart></div>';
  figure.querySelector("h3").textContent = chart.title;
  figure.querySelector("button").dataset.download = chart.name;
  return figure;
}

function linkZoom(svg) {
  // Drag to look closer: pixels become seconds by the scale of the chart itself.
  const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  box.setAttribute("fill", "var(--link)");
  box.setAttribute("fill-opacity", "0.15");
  box.setAttribute("y", "0");
  box.setAttribute("height", svg.getAttribute("height"));
  const scale = svg.scale?.("x") ?? svg.closest("figure")?.scale?.("x");
  if (!scale) return;
  const at = (event) => {
    const own = svg.getBoundingClientRect();
    return (event.clientX - own.left) * (Number(svg.getAttribute("width")) / own.width);
  };
  let from = null;
  svg.addEventListener("pointerdown", (event) => { from = at(event); });
  svg.addEventListener("pointermove", (event) => {
    if (from === null || Math.abs(at(event) - from) < 6) return;
    if (!box.isConnected) svg.append(box);
    box.setAttribute("x", Math.min(from, at(event)));
    box.setAttribute("width", Math.abs(at(event) - from));
  });
  svg.addEventListener("pointerup", (event) => {
    const ends = [from, at(event)].sort((a, b) => a - b);
    from = null;
    box.remove();
    if (ends[1] - ends[0] < 6) return;
    zoom = ends.map((end) => scale.invert(end));
    drawTimes();
  });
  svg.addEventListener("pointerleave", () => { from = null; box.remove(); });
}
