// Latency distributions: one line for each result, the rarer the farther to the right.

import { AXIS, LOG_AXIS, COLOURS, colorScale, legendOf, tip } from "./charts.js";
import { data, namesOf, results, unique } from "./selection.js";
import { axisDuration, duration, logTicks, share } from "./words.js";

export function distribution() {
  const found = results().filter((result) => result.curve.length > 1);
  // More lines than colours cannot be distinguished: those shown lie evenly among the rest.
  const series = unique(found.map((result) => `${result.target}, ${result.words}`));
  const step = Math.max(1, series.length / COLOURS);
  const kept = new Set(series.filter((_, at) => Math.floor(at / step) !== Math.floor((at - 1) / step)));
  const shown = found.filter((result) => kept.has(`${result.target}, ${result.words}`));
  if (!shown.length) return null;
  const named = namesOf(found);
  const rows = shown.flatMap((result, line) => result.curve.map(([x, value]) => ({ x, value, line, is_void: result.is_void, operation: result.operation, series: named[found.indexOf(result)] })));
  const names = unique(rows.map((row) => row.series));
  const operations = unique(rows.map((row) => row.operation));
  const rest = found.length - shown.length;
  const place = { x: "x", y: "value" };
  const voids = rows.filter((row, at) => row.is_void && rows[at + 1]?.line !== row.line);
  return {
    name: "distribution", title: "How slow the slowest are", rows,
    caption: `50 % is the median, and each mark to the right is ten times rarer; logarithmic. A line ends where fewer than ten ${data.counted}s lie beyond it.${rest > 0 ? ` ${rest} more results are not drawn: the page's filters show them.` : ""}`,
    words: `Percentiles of ${shown.length} results`, legend: legendOf(names, { voids: voids.length > 0 }),
    panels: operations.map((operation) => ({ title: operations.length > 1 ? operation : "", options: (width) => {
      const own = rows.filter((row) => row.operation === operation);
      const most = Math.max(...own.map((row) => row.x));
      const ticks = [2, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7].filter((tick) => tick <= most);
      return {
        height: operations.length > 1 ? 230 : 300, marginLeft: 66, marginBottom: 40, marginTop: 12, marginRight: 34, color: colorScale(names),
        x: { ...LOG_AXIS, label: `share of the ${data.counted}s`, labelAnchor: "center", grid: true, ticks: ticks.length * 70 > width ? ticks.filter((_, at) => at % 2 === 1) : ticks, tickFormat: share },
        y: { ...LOG_AXIS, label: null, tickFormat: axisDuration, ticks: logTicks(own.map((row) => row.value)), grid: true },
        marks: [
          ...[false, true].map((isVoid) => Plot.line(own.filter((row) => row.is_void === isVoid), { ...place, z: "line", stroke: "series", strokeWidth: 1.8, strokeOpacity: isVoid ? 0.35 : 1 })),
          Plot.dot(voids.filter((row) => row.operation === operation), { ...place, symbol: "times", r: 6, stroke: "var(--bad)", strokeWidth: 2 }),
          tip(own, { ...place, title: (row) => `${row.series}, ${row.operation}\n${share(row.x)} took at most ${duration(row.value)}` }),
        ],
      };
    } })),
  };
}
