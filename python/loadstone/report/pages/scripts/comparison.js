// Every case's ratio with its interval, on one logarithmic axis.

import { AXIS, LOG_AXIS, isNarrow, tip } from "./charts.js";
import { data, unique } from "./selection.js";

const CASES_DRAWN = 80;
const KINDS = { better: "var(--good)", worse: "var(--bad)", same: "var(--link)", open: "var(--quiet)" };
const KIND_WORDS = { better: "faster", worse: "slower", same: "equal", open: "not decided" };

function ticksWithin(edge) {
  if (edge > 2.6) return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].filter((tick) => tick > 1 / edge && tick < edge);
  const least = edge > 1.25 ? [0.4, 0.5, 0.6, 0.7, 0.8, 0.9] : [0.8, 0.85, 0.9, 0.94, 0.96, 0.98];
  const most = edge > 1.25 ? [1.1, 1.25, 1.5, 1.75, 2, 2.5] : [1.02, 1.04, 1.06, 1.1, 1.15, 1.2];
  return [...least, 1, ...most].filter((tick) => tick > 1 / edge && tick < edge);
}

export function ratios() {
  const shown = (data.cases ?? []).slice(0, CASES_DRAWN);
  if (!shown.length) return null;
  const far = (value) => (value > 0 ? Math.abs(Math.log(value)) : 0);
  const reach = Math.max(0.05, ...shown.map((row) => far(row.ratio)));
  // An interval of few trials may be wider than any chart: it is cut off then, and ends in an arrow.
  const widest = Math.max(...shown.flatMap((row) => [far(row.low), far(row.high)]));
  const edge = Math.exp(Math.max(1.6 * reach, 1.1 * Math.min(widest, Math.log(4))));
  const cut = (value) => Math.min(edge, Math.max(1 / edge, value));
  const left = data.cases.length - shown.length;
  return {
    name: "ratios", title: data.ratio_title ?? "Ratios", rows: shown,
    caption: `Each line is the 95 % interval of one case's ratio, B over A; logarithmic. The band is the margin within which two are called equal. Cases without a ratio are not drawn.${left ? ` ${left} more cases are in the table.` : ""}`,
    words: `Ratios of ${shown.length} cases`,
    legend: unique(shown.map((row) => row.kind)).map((kind) => ({ label: KIND_WORDS[kind], color: KINDS[kind] })),
    panels: unique(shown.map((row) => row.pair)).map((pair) => ({
      title: `${data.pairs[pair].b} ÷ ${data.pairs[pair].a}${data.pairs[pair].together ? `: ${data.pairs[pair].together}` : ""}`,
      options: (width) => {
        const rows = shown.filter((row) => row.pair === pair);
        const longest = Math.max(...rows.map((row) => row.name.length));
        const narrow = isNarrow(width);
        // On a phone each name has a line above its interval, so that none lies over it.
        const place = { y: "name" };
        return {
          height: 70 + rows.length * (narrow ? 34 : 24), marginLeft: narrow ? 12 : Math.min(0.45 * width, 20 + 6.6 * longest), marginRight: 28, marginBottom: 40, marginTop: 12,
          x: { ...LOG_AXIS, domain: [1 / edge, edge], label: "ratio", labelAnchor: "center", grid: true, ticks: ticksWithin(edge), tickFormat: (value) => `${+value.toPrecision(3)}×` },
          y: { ...AXIS, type: "point", label: null, domain: rows.map((row) => row.name), tickSize: 0, padding: 0.7, ...(narrow ? { ticks: [] } : {}) },
          color: { type: "ordinal", domain: Object.keys(KINDS), range: Object.values(KINDS) },
          marks: [
            Plot.rect([0], { x1: 1 / (1 + data.margin), x2: 1 + data.margin, fill: "var(--link)", fillOpacity: 0.12 }),
            Plot.ruleX([1], { stroke: "currentColor" }),
            Plot.link(rows.filter((row) => row.low !== null), { y1: "name", y2: "name", x1: (row) => cut(row.low), x2: (row) => cut(row.high), stroke: "kind", strokeWidth: 2.5 }),
            Plot.text(rows.filter((row) => row.low !== null && row.low < 1 / edge), { ...place, x: 1 / edge, text: () => "◄", dx: -4, fill: "kind" }),
            Plot.text(rows.filter((row) => row.high > edge), { ...place, x: edge, text: () => "►", dx: 4, fill: "kind" }),
            Plot.dot(rows, { ...place, x: "ratio", r: 4.5, stroke: "kind", strokeWidth: 2, fill: (row) => (row.low === null ? "var(--page)" : KINDS[row.kind]) }),
            ...(narrow ? [Plot.text(rows, { ...place, text: "name", frameAnchor: "left", dx: 2, dy: -13, fill: "currentColor", stroke: "var(--page)", strokeWidth: 4, fontSize: 10 })] : []),
            tip(rows, { ...place, x: "ratio", title: (row) => `${row.name}\n${row.a} and ${row.b}\n${row.words}` }, Plot.pointerY),
          ],
        };
      },
    })),
  };
}
