// The page of a comparison: every case's ratio with its interval, on one logarithmic axis.

import { AXIS, legendOf, put } from "./charts.js";
import { openPage } from "./frame.js";
import { data, unique } from "./selection.js";
import { makeTable } from "./tables.js";

const CASES_DRAWN = 80;
const KINDS = { better: "var(--good)", worse: "var(--bad)", same: "var(--link)", open: "var(--quiet)" };
const KIND_WORDS = { better: "faster", worse: "slower", same: "equal", open: "not decided" };

function ticksWithin(edge) {
  if (edge > 2.6) return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].filter((tick) => tick > 1 / edge && tick < edge);
  const least = edge > 1.25 ? [0.4, 0.5, 0.6, 0.7, 0.8, 0.9] : [0.8, 0.85, 0.9, 0.94, 0.96, 0.98];
  const most = edge > 1.25 ? [1.1, 1.25, 1.5, 1.75, 2, 2.5] : [1.02, 1.04, 1.06, 1.1, 1.15, 1.2];
  return [...least, 1, ...most].filter((tick) => tick > 1 / edge && tick < edge);
}

function drawRatios() {
  const shown = data.cases.slice(0, CASES_DRAWN);
  if (!shown.length) { put("ratios", "", null); return; }
  const several = data.pairs.length > 1;
  const rows = shown.map((one) => ({ ...one, arms: `${data.pairs[one.pair].b} ÷ ${data.pairs[one.pair].a}` }));
  const cases = unique(rows.map((one) => one.name));
  const far = (value) => (value > 0 ? Math.abs(Math.log(value)) : 0);
  const reach = Math.max(0.05, ...rows.map((one) => far(one.ratio)));
  // An interval of few trials may be wider than any chart: it is cut off then, and ends in an arrow.
  const widest = Math.max(...rows.flatMap((one) => [far(one.low), far(one.high)]));
  const edge = Math.exp(Math.max(1.6 * reach, 1.1 * Math.min(widest, Math.log(4))));
  const cut = (value) => Math.min(edge, Math.max(1 / edge, value));
  const place = { y: "name", ...(several ? { fy: "arms" } : {}) };
  const longest = Math.max(...cases.map((name) => name.length));
  const isNarrow = innerWidth < 600;
  put("ratios", `Ratios of ${rows.length} cases`, {
    height: 70 + rows.length * 24, marginLeft: isNarrow ? 12 : Math.min(420, 20 + 6.6 * longest), marginRight: several ? 130 : 24, marginBottom: 40, marginTop: 12,
    x: { ...AXIS, type: "log", domain: [1 / edge, edge], label: "B ÷ A (logarithmic)", labelAnchor: "center", grid: true, ticks: ticksWithin(edge), tickFormat: (value) => `${+value.toPrecision(3)}×` },
    y: { ...AXIS, label: null, domain: cases, tickSize: 0, ...(isNarrow ? { ticks: [] } : {}) },
    fy: { label: null, domain: unique(rows.map((one) => one.arms)) },
    color: { type: "ordinal", domain: Object.keys(KINDS), range: Object.values(KINDS) },
    marks: [
      Plot.rect([0], { x1: 1 / (1 + data.margin), x2: 1 + data.margin, fill: "var(--link)", fillOpacity: 0.12 }),
      Plot.ruleX([1], { stroke: "currentColor" }),
      Plot.ruleY(rows.filter((one) => one.low !== null), { ...place, x1: (one) => cut(one.low), x2: (one) => cut(one.high), stroke: "kind", strokeWidth: 2.5 }),
      Plot.text(rows.filter((one) => one.low !== null && one.low < 1 / edge), { ...place, x: 1 / edge, text: () => "◂", dx: -3, fill: "kind" }),
      Plot.text(rows.filter((one) => one.high > edge), { ...place, x: edge, text: () => "▸", dx: 3, fill: "kind" }),
      Plot.dot(rows, { ...place, x: "ratio", r: 4.5, stroke: "kind", strokeWidth: 2, fill: (one) => (one.low === null ? "var(--page)" : KINDS[one.kind]) }),
      ...(isNarrow ? [Plot.text(rows, { ...place, text: "name", frameAnchor: "left", dx: 2, dy: -9, fill: "currentColor", fontSize: 10 })] : []),
      Plot.tip(rows, Plot.pointerY({ ...place, x: "ratio", lineWidth: 40, lineHeight: 1.25, title: (one) => `${one.name}\n${one.a} and ${one.b}\n${one.words}` })),
    ],
  }, unique(rows.map((one) => one.kind)).map((kind) => [KIND_WORDS[kind], KINDS[kind]]).concat(legendOf([])));
}

makeTable();
openPage(drawRatios);
