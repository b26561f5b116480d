// The page of queries: what each took on each arm, and what it read.

import { AXIS, colorScale, legendOf, put } from "./charts.js";
import { openPage } from "./frame.js";
import { data, unique } from "./selection.js";
import { axisBytes, axisDuration, byteRate, duration } from "./words.js";

const bytes = (value) => byteRate(value).replace("/s", "");

function drawSeconds() {
  const shown = data.queries.filter((one) => one.median_ns !== null);
  if (!shown.length) { put("query-seconds", "", null); return; }
  const arms = unique(shown.map((one) => one.arm));
  const place = { x: "query", y: "median_ns" };
  put("query-seconds", `Seconds of ${unique(shown.map((one) => one.query)).length} queries on ${arms.length} arms`, {
    height: 340, marginBottom: 32, marginTop: 16, marginLeft: 70,
    x: { ...AXIS, type: "point", label: null, domain: unique(shown.map((one) => one.query)).sort() },
    y: { ...AXIS, type: "log", label: "time (logarithmic)", tickFormat: axisDuration, ticks: 5, grid: true },
    color: colorScale(arms),
    marks: [
      Plot.ruleX(shown, { x: "query", y1: "least_ns", y2: "most_ns", stroke: "arm", strokeWidth: 1.6 }),
      Plot.dot(shown, { ...place, fill: "arm", r: 4 }),
      Plot.tip(shown, Plot.pointer({ ...place, lineWidth: 40, lineHeight: 1.25, title: tipOf })),
    ],
  }, legendOf(arms));
}

function drawBytes() {
  const shown = data.queries.filter((one) => one.median_ns !== null && one.read_bytes !== null);
  if (!shown.some((one) => one.read_bytes > 0)) { put("query-bytes", "", null); return; }
  const arms = unique(shown.map((one) => one.arm));
  const most = Math.max(...shown.map((one) => one.read_bytes));
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(most / 3)));
  const ticks = [0, 1, 2, 3].map((one) => one * step).filter((one) => one <= most);
  put("query-bytes", `Bytes read by ${unique(shown.map((one) => one.query)).length} queries`, {
    height: 60 + 90 * arms.length, marginBottom: 32, marginTop: 24, marginLeft: 70, marginRight: 20,
    x: { ...AXIS, type: "band", label: null, domain: unique(shown.map((one) => one.query)).sort(), padding: 0.2 },
    y: { ...AXIS, label: null, tickFormat: axisBytes, ticks, grid: true, zero: true },
    fy: { axis: null, domain: arms, padding: 0.25 },
    color: colorScale(arms),
    marks: [
      Plot.text(arms, { fy: (one) => one, text: (one) => one, frameAnchor: "top-left", dy: -14, fontWeight: 600, fill: "currentColor" }),
      Plot.barY(shown, { x: "query", y: "read_bytes", fy: "arm", fill: "arm" }),
      Plot.tip(shown, Plot.pointerX({ x: "query", y: "read_bytes", fy: "arm", lineWidth: 40, lineHeight: 1.25, title: tipOf })),
    ],
  });
}

function tipOf(one) {
  const read = one.read_bytes === null ? "" : `\nread ${bytes(one.read_bytes)}`;
  return `${one.query}, ${one.arm}\n${duration(one.median_ns)} (${one.runs} runs)${read}${one.limit ? `\nlimited by ${one.limit}` : ""}`;
}

// Every number is in the JSON and CSV reports; no table here is sorted or searched.
document.getElementById("save-csv").hidden = true;
openPage(() => { drawSeconds(); drawBytes(); });
