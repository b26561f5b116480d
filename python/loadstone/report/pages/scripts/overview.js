// The results side by side: rates with their trials or intervals, and latency beside them.

import { AXIS, LOG_AXIS, colorScale, isNarrow, legendOf, tip } from "./charts.js";
import { data, namesOf, unique } from "./selection.js";
import { axisDuration, byteRate, duration, logTicks, number, rate, shortRate } from "./words.js";

const BARS_MAX = 60;

export function tipOf(result) {
  const bound = result.is_bound ? "at least " : "";
  return [
    `${result.target} ${result.operation}${result.words ? `, ${result.words}` : ""}${result.round ? `, round ${result.round}` : ""}`,
    `${bound}${result.rate ? rate(result.rate) : ""}${result.bytes_per_s ? ` (${byteRate(result.bytes_per_s)})` : ""}`,
    result.low ? `${data.spread_words ? "" : "95 % interval "}${number(result.low)} to ${number(result.high)}, ${result.n} trial${result.n === 1 ? "" : "s"}`
      : result.n > 1 ? `${result.n} trials: ${result.trial_rates.map((value) => number(value)).join(", ")}` : "",
    result.p50 ? `p50 ${duration(result.p50)}, p99 ${duration(result.p99)}, slowest ${duration(result.max)}` : "",
    result.failed === null ? "failures not stated" : result.failed ? `${number(result.failed)} of ${number(result.requests)} failed` : "none failed",
    result.limit && result.limit !== "not known" ? `limited by ${result.limit}` : "",
    result.is_void ? "void: must not be used" : "",
  ].filter(Boolean).join("\n");
}

function labelled(shown) {
  const names = namesOf(shown);
  return shown.map((result, place) => ({ ...result, bar: names[place] })).slice(0, BARS_MAX);
}

function barFrame(bars, width) {
  const operations = unique(bars.map((bar) => bar.operation));
  const names = unique(bars.map((bar) => bar.bar));
  const rows = operations.reduce((sum, operation) => sum + new Set(bars.filter((bar) => bar.operation === operation).map((bar) => bar.bar)).size, 0);
  const longest = (words) => Math.max(4, ...words.map((word) => word.length));
  return {
    height: Math.max(110, rows * (rows > 16 ? 18 : 22) + operations.length * 8 + 50),
    marginLeft: Math.min(isNarrow(width) ? 120 : 240, 22 + 7 * longest(names)),
    marginRight: operations.length > 1 ? Math.min(140, 16 + 7 * longest(operations)) : 20,
    marginBottom: 40, marginTop: 8,
    y: { ...AXIS, label: null, domain: names, padding: 0.15, tickSize: 0 },
    fy: { label: null, domain: operations, padding: 0.06 },
    color: colorScale(unique(bars.map((bar) => bar.target))),
  };
}

function barPlace(bars) {
  return { y: "bar", ...(unique(bars.map((bar) => bar.operation)).length > 1 ? { fy: "operation" } : {}) };
}

// A trial by itself, where there are too few for an interval.
export function trialsOf(results) {
  return results.filter((result) => !result.low && result.n > 1).flatMap((result) => result.trial_rates.map((value) => ({ ...result, value })));
}

export function rateBars(shown) {
  const bars = labelled(shown);
  if (!bars.length) return null;
  const place = barPlace(bars);
  const trials = trialsOf(bars);
  const end = (bar) => Math.max(bar.rate, bar.high ?? 0, ...(bar.low ? [] : bar.trial_rates));
  const most = Math.max(...bars.map(end));
  return {
    name: "throughput", title: "Throughput", rows: bars,
    caption: `Good ${data.counted}s per second. ${spreadWords(bars)}`,
    words: `Good ${data.counted}s per second of ${bars.length} results`,
    legend: legendOf(unique(bars.map((bar) => bar.target)), { bounds: bars.some((bar) => bar.is_bound), voids: bars.some((bar) => bar.is_void) }),
    panels: [{ options: (width) => ({
      ...barFrame(bars, width),
      x: { ...AXIS, label: `good ${data.counted}s per second`, labelAnchor: "center", tickFormat: shortRate, ticks: isNarrow(width) ? 3 : 5, grid: true,
        // The longest label, "≥ 1.85k void", ends before the names of operations.
        domain: [0, (isNarrow(width) ? 1.8 : 1.32) * most] },
      marks: [
        Plot.barX(bars, { ...place, x: "rate", fill: "target", fillOpacity: (bar) => (bar.is_void ? 0.25 : 1) }),
        Plot.barX(bars.filter((bar) => bar.is_bound), { ...place, x: "rate", fill: "url(#hatch)" }),
        Plot.ruleY(bars.filter((bar) => bar.low), { ...place, x1: "low", x2: "high", stroke: "currentColor", strokeWidth: 1.6 }),
        Plot.dot(trials, { ...place, x: "value", r: 2.5, stroke: "currentColor", fill: "var(--page)" }),
        Plot.text(bars, { ...place, x: end, text: (bar) => `${bar.is_bound ? "≥ " : ""}${shortRate(bar.rate)}${bar.is_void ? " void" : ""}`, textAnchor: "start", dx: 10, fill: "currentColor" }),
        Plot.ruleX([0], { stroke: "currentColor", strokeOpacity: 0.4 }),
        tip(bars, { ...place, x: "rate", title: tipOf }, Plot.pointerY),
      ],
    }) }],
  };
}

export function spreadWords(results) {
  if (data.spread_words) return data.spread_words;
  return [
    results.some((result) => result.low) ? "Lines are 95 % intervals." : "",
    results.some((result) => !result.low && result.n > 1) ? "Small circles are single trials, too few for an interval." : "",
  ].filter(Boolean).join(" ");
}

export function ringWords(points) {
  return points.some((point) => point.is_bound) ? " Ringed points show the client's own limit: the target does at least so much." : "";
}

export function latencyBars(shown) {
  const bars = labelled(shown).filter((bar) => bar.p50 !== null);
  if (!bars.length) return null;
  const place = barPlace(bars);
  const late = bars.filter((bar) => bar.p99 !== null);
  const far = (bar) => bar.max ?? bar.p99 ?? bar.p50;
  const what = data.counted === "action" ? "an action" : "a request";
  return {
    name: "latency", title: "Latency", rows: bars,
    caption: `Time of ${what}, from its start or from when it was due: ○ median, ● p99, | slowest.`,
    words: `Median, p99 and slowest ${data.counted} of ${bars.length} results`,
    legend: legendOf(unique(bars.map((bar) => bar.target)), { voids: bars.some((bar) => bar.is_void) }),
    panels: [{ options: (width) => ({
      ...barFrame(bars, width),
      // Inset, so that the slowest does not touch the names of operations.
      x: { ...LOG_AXIS, label: `time of ${what} (logarithmic)`, labelAnchor: "center", tickFormat: axisDuration, ticks: logTicks(bars.flatMap((bar) => [bar.p50, far(bar)]), isNarrow(width)), grid: true, inset: 8 },
      marks: [
        Plot.ruleY(bars, { ...place, x1: "p50", x2: far, stroke: "target", strokeOpacity: 0.35, strokeWidth: 2 }),
        Plot.ruleY(late, { ...place, x1: "p50", x2: "p99", stroke: "target", strokeWidth: 3, strokeOpacity: (bar) => (bar.is_void ? 0.25 : 1) }),
        Plot.dot(bars, { ...place, x: "p50", stroke: "target", fill: "var(--page)", r: 4, strokeWidth: 2 }),
        Plot.dot(late, { ...place, x: "p99", fill: "target", r: 4.5 }),
        Plot.tickX(bars, { ...place, x: far, stroke: "target", strokeWidth: 2, inset: 4 }),
        Plot.dot(bars.filter((bar) => bar.is_void), { ...place, x: "p50", symbol: "times", r: 6, stroke: "var(--bad)", strokeWidth: 2 }),
        tip(bars, { ...place, x: "p50", title: tipOf }, Plot.pointerY),
      ],
    }) }],
  };
}
