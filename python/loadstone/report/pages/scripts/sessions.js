// A few sessions of a script: what each did when, and what failed.

import { AXIS, colorScale, legendOf, tip } from "./charts.js";
import { data, unique } from "./selection.js";
import { seconds } from "./words.js";

export function sessions() {
  if (!data.sessions) return null;
  const rows = data.sessions.actions;
  const lanes = unique(rows.map((row) => row.lane));
  const names = unique(rows.map((row) => row.action));
  const failed = rows.filter((row) => row.outcome !== "ok");
  return {
    name: "sessions", title: "What each session did", rows, caption: data.sessions.caption, words: `${rows.length} actions of ${lanes.length} sessions`,
    legend: [...legendOf(names), ...(failed.length ? [{ label: "failed", kind: "void" }] : [])],
    panels: [{ title: "", options: () => ({
      height: 26 * lanes.length + 60, marginLeft: 30 + 7 * Math.max(...lanes.map((lane) => lane.length)), marginBottom: 40, marginTop: 8, marginRight: 16, color: colorScale(names),
      x: { ...AXIS, label: "seconds", labelAnchor: "center", zero: true, grid: true }, y: { ...AXIS, type: "band", label: null, domain: lanes, padding: 0.2, tickSize: 0 },
      marks: [
        Plot.barX(rows, { y: "lane", x1: "begin", x2: "end", fill: "action" }),
        Plot.dot(failed, { y: "lane", x: "begin", symbol: "times", r: 5, stroke: "var(--bad)", strokeWidth: 2 }),
        tip(rows, { y: "lane", x: "begin", title: (row) => `${row.action}, ${row.lane}\n${seconds(row.begin)} to ${seconds(row.end)}\n${row.outcome}` }),
      ],
    }) }],
  };
}
