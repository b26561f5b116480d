// Searches for a capacity: which loads were tried, in turn, and what they took.

import { AXIS, LOG_AXIS, tip } from "./charts.js";
import { data, unique } from "./selection.js";
import { axisDuration, duration, logTicks, rate, shortRate } from "./words.js";

const OUTCOMES = { "meets the objective": "var(--series-0)", "misses it": "var(--series-1)" };
const STAGES = { coarse: "circle", fine: "square", confirm: "diamond" };
const SEARCH_MARGINS = { marginLeft: 64, marginRight: 20, marginTop: 26, marginBottom: 40, height: 240 };

function parts(rows) {
  const colour = (row) => OUTCOMES[row.outcome] ?? "var(--series-7)";
  return {
    colour,
    legend: [
      ...unique(rows.map((row) => row.outcome)).map((label) => ({ label, color: colour({ outcome: label }) })),
      ...unique(rows.map((row) => row.stage)).map((label) => ({ label, symbol: STAGES[label] ?? "circle" })),
    ],
    dots: (own, place) => Object.entries(STAGES).map(([stage, symbol]) => Plot.dot(own.filter((row) => row.stage === stage), { ...place, symbol, fill: colour, r: 4.5 })),
    words: (row) => `trial ${row.trial}, ${row.stage}: ${row.words}\n${rate(row.rate)}, ${duration(row.latency_ns)}\n${row.outcome}`,
  };
}

export function searchSteps() {
  const rows = (data.searches ?? []).flatMap((search) => search.steps);
  if (!rows.length) return null;
  const { legend, dots, words } = parts(rows);
  return {
    name: "search-steps", title: "Search for the capacity, trial by trial", rows, legend, words: `Loads of ${rows.length} trials of a search`,
    caption: "Each point is a trial at one load: short ones narrow the loads, longer ones decide by majority, fresh ones confirm. The dashed line is the answer; logarithmic.",
    panels: data.searches.map((search) => ({ title: search.name, options: () => ({
      ...SEARCH_MARGINS,
      x: { ...AXIS, label: "trial of the search", labelAnchor: "center", domain: [0.5, search.steps.length + 0.5], ticks: Math.min(10, search.steps.length), tickFormat: (value) => (Number.isInteger(value) ? `${value}` : "") },
      y: { ...LOG_AXIS, label: "load offered", tickFormat: shortRate, ticks: logTicks(search.steps.map((row) => row.load)), grid: true, insetTop: 8, insetBottom: 8 },
      marks: [
        Plot.line(search.steps, { x: "step", y: "load", stroke: "var(--quiet)", strokeOpacity: 0.6 }),
        ...(search.found === null ? [] : [Plot.ruleY([search.found], { stroke: "var(--good)", strokeDasharray: "4 3", strokeWidth: 1.6 })]),
        ...dots(search.steps, { x: "step", y: "load" }),
        tip(search.steps, { x: "step", y: "load", title: words }),
      ],
    }) })),
  };
}

export function searchLatency() {
  const rows = (data.searches ?? []).flatMap((search) => search.steps).filter((row) => row.latency_ns !== null);
  if (!rows.length) return null;
  const { legend, dots, words } = parts(rows);
  return {
    name: "search-latency", title: "Latency against load during the search", rows, legend, words: `Latency of ${rows.length} trials of a search`,
    caption: "The percentile of the objective in each trial where it could be read; the dashed line is the most that it may be; logarithmic.",
    panels: data.searches.filter((search) => search.steps.some((row) => row.latency_ns !== null)).map((search) => {
      const own = search.steps.filter((row) => row.latency_ns !== null);
      return { title: search.name, options: () => ({
        ...SEARCH_MARGINS,
        x: { ...LOG_AXIS, label: "load offered", labelAnchor: "center", tickFormat: shortRate, ticks: logTicks(own.map((row) => row.load)), inset: 8 },
        y: { ...LOG_AXIS, label: null, tickFormat: axisDuration, ticks: logTicks([search.limit_ns, ...own.map((row) => row.latency_ns)]), grid: true, inset: 8 },
        marks: [
          Plot.ruleY([search.limit_ns], { stroke: "currentColor", strokeDasharray: "4 3" }),
          ...dots(own, { x: "load", y: "latency_ns" }),
          tip(own, { x: "load", y: "latency_ns", title: words }),
        ],
      }) };
    }),
  };
}
