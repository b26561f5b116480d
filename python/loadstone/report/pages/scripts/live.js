// A run while it goes on: asked for once a second, drawn as it comes.

import { AXIS, colorScale, legendOf, place } from "./charts.js";
import { openPage } from "./frame.js";
import { data } from "./selection.js";
import { axisDuration, byteRate, duration, number, rate, shortRate } from "./words.js";

const EVERY_MS = 1000;
const charts = document.querySelector("[data-charts=live]");
let found = null;

function tile(name, value, note, isBad = false) {
  const place = document.getElementById(`tile-${name}`);
  place.querySelector("strong").textContent = value;
  place.querySelector(".note").textContent = note;
  place.classList.toggle("bad", isBad);
}

function lastSeconds(name, title, caption, rows, y, { tickFormat, by = null, top = 0 }) {
  if (rows.length === 0) return null;
  const names = by ? [...new Set(rows.map((row) => row[by]))].sort() : [];
  const isSeveral = names.length > 1;
  const color = isSeveral ? by : "var(--series-0)";
  return {
    name, title, caption, rows, words: `${title} over ${rows.length} points`, legend: isSeveral ? legendOf(names) : [],
    panels: [{ title: "", options: () => ({
      height: 200, marginBottom: 34, marginTop: 12, marginLeft: 64,
      x: { ...AXIS, label: "seconds into the trial", labelAnchor: "center", ticks: 6 },
      y: { ...AXIS, label: null, grid: true, ticks: 4, tickFormat, domain: [0, Math.max(top, 1.1 * Math.max(...rows.map((row) => row[y] ?? 0))) || 1] },
      ...(isSeveral ? { color: colorScale(names) } : {}),
      marks: [
        Plot.line(rows, { x: "second", y, stroke: color, ...(isSeveral ? { z: by } : {}), strokeWidth: 1.8, clip: true }),
        Plot.dot(rows.length < 40 ? rows : rows.slice(-1), { x: "second", y, r: 2.2, fill: color }),
      ],
    }) }],
  };
}

function draw() {
  if (!found) return;
  const trial = found.trial;
  const state = document.getElementById("state");
  state.textContent = found.state;
  state.className = `badge ${found.state === "finished" ? "good" : "bound"}`;
  const problem = document.getElementById("problem");
  problem.hidden = !found.problem;
  problem.textContent = found.problem ?? "";
  if (found.planned !== undefined) tile("done", `${found.done}`, `of ${found.planned} planned`);
  const what = document.getElementById("what");
  if (trial) what.textContent = trial.what;
  else what.textContent = found.state === "running" ? "Between two trials." : "The run has ended: open its report.";
  // Between trials, and after the last, what was drawn stays.
  if (trial) drawTrial(trial);
  drawFinished(found.finished ?? []);
}

function drawTrial(trial) {
  // The last second that has come is whole: it is written when it has ended.
  const last = trial.seconds.at(-1);
  tile("rate", last ? rate(last.requests) : "–", last ? byteRate(last.bytes) : "connecting …");
  tile("p50", duration(last?.p50_ns), `${trial.times} time, last second`);
  tile("p99", duration(last?.p99_ns), `${trial.times} time, last second`);
  const kinds = Object.entries(trial.kinds).map(([kind, count]) => `${kind} ${number(count, 4)}`).join(", ");
  tile("failed", trial.failed.toLocaleString("en-US"), kinds || `of ${(trial.requests + trial.failed).toLocaleString("en-US")}`, trial.failed > 0);
  const shares = Object.entries(trial.cpu).filter(([, one]) => one.length);
  const busiest = shares.map(([host, one]) => [host, one.at(-1)[1]]).sort((a, b) => b[1] - a[1])[0];
  tile("cpu", busiest ? `${Math.round(100 * busiest[1])} %` : "–", busiest && shares.length > 1 ? `busiest: ${busiest[0]}` : "all programs on it");
  const isSeveral = trial.agents.length > 1;
  const rates = isSeveral
    ? trial.seconds.flatMap((one) => trial.agents.map((agent) => ({ second: one.second, agent, requests: one.agents[agent] ?? 0 })))
    : trial.seconds;
  const times = trial.seconds.flatMap((one) => (one.p50_ns === null ? [] : [{ second: one.second, which: "p50", value: one.p50_ns }, { second: one.second, which: "p99", value: one.p99_ns }]));
  const cpu = shares.flatMap(([host, one]) => one.map(([second, share]) => ({ second, host, share: Math.min(1, share) })));
  place(charts, [
    lastSeconds("live-rate", "Good requests per second", "By load host where there are several.", rates, "requests", { tickFormat: shortRate, by: isSeveral ? "agent" : null }),
    lastSeconds("live-latency", "Latency of each second", "p50 and p99 of good requests.", times, "value", { tickFormat: axisDuration, by: "which" }),
    lastSeconds("live-failed", "Failed requests per second", "All kinds of failure.", trial.failed > 0 ? trial.seconds : [], "failed", { tickFormat: shortRate }),
    lastSeconds("live-cpu", "CPU of the client host", "All programs on the cores that the load may use; what the load itself took stands in the report.", cpu, "share", { tickFormat: (value) => `${Math.round(100 * value)} %`, by: "host", top: 1 }),
  ]);
}

function drawFinished(rows) {
  const cell = (text, side = "") => { const one = document.createElement("td"); one.textContent = text; one.className = side; return one; };
  document.getElementById("finished").replaceChildren(...rows.map((one) => {
    const row = document.createElement("tr");
    row.append(cell(one.what), cell(one.rate ? rate(one.rate) : "–", "right"), cell((one.requests ?? 0).toLocaleString("en-US"), "right"), cell((one.failed ?? 0).toLocaleString("en-US"), "right"), cell(one.problem ?? one.state));
    return row;
  }));
}

async function follow() {
  try {
    const answer = await fetch(`${data.id}.json`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    found = await answer.json();
  } catch (error) {
    found = { ...(found ?? { state: "unknown" }), problem: `No answer from loadstone view: ${error.message}. It may have been ended.` };
  }
  draw();
  document.documentElement.dataset.asked = String(Number(document.documentElement.dataset.asked ?? 0) + 1);
  if (found.state === "running" || found.problem) setTimeout(follow, EVERY_MS);
}

openPage(draw);
follow();
