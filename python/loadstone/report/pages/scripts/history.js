// A history: each trend over its runs, with its levels and where they changed.

import { AXIS, tip } from "./charts.js";
import { data } from "./selection.js";
import { axisDuration, byteRate, duration, rate, number, shortRate } from "./words.js";

const WORSE = "var(--bad)";
const BETTER = "var(--good)";

function worded(metric) {
  if (metric.includes("_ns_")) return [duration, axisDuration];
  if (metric === "bytes_per_s") return [byteRate, byteRate];
  return metric.endsWith("_per_s") ? [rate, shortRate] : [number, number];
}

function levels(trend) {
  // Each level reaches from the run that began it to the one before the next change.
  const begins = trend.changes.map((one) => trend.points.findIndex((point) => point.run === one.run));
  const edges = [0, ...begins, trend.points.length];
  return trend.changes.length === 0 ? [] : edges.slice(0, -1).map((from, place) => ({
    from, to: edges[place + 1] - 1,
    value: place === 0 ? trend.changes[0].before : trend.changes[place - 1].after,
  }));
}

function trendChart(trend, place) {
  const [words, short] = worded(trend.metric);
  const rows = trend.points.map((one, at) => ({ ...one, at, is_newest: at === trend.points.length - 1 }));
  const days = moments(rows.map((row) => row.started));
  const changes = trend.changes.map((one) => ({ ...one, at: rows.findIndex((row) => row.run === one.run) - 0.5 }));
  const newest = trend.newest === "worse" ? WORSE : trend.newest === "better" ? BETTER : "var(--series-0)";
  const last = rows.length - 1;
  // What is expected after few runs may be wider than all that was ever measured: it is cut off then.
  const most = Math.max(...rows.map((one) => one.value));
  const top = 1.12 * Math.max(most, Math.min(trend.expected?.[1] ?? 0, 2 * most));
  return {
    name: `trend-${place}`, title: trend.title, caption: trend.caption, rows, words: `${trend.title}: ${rows.length} runs, ${trend.changes.length} changes of level, newest run ${trend.newest}`,
    panels: [{ title: "", options: (width) => ({
    height: 190, marginBottom: 34, marginTop: 20, marginLeft: 64, marginRight: 18,
    x: { ...AXIS, domain: [-0.7, last + 0.7], label: null, ticks: rows.map((row) => row.at).filter((at) => (last - at) % Math.max(1, Math.ceil(rows.length * (16 + 7 * days[last].length) / (width - 82))) === 0), tickFormat: (at) => days[at] ?? "" },
    // From zero, so that noise does not look like a cliff.
    y: { ...AXIS, label: null, domain: [0, top], grid: true, ticks: 4, tickFormat: short },
    marks: [
      ...(trend.expected ? [Plot.rect([0], { x1: last - 0.45, x2: last + 0.45, y1: Math.min(top, trend.expected[0]), y2: Math.min(top, trend.expected[1]), fill: "var(--link)", fillOpacity: 0.16 })] : []),
      Plot.ruleX(changes, { x: "at", stroke: (one) => (one.is_worse ? WORSE : BETTER), strokeWidth: 1.5, strokeDasharray: "4 3" }),
      Plot.text(changes, { x: "at", frameAnchor: "top", dy: -14, text: "words", fill: (one) => (one.is_worse ? WORSE : BETTER), fontWeight: 600 }),
      Plot.ruleY(levels(trend), { x1: "from", x2: "to", y: "value", stroke: "currentColor", strokeOpacity: 0.55, strokeWidth: 2 }),
      Plot.line(rows, { x: "at", y: "value", stroke: "var(--series-0)", strokeOpacity: 0.45 }),
      Plot.dot(rows, { x: "at", y: "value", r: (one) => (one.is_newest ? 4.5 : 2.6), fill: (one) => (one.is_newest ? newest : "var(--series-0)") }),
      tip(rows, { x: "at", y: "value", title: (one) => `${one.run}\n${one.started.slice(0, 16).replace("T", " ")}\n${words(one.value)}, of ${one.trials} ${one.trials === 1 ? "trial" : "trials"}` }, Plot.pointerX),
    ],
    }) }],
  };
}

// As short as tells the runs apart: dates, times of one day, or both.
function moments(started) {
  const isOneYear = new Set(started.map((one) => one.slice(0, 4))).size === 1;
  const isOneDay = new Set(started.map((one) => one.slice(0, 10))).size === 1;
  const date = (one) => one.slice(isOneYear ? 5 : 0, 10);
  const forms = isOneDay ? [(one) => one.slice(11, 16), (one) => one.slice(11, 19)]
    : [date, (one) => `${date(one)} ${one.slice(11, 16)}`, (one) => `${date(one)} ${one.slice(11, 19)}`];
  const form = forms.find((words) => new Set(started.map(words)).size === started.length) ?? forms.at(-1);
  return started.map(form);
}

export function trends() { return (data.trends ?? []).map(trendChart); }
