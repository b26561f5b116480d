// Queries, or other repeated times: what each took on each system, and what it read.

import { AXIS, LOG_AXIS, colorScale, legendOf, tip } from "./charts.js";
import { data, unique } from "./selection.js";
import { axisBytes, axisDuration, byteRate, duration, logTicks } from "./words.js";

function queryTip(query) {
  const read = query.read_bytes === null ? "" : `\nread ${byteRate(query.read_bytes).replace("/s", "")}`;
  return `${query.query}, ${query.arm}\n${duration(query.value_ns)} (${query.runs} runs)${read}${query.limit ? `\nlimited by ${query.limit}` : ""}`;
}

export function querySeconds() {
  return timesOf(data.queries, { name: "query-seconds", title: "Time of each query", caption: data.query_words });
}

export function streamSeconds() {
  return timesOf(data.streams, { name: "stream-seconds", title: "Time of each query in streams", caption: data.stream_words });
}

function timesOf(queries, { name, title, caption }) {
  const shown = (queries ?? []).filter((query) => query.value_ns !== null);
  if (!shown.length) return null;
  const arms = unique(shown.map((query) => query.arm));
  const names = unique(shown.map((query) => query.query));
  const times = shown.flatMap((query) => query.times_ns.map((time) => ({ ...query, time })));
  return {
    name, title, rows: shown, caption, legend: legendOf(arms),
    words: `Times of ${names.length} queries on ${arms.length} systems`,
    panels: [{ title: "", options: (width) => {
      const isAslant = names.some((name) => name.length * 7 > (width - 90) / names.length);
      // Side by side in each query's place, so that none hides another.
      const shift = (arm) => (arms.indexOf(arm) - (arms.length - 1) / 2) * Math.min(9, (width - 90) / names.length / (arms.length + 1));
      return {
        height: 340, marginBottom: isAslant ? 70 : 32, marginTop: 16, marginLeft: 70, color: colorScale(arms),
        x: { ...AXIS, type: "point", label: null, domain: names, tickRotate: isAslant ? -40 : 0 },
        y: { ...LOG_AXIS, label: "time (logarithmic)", tickFormat: axisDuration, ticks: logTicks(times.map((row) => row.time)), grid: true },
        marks: [
          ...arms.flatMap((arm) => {
            const own = (rows) => rows.filter((row) => row.arm === arm);
            return [
              Plot.dot(own(times), { x: "query", y: "time", stroke: "arm", strokeOpacity: 0.5, r: 2, dx: shift(arm) }),
              Plot.ruleX(own(shown).filter((query) => query.low_ns !== null), { x: "query", y1: "low_ns", y2: "high_ns", stroke: "arm", strokeWidth: 1.8, dx: shift(arm) }),
              Plot.dot(own(shown), { x: "query", y: "value_ns", fill: "arm", r: 4, dx: shift(arm) }),
            ];
          }),
          tip(shown, { x: "query", y: "value_ns", title: queryTip }),
        ],
      };
    } }],
  };
}

export function queryBytes() {
  const shown = (data.queries ?? []).filter((query) => query.value_ns !== null && query.read_bytes !== null);
  if (!shown.some((query) => query.read_bytes > 0)) return null;
  const arms = unique(shown.map((query) => query.arm));
  const names = unique(shown.map((query) => query.query));
  const most = Math.max(...shown.map((query) => query.read_bytes));
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(most / 3)));
  const ticks = [0, 1, 2, 3].map((count) => count * step).filter((tick) => tick <= most);
  return {
    name: "query-bytes", title: "Read from the storage", rows: shown, words: `Bytes read by ${names.length} queries`,
    caption: "Bytes of a query's median run, from devices and over TCP. A warm query that reads nothing was answered by a cache.",
    panels: arms.map((arm) => ({ title: arm, options: () => ({
      height: 130, marginBottom: 32, marginTop: 10, marginLeft: 70, marginRight: 20, color: colorScale(arms),
      x: { ...AXIS, type: "band", label: null, domain: names, padding: 0.2 },
      y: { ...AXIS, label: null, tickFormat: axisBytes, ticks, domain: [0, most], grid: true },
      marks: [
        Plot.barY(shown.filter((query) => query.arm === arm), { x: "query", y: "read_bytes", fill: "arm" }),
        tip(shown.filter((query) => query.arm === arm), { x: "query", y: "read_bytes", title: queryTip }, Plot.pointerX),
      ],
    }) })),
  };
}
