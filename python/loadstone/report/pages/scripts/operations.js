// Each operation over clients × load, a line for each size, on a logarithmic axis. Operations differ by orders
// of magnitude, and so do sizes. Loads are categories here, one group after another, and no line runs from
// group to group: nothing was measured between them.

import { AXIS, LOG_AXIS, COLOURS, colorScale, colors, legendOf, standingMarks, standingOf, tip } from "./charts.js";
import { findRoom, pointBox } from "./lettering.js";
import { ringWords, spreadWords, tipOf } from "./overview.js";
import { data, sortedBy, unique } from "./selection.js";
import { axisDuration, logTicks, parameterName, parameterWords, shortRate } from "./words.js";

const CATEGORIES_MAX = 30;
const CATEGORIES_OF_HALF = 9;
const VARIANTS = [{ dash: "", symbol: "circle" }, { dash: "5 3", symbol: "square" }, { dash: "2 2", symbol: "diamond" }];
const CLIENTS = ["client", "hosts"]; // what makes the loads: the first of the groups along the axis
const LOADS_OF_CLIENT = ["threads", "clients", "rate_per_s", "rate"];
const QUANTILES = { p50: "The median (p50)", p90: "The slowest tenth (p90)", p95: "The slowest twentieth (p95)", p99: "The slowest hundredth (p99)" };

function facts(point) {
  return { workload: point.workload, operation: point.operation, target: point.target, round: point.round, size: point.size_words, ...point.parameters };
}

function factWords(name, value) { return ["workload", "operation", "target", "size"].includes(name) ? value ?? "" : parameterWords(name, value); }

// What each difference between results becomes: a panel, a dash, a group, or the load.
function arrangementOf(points) {
  const found = points.map(facts);
  const count = (name) => unique(found.map((fact) => fact[name])).length;
  const rest = unique(found.flatMap(Object.keys)).filter((name) => count(name) > 1 && !["size", "workload", "operation", data.load].includes(name));
  const isWord = (name) => found.some((fact) => typeof fact[name] === "string");
  // Clients are the places along the axis: each has loads of its own.
  const dash = [...rest.filter((name) => isWord(name) && name !== "target"), "target"]
    .find((name) => rest.includes(name) && name !== "client" && count(name) <= VARIANTS.length) ?? null;
  const group = sortedBy(rest.filter((name) => name !== dash), (name) => (CLIENTS.includes(name) ? 0 : 1));
  const panel = [...(count("workload") > 1 ? ["workload"] : []), "operation"];
  while (group.length && count(data.load) * group.reduce((product, name) => product * count(name), 1) > CATEGORIES_MAX) {
    const moved = group.find((name) => !CLIENTS.includes(name)) ?? group[0];
    group.splice(group.indexOf(moved), 1);
    panel.push(moved);
  }
  return { dash, group, panel };
}

export function operationCharts(points, client = data.client) {
  const { dash, group, panel } = arrangementOf(points);
  const rows = points.map((point) => {
    const fact = facts(point);
    const named = group.map((name) => factWords(name, fact[name])).join(", ");
    return { ...point, panel: panel.map((name) => factWords(name, fact[name])).filter(Boolean).join(", "), series: point.size_words ?? "all sizes",
      variant: dash ? factWords(dash, fact[dash]) : "", group: named, x: `${fact[data.load]}|${named}` };
  });
  const orderOf = (name) => (value) => (typeof value === "number" ? value : unique(points.map((point) => facts(point)[name])).indexOf(value));
  const keys = [...group, data.load];
  const inOrder = [...rows].sort((a, b) => keys.map((name) => orderOf(name)(facts(a)[name]) - orderOf(name)(facts(b)[name])).find(Boolean) ?? 0);
  const isOfOneClient = LOADS_OF_CLIENT.includes(data.load) && !group.some((name) => CLIENTS.includes(name));
  const axis = [...(isOfOneClient ? ["client"] : []), ...group, data.load].map(parameterName).join(" × ");
  const shared = {
    categories: unique(inOrder.map((row) => row.x)), series: unique(sortedBy(rows, (row) => row.size ?? Infinity).map((row) => row.series)),
    label: `${parameterName(data.load)}${isOfOneClient && client ? ` on ${client}` : ""}${group.length ? `; below: ${group.map(parameterName).join(", ")}` : ""}`,
  };
  const quantile = Object.keys(QUANTILES).reverse().find((name) => rows.filter((row) => row[name]).length >= 0.9 * rows.length)
    ?? (rows.some((row) => row.p50) ? "p50" : null);
  return [
    categoryChart({ ...shared, name: "throughput", title: `Throughput of each ${data.counted === "action" ? "action" : "operation"}: ${axis}`, key: "rate", tickFormat: shortRate,
      rows: rows.map((row) => ({ ...row, value: row.rate })),
      caption: `Good ${data.counted}s per second on one logarithmic axis: a step of the same height is the same factor. Numbers stand where there is room for them. ${spreadWords(points)}${ringWords(points)}` }),
    quantile === null ? null : categoryChart({ ...shared, name: "latency", title: `Latency of each ${data.counted === "action" ? "action" : "operation"} (${quantile}): ${axis}`, key: quantile, tickFormat: axisDuration,
      rows: rows.filter((row) => row[quantile]).map((row) => ({ ...row, low: null, high: null, value: row[quantile] })),
      caption: `${QUANTILES[quantile]}, logarithmic; lower is better. It is the highest percentile that most results have requests enough for; the others have no point.` }),
  ];
}

// Lines over categories on a logarithmic axis, a number at each point where there is room for it.
export function categoryChart({ name, title, caption, rows, categories, series, label, tickFormat }) {
  if (!rows.length) return null;
  const names = series ?? unique(rows.map((row) => row.series));
  const variants = unique(rows.map((row) => row.variant));
  const [low, high] = [Math.min(...rows.map((row) => row.value)), Math.max(...rows.map((row) => row.value))];
  const room = Math.max((high / low) ** 0.1, 1.25);
  const domain = [low / room, high * room];
  const panels = unique(rows.map((row) => row.panel ?? ""));
  const style = (variant) => VARIANTS[variants.indexOf(variant) % VARIANTS.length];
  const drawn = colors(names);
  return {
    name, title, caption, rows, isWide: categories.length > CATEGORIES_OF_HALF, words: `${title}, ${rows.length} points`,
    legend: [
      ...legendOf(names, standingOf(rows)).map((item) => (names.includes(item.label) ? { ...item, color: drawn[names.indexOf(item.label) % COLOURS] } : item)),
      ...(variants.length > 1 ? variants.map((variant) => ({ label: variant, ...style(variant) })) : []),
    ],
    panels: panels.map((panel) => ({
      title: panels.length > 1 ? panel : "",
      options: (width) => {
        const own = rows.filter((row) => (row.panel ?? "") === panel);
        const height = panels.length > 1 ? 250 : 430;
        const groups = categories.map((category) => category.split("|")[1] ?? "");
        const isAslant = categories.some((category) => category.split("|")[0].length * 7 > (width - 80) / categories.length);
        const margins = { marginLeft: 60, marginRight: 20, marginTop: 20, marginBottom: isAslant ? 96 : unique(groups).some(Boolean) ? 58 : 42 };
        const frame = { left: margins.marginLeft - 20, right: width, top: margins.marginTop, bottom: height - margins.marginBottom };
        const xScale = Plot.scale({ x: { type: "point", domain: categories, range: [margins.marginLeft, width - margins.marginRight], padding: 0.5 } });
        const yScale = Plot.scale({ y: { type: "log", domain, range: [frame.bottom, frame.top] } });
        const at = (row) => [xScale.apply(row.x), yScale.apply(row.value)];
        const taken = own.map((row) => pointBox(at(row)));
        const numbers = own.flatMap((row) => {
          const found = findRoom(tickFormat(row.value), at(row), [[0, -12], [0, 13]], taken, frame);
          return found ? [{ ...row, side: found[1] < at(row)[1] ? -12 : 13 }] : [];
        });
        const place = { x: "x", y: "value" };
        // The name of a group stands below its middle load.
        const middle = new Set(unique(groups).map((group) => { const all = categories.filter((_, index) => groups[index] === group); return all[(all.length - 1) >> 1]; }));
        return {
          ...margins, height, color: colorScale(names),
          x: { ...AXIS, type: "point", domain: categories, label, labelAnchor: "center", labelOffset: margins.marginBottom - 6, tickRotate: isAslant ? -30 : 0,
            tickFormat: (category) => { const [load, group] = category.split("|"); return group && middle.has(category) ? `${load}\n${group}` : load; } },
          y: { ...LOG_AXIS, domain, label: null, tickFormat, grid: true, ticks: logTicks(domain) },
          marks: [
            Plot.ruleX(own.filter((row) => row.low), { x: "x", y1: "low", y2: "high", stroke: "series", strokeWidth: 1.5, strokeOpacity: 0.5 }),
            ...variants.flatMap((variant) => {
              const line = own.filter((row) => row.variant === variant);
              const { dash, symbol } = style(variant);
              return [
                Plot.line(sortedBy(line.filter((row) => !row.is_void), (row) => categories.indexOf(row.x)), { ...place, z: (row) => `${row.series}|${row.group ?? ""}`, stroke: "series", strokeWidth: 1.8, strokeDasharray: dash || undefined }),
                Plot.dot(line, { ...place, symbol, fill: "series", r: 3.5, fillOpacity: (row) => (row.is_void ? 0.25 : 1) }),
              ];
            }),
            ...standingMarks(own, place),
            ...[-12, 13].map((side) => Plot.text(numbers.filter((row) => row.side === side), { ...place, text: (row) => tickFormat(row.value), dy: side, fontSize: 10.5, fill: "series" })),
            tip(own, { ...place, title: (row) => (row.target ? tipOf(row) : `${row.series}, ${row.variant}\n${row.x}: ${tickFormat(row.value)}`) }),
          ],
        };
      },
    })),
  };
}

// The charts that a published layout has of its own, each followed by what was completed by wall time.
export function layoutCharts() {
  return (data.layout ?? []).flatMap((chart) => {
    const isVaried = unique(chart.results.map((result) => result.parameters[data.load])).length > 1;
    const better = isVaried ? operationCharts(chart.results, chart.client) : [];
    return [
      categoryChart({ ...chart, tickFormat: shortRate }),
      ...better.filter(Boolean).map((one, at) => ({ ...one, name: `${chart.name}-${at ? "latency" : "completed"}`, title: `${chart.title}: ${one.title[0].toLowerCase()}${one.title.slice(1)}` })),
    ];
  });
}
