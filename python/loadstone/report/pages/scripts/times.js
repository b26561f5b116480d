// Charts against time: all share one clock, the trial's own, and one zoom.

import { AXIS, COLOURS, LOG_AXIS, colorScale, legendOf, tip } from "./charts.js";
import { ceilingLegend, ceilingsOf, farWords, mebibytes, mebibyteTicks } from "./load.js";
import { data, isShown, namesOf, trialsShown, unique } from "./selection.js";
import { axisDuration, duration, logTicks, number, rate, seconds, shortRate } from "./words.js";

const TRIALS_MAX = 12;
const POINTS_MIN = 3; // fewer are no line to see
const TIME_MARGINS = { marginLeft: 78, marginRight: 16, marginTop: 26, marginBottom: 38 };
const zoomed = [];
let zoom = null;
let whole = [0, 1];
let chosenTrials = null;

export function overTime() {
  if (!data.timelines?.length) return [];
  const lines = linesShown();
  // One axis for all: the longest of what is shown.
  whole = [0, Math.max(1, ...lines.map((line) => Math.max(0, ...[...line.rates, ...line.errors].map(([elapsed]) => elapsed)) + line.step_s / 2))];
  return [ratesOverTime(lines), dataOverTime(lines), latenciesOverTime(lines), errorsOverTime(lines), ...resourcesOverTime(new Set(lines.map((line) => line.trial)))];
}

export function timeChoices() {
  if (!data.timelines) return [];
  const all = unique(data.timelines.map((line) => line.trial));
  const cases = data.results.map((result, at) => ({ value: at, words: `${result.target} ${result.operation}${result.words ? `, ${result.words}` : ""}`, trials: result.trials }));
  return [...(all.length <= TRIALS_MAX ? [{ value: -1, words: `all ${all.length}` }] : []), ...cases.filter((one) => one.trials.some((trial) => all.includes(trial)))];
}

export function chooseTimes(value) { chosenTrials = value; zoom = null; }

export function makeTimeTools(draw) {
  const select = document.getElementById("time-trials");
  select.append(...timeChoices().map((choice) => new Option(choice.words, choice.value)));
  const redraw = () => { draw(); document.getElementById("zoom-reset").disabled = zoom === null; };
  zoomed.push(redraw);
  select.addEventListener("change", () => { chooseTimes(Number(select.value)); redraw(); });
  document.getElementById("zoom-reset").addEventListener("click", () => { zoom = null; redraw(); });
  const short = data.short_trials;
  document.getElementById("time-words").textContent = short
    ? `${short} trial${short === 1 ? "" : "s"} took less than ${data.seconds_min} s: too short for a chart over time.` : "";
  document.getElementById("time-tools").hidden = !data.timelines.length;
}

function linesShown() {
  const trials = trialsShown();
  const chosen = data.results[chosenTrials ?? timeChoices()[0]?.value ?? -1];
  const isOf = chosen && isShown(chosen) ? (line) => chosen.trials.includes(line.trial) && chosen.operation.startsWith(line.operation) : (line) => trials.has(line.trial);
  const found = data.timelines.filter(isOf);
  const kept = new Set(unique(found.map((line) => line.trial)).slice(0, TRIALS_MAX));
  const shown = found.filter((line) => kept.has(line.trial));
  const operations = unique(shown.map((line) => line.operation)).length > 1;
  // What tells lines apart is in their name, as long as there are colours for it.
  const results = shown.map((line) => data.results.find((result) => result.trials.includes(line.trial) && result.operation.startsWith(line.operation)) ?? { target: line.target, parameters: {} });
  const named = namesOf(results).map((name, at) => [name, operations ? shown[at].operation : ""].filter(Boolean).join(", "));
  const isMany = unique(named).length > COLOURS;
  return shown.map((line, at) => ({ ...line, series: isMany ? [line.target, operations ? line.operation : ""].filter(Boolean).join(", ") : named[at] }));
}

function timeAxis() {
  return { ...AXIS, label: "seconds since the trial's start", labelAnchor: "center", domain: zoom ?? whole };
}

function clipped(rows) {
  return zoom === null ? rows : rows.filter((row) => row.elapsed >= zoom[0] && row.elapsed <= zoom[1]);
}

function hookMarks(trials) {
  const rows = clipped(data.marks.filter((mark) => trials.has(mark.trial)).map((mark) => ({ ...mark, elapsed: mark.elapsed_s })));
  // One word for the marks of many trials at about one time: they would stand on each other.
  const first = rows.filter((row, at) => rows.findIndex((other) => other.words === row.words) === at);
  return [
    Plot.ruleX(rows, { x: "elapsed", stroke: "var(--series-3)", strokeDasharray: "3 2" }),
    Plot.text(first, { x: "elapsed", text: "words", frameAnchor: "top-left", dx: 3, dy: 2, fill: "var(--series-3)" }),
  ];
}

function lineChart(name, title, caption, rows, trials, { y, tip: words, isDotted = false, panels = null, legend = [] }) {
  const shown = clipped(rows);
  if (!shown.length) return null;
  const names = unique(rows.map((row) => row.series));
  const voids = rows.some((row) => row.is_void);
  const lines = (own) => {
    const counts = new Map();
    for (const row of own) counts.set(row.key, (counts.get(row.key) ?? 0) + 1);
    const dots = isDotted ? own : own.filter((row) => counts.get(row.key) < POINTS_MIN);
    return [
      ...(y.type === "log" ? [] : [Plot.ruleY([0], { strokeOpacity: 0.3 })]),
      ...(isDotted ? [] : [[false, false], [false, true], [true, false], [true, true]].map(([isVoid, isDashed]) => Plot.lineY(own.filter((row) => Boolean(row.is_void) === isVoid && (row.quantile === "p99") === isDashed), {
        x: "elapsed", y: "value", z: "key", stroke: "series", strokeWidth: 1.6, strokeOpacity: isVoid ? 0.35 : 1, strokeDasharray: isDashed ? "5 3" : undefined, clip: true }))),
      Plot.dot(dots, { x: "elapsed", y: "value", fill: "series", r: 3, fillOpacity: (row) => (row.is_void ? 0.35 : 1) }),
      // A void trial is crossed at its end.
      Plot.dot(unique(own.filter((row) => row.is_void).map((row) => row.key)).map((key) => own.findLast((row) => row.key === key)), { x: "elapsed", y: "value", symbol: "times", r: 5, stroke: "var(--bad)", strokeWidth: 2 }),
    ];
  };
  const hooks = data.marks.some((mark) => trials.has(mark.trial)) ? " Marked: commands of the campaign that were run meanwhile." : "";
  return {
    name, title, rows, caption: caption + hooks, words: `${title}, ${unique(rows.map((row) => row.key)).length} lines`, placed: linkZoom,
    legend: [...(names.length > 1 || voids ? legendOf(names, { voids }) : names.map((label) => ({ label, color: colorScale(names).range[0] }))), ...legend],
    panels: (panels ?? [{ title: "", rows: shown, ceilings: [] }]).map((panel) => ({ title: panel.title, options: () => ({
      ...TIME_MARGINS, height: 220, x: timeAxis(), y: { ...AXIS, grid: true, ticks: 5, ...y, ...panel.y }, color: colorScale(names),
      marks: [
        ...panel.ceilings.map((one) => Plot.ruleY([one], { y: "limit", stroke: "currentColor", strokeWidth: 1.6, strokeDasharray: one.dash })),
        ...lines(clipped(panel.rows)), ...hookMarks(new Set(panel.rows.map((row) => row.trial))),
        tip(clipped(panel.rows), { x: "elapsed", y: "value", title: words }),
      ],
    }) })),
  };
}

function stepWords(lines, key) {
  const steps = unique(lines.map((line) => line[key])).sort((a, b) => a - b);
  return steps.length === 1 ? `Each point is ${steps[0]} s.` : `Each point is ${steps[0]} to ${steps.at(-1)} s, longer for longer trials.`;
}

function trialsOfLines(lines) { return new Set(lines.map((line) => line.trial)); }

function keyed(line, more = "") { return `${line.trial} ${line.operation}${more}`; }

function ratesOverTime(lines) {
  const rows = lines.flatMap((line) => line.rates.map(([elapsed, value]) => ({ ...line, key: keyed(line), elapsed, value })));
  const ofRequests = data.counted === "action" ? "Of the requests that actions are made of. " : "";
  return lineChart("rate-over-time", "Throughput over time", `${ofRequests}${stepWords(lines, "step_s")} Each line is one trial, from its own start. A level line is a steady one.`, rows, trialsOfLines(lines), {
    y: { label: "good requests per second", zero: true, tickFormat: shortRate },
    tip: (row) => `${row.series}, trial ${row.trial}\n${rate(row.value)} at ${seconds(row.elapsed)}\nmean of ${row.step_s} s${row.is_void ? "\nvoid: must not be used" : ""}`,
  });
}

function dataOverTime(lines) {
  if (!data.ceilings.length) return null;
  const rows = lines.flatMap((line) => line.rates.map(([elapsed, , value]) => ({ ...line, key: keyed(line), elapsed, value, panel: `${line.target}, ${line.operation}` })));
  if (!rows.some((row) => row.value > 0)) return null;
  const names = unique(data.ceilings.map((one) => one.name));
  const panels = unique(rows.map((row) => row.panel)).map((title) => {
    const own = rows.filter((row) => row.panel === title);
    return { title, rows: own, found: ceilingsOf(own, Math.max(...own.map((row) => row.value)), names) };
  });
  const drawn = new Set(panels.flatMap((panel) => panel.found.near.map((one) => one.name)));
  const chart = lineChart("data-over-time", "Data rate over time, and the ceilings", `Each line is one trial, from its own start. Dashed: what was measured apart from the load.${farWords(panels.flatMap((panel) => panel.found.far))}`, rows, trialsOfLines(lines), {
    y: { label: null, tickFormat: mebibytes },
    tip: (row) => `${row.series}, trial ${row.trial}\n${mebibytes(row.value)} at ${seconds(row.elapsed)}`,
    panels: panels.map(({ title, rows: own, found }) => {
      const top = 1.08 * Math.max(...own.map((row) => row.value), ...found.near.map((one) => one.limit));
      return { title, rows: own, ceilings: found.near, y: { domain: [0, top], ticks: mebibyteTicks(top) } };
    }), legend: ceilingLegend(names, drawn),
  });
  return chart && { ...chart, ceilings: panels.map(({ title, found }) => ({ title, ...found })) };
}

function latenciesOverTime(lines) {
  const rows = lines.flatMap((line) => line.latencies.flatMap(([elapsed, p50, p99]) => [["p50", p50], ["p99", p99]]
    .filter(([, value]) => value !== null)
    .map(([quantile, value]) => ({ ...line, key: keyed(line, ` ${quantile}`), quantile, elapsed, value }))));
  return lineChart("latency-over-time", "Latency over time", `${stepWords(lines, "latency_step_s")} Full lines are medians, dashed ones p99, of each step's own requests; a step with too few has no point.`, rows, trialsOfLines(lines), {
    y: { label: "time of a request (logarithmic)", ...LOG_AXIS, tickFormat: axisDuration, ticks: logTicks(rows.map((row) => row.value)) },
    tip: (row) => `${row.series}, trial ${row.trial}\n${row.quantile} ${duration(row.value)} at ${seconds(row.elapsed)}`,
  });
}

function errorsOverTime(lines) {
  const rows = lines.flatMap((line) => line.errors.map(([elapsed, kind, value]) => ({ ...line, key: keyed(line, ` ${kind}`), series: kind.replaceAll("_", " "), elapsed, value })));
  return lineChart("errors-over-time", "Failed requests over time", "By kind of failure.", rows, trialsOfLines(lines), {
    y: { label: "failed requests per second", zero: true, tickFormat: shortRate }, isDotted: true,
    tip: (row) => `${row.target} ${row.operation}, trial ${row.trial}\n${number(row.value)}/s ${row.series} at ${seconds(row.elapsed)}`,
  });
}

function resourcesOverTime(trials) {
  const voids = new Set(data.timelines.filter((line) => line.is_void).map((line) => line.trial));
  const charts = [
    ...Object.entries(data.resource_kinds).map(([kind, one]) => ({ name: `client-${kind}`, ...one, remark: "", lines: data.resources.filter((line) => line.kind === kind) })),
    ...data.exporters,
  ];
  return charts.map((chart) => {
    const own = chart.lines.filter((line) => trials.has(line.trial));
    const hosts = unique(own.map((line) => line.host));
    const rows = own.flatMap((line) => line.points.map(([elapsed, value]) => ({
      trial: line.trial, is_void: voids.has(line.trial), key: `${line.trial} ${line.host} ${line.subject}`, elapsed, value,
      series: [hosts.length > 1 && !line.subject.startsWith(line.host) ? line.host : "", line.subject].filter(Boolean).join(", ") || line.host,
    })));
    // A share is judged against the whole, so the whole is always in sight.
    const isShare = chart.unit.startsWith("%");
    return lineChart(chart.name, chart.title, `${hosts.join(", ")}.${chart.remark}`, rows, trials, {
      y: { label: chart.unit, zero: true, ...(isShare ? { domain: [0, 100] } : {}) },
      tip: (row) => `${row.series}, trial ${row.trial}\n${number(row.value)} ${chart.unit} at ${seconds(row.elapsed)}`,
    });
  });
}

function linkZoom(svg) {
  // Drag to look closer: pixels become seconds by the scale of the chart itself.
  const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  box.setAttribute("fill", "var(--link)");
  box.setAttribute("fill-opacity", "0.15");
  box.setAttribute("y", "0");
  box.setAttribute("height", svg.getAttribute("height"));
  const scale = svg.scale("x");
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
    if (from === null) return;
    const ends = [from, at(event)].sort((a, b) => a - b);
    from = null;
    box.remove();
    if (ends[1] - ends[0] < 6) return;
    zoom = ends.map((end) => scale.invert(end));
    for (const redraw of zoomed) redraw();
  });
  svg.addEventListener("pointerleave", () => { from = null; box.remove(); });
}
