// The calls that prove what an audit found, each as a bar in the lane of who made it.

import { AXIS, colorScale, legendOf, tip } from "./charts.js";
import { data, unique } from "./selection.js";
import { axisDuration } from "./words.js";

export function proofs() {
  if (!data.proofs?.length) return null;
  const rows = data.proofs.flatMap((proof) => proof.calls);
  const names = unique(rows.map((row) => row.operation));
  return {
    name: "proofs", title: "Proof of the findings", rows, legend: legendOf(names),
    caption: "Calls that contradict each other: what each wrote or read, from its begin to its answer. A, B: versions. To make them again: loadstone run RUN/ and the name behind the key.",
    words: `${rows.length} calls of ${data.proofs.length} findings`,
    panels: data.proofs.map((proof) => {
      const lanes = unique(proof.calls.map((row) => row.lane));
      const end = Math.max(1, ...proof.calls.map((row) => row.end));
      return { title: proof.replay ? `${proof.title} · ${proof.replay}` : proof.title, options: () => ({
        height: 30 * lanes.length + 60, marginLeft: 30 + 7 * Math.max(...lanes.map((lane) => lane.length)), marginBottom: 40, marginTop: 8, marginRight: 70, color: colorScale(names),
        x: { ...AXIS, label: "since the first call began", labelAnchor: "center", domain: [0, end], ticks: 4, tickFormat: axisDuration, grid: true }, y: { ...AXIS, type: "band", label: null, domain: lanes, padding: 0.3, tickSize: 0 },
        marks: [
          // A call of microseconds in a proof of seconds would be too narrow to see.
          Plot.link(proof.calls, { y: "lane", x1: "begin", x2: "end", stroke: "operation", strokeWidth: 12, strokeLinecap: "square" }),
          Plot.text(proof.calls, { y: "lane", x: "end", text: "label", textAnchor: "start", dx: 10 }),
          tip(proof.calls, { y: "lane", x: "begin", title: "words" }),
        ],
      }) };
    }),
  };
}
