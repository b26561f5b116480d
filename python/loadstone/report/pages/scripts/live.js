// A run while it goes on: asked for once a second, drawn as it comes.

import { AXIS, LOG_AXIS, colorScale, legendOf, place } from "./charts.js";
import { openPage } from "./frame.js";
import { data } from "./selection.js";
import { axisDuration, byteRate, duration, logTicks, number, rate, shortRate } from "./words.js";

const EVERY_MS = 1000;
const charts = document.querySelector("[data-charts=live]");
let found = null;

function tile(name, value, note, isBad = false) {
  const place = document.getElementById(`tile-${name}`);
  place.querySelector("strong").textContent = value;
  place.querySelector(".note").textContent = note;
  place.classList.toggle("bad", isBad);
}

// Steps of an axis that grows seldom: it stays while the line goes on.
const STEP_S = 60;
const SHOWN_S = 300;

function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most);
}

function lastSeconds(name, title, caption, rows, y, { tickFormat, by = null, top = 0, isLog = false }) {
  if (rows.length === 0) return null;
  const names = by ? [...new Set(rows.map((row) => row[by]))].sort() : [];
  const isSeveral = names.length > 1;
  const color = isSeveral ? by : "var(--series-0)";
  const last = rows.at(-1).at;
  const end = Math.ceil((last + 1) / STEP_S) * STEP_S;
  const values = rows.map((row) => row[y] ?? 0);
  const scale = isLog ? { ...LOG_AXIS, ticks: logTicks(values) } : { ...AXIS, ticks: 4, domain: [0, top || niceTop(Math.max(...values))] };
  const begins = found.course.begins.filter((at) => at > 0).map((at) => ({ at }));
  return {
    name, title, caption, rows, words: `${title} over ${rows.length} points`, legend: isSeveral ? legendOf(names) : [],
    panels: [{ title: "", options: () => ({
      height: 200, marginBottom: 34, marginTop: 12, marginLeft: 64,
      x: { ...AXIS, label: "seconds under load", labelAnchor: "center", ticks: 6, domain: [Math.max(0, end - SHOWN_S), end] },
      y: { ...scale, label: null, grid: true, tickFormat },
      ...(isSeveral ? { color: colorScale(names) } : {}),
      marks: [
        Plot.ruleX(begins, { x: "at", stroke: "var(--line)", strokeDasharray: "2,3", clip: true }),
        Plot.line(rows, { x: "at", y, stroke: color, ...(isSeveral ? { z: by } : {}), strokeWidth: 1.8, clip: true }),
        Plot.dot(rows.length < 40 ? rows : rows.slice(-1), { x: "at", y, r: 2.2, fill: color }),
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
  const what = document.getElementById("what");
  if (trial) what.textContent = trial.what;
  else what.textContent = found.state === "running" ? "Between two trials." : "The run has ended: its report judges it.";
  const finished = found.finished ?? [];
  if (found.planned !== undefined) drawProgress(trial);
  if (trial) drawTiles(trial);
  else drawLast(finished.find((one) => one.rate));
  // Between trials, and after the last, what was drawn stays.
  if (found.course) drawCourse(found.course);
  drawFinished(finished);
}

function drawProgress(trial) {
  const isOver = found.state !== "running";
  const share = found.planned ? (found.done + (isOver ? 0 : trial?.done_share ?? 0)) / found.planned : 0;
  tile("done", `${found.done}`, `of ${found.planned} planned`);
  document.getElementById("progress").value = Math.min(1, share);
  const left = isOver || found.left_ns === null ? "" : `About ${duration(found.left_ns)} of load left.`;
  document.getElementById("left").textContent = `${Math.round(100 * Math.min(1, share))} % of the trials. ${left}`;
}

function drawLast(one) {
  if (!one) return;
  tile("rate", one.rate ? rate(one.rate) : "–", "the last trial as a whole");
  tile("failed", (one.failed ?? 0).toLocaleString("en-US"), "in the last trial", one.failed > 0);
}

function drawTiles(trial) {
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
}

function drawCourse({ seconds, cpu }) {
  const agents = [...new Set(seconds.flatMap((one) => Object.keys(one.agents)))].sort();
  const isSeveral = agents.length > 1;
  const rates = isSeveral
    ? seconds.flatMap((one) => agents.map((agent) => ({ at: one.at, agent, requests: one.agents[agent] ?? 0 })))
    : seconds;
  const times = seconds.flatMap((one) => (one.p50_ns === null ? [] : [{ at: one.at, which: "p50", value: one.p50_ns }, { at: one.at, which: "p99", value: one.p99_ns }]));
  const shares = cpu.map(([at, host, share]) => ({ at, host, share: Math.min(1, share) }));
  const isFailing = seconds.some((one) => one.failed > 0);
  place(charts, [
    lastSeconds("live-rate", "Good requests per second", "All trials, one behind the other; a dashed line where one begins.", rates, "requests", { tickFormat: shortRate, by: isSeveral ? "agent" : null }),
    lastSeconds("live-latency", "Latency of each second", "p50 and p99 of good requests; logarithmic.", times, "value", { tickFormat: axisDuration, by: "which", isLog: true }),
    lastSeconds("live-failed", "Failed requests per second", "All kinds of failure.", isFailing ? seconds : [], "failed", { tickFormat: shortRate }),
    lastSeconds("live-cpu", "CPU of the client host", "All programs on the cores that the load may use; what the load itself took stands in the report.", shares, "share", { tickFormat: (value) => `${Math.round(100 * value)} %`, by: "host", top: 1 }),
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
