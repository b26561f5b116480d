// A chart is a value: name, title, caption, words for those who do not see it, panels, legend and rows.
// It is drawn into a page, or into a file of its own, by the same functions.

import { CHARACTER } from "./lettering.js";
import { data, unique } from "./selection.js";

export const AXIS = { labelArrow: "none", tickSize: 4 };
// Of whole bases d3 labels a few marks of many; where the base is none, each mark that is asked for.
export const LOG_AXIS = { ...AXIS, type: "log", base: 10.5 };
export const COLOURS = 8;

const SVG = "http://www.w3.org/2000/svg";
const GAP = 20;
const targetColours = new Map(unique(data.targets ?? []).map((target, place) => [target, `var(--series-${place % COLOURS})`]));

export function colors(names) {
  // A target keeps its colour wherever it is shown.
  const areTargets = names.every((name) => targetColours.has(name));
  return names.map((name, place) => (areTargets ? targetColours.get(name) : `var(--series-${place % COLOURS})`));
}

export function colorScale(names) {
  return { type: "ordinal", domain: names, range: colors(names) };
}

export function legendOf(names, { bounds = false, rings = false, voids = false } = {}) {
  const drawn = colors(names);
  return [
    ...(names.length > 1 || bounds || rings || voids ? names.map((label, place) => ({ label, color: drawn[place] })) : []),
    ...(bounds ? [{ label: "at least: the client was the limit", kind: "hatched" }] : []),
    ...(rings ? [{ label: "at least: the client was the limit", kind: "ringed" }] : []),
    ...(voids ? [{ label: "void: must not be used", kind: "void" }] : []),
  ];
}

export function standingOf(points) {
  return { rings: points.some((point) => point.is_bound), voids: points.some((point) => point.is_void) };
}

export function standingMarks(points, place) {
  return [
    Plot.dot(points.filter((point) => point.is_bound), { ...place, r: 7.5, stroke: "var(--caution)", strokeWidth: 1.8 }),
    Plot.dot(points.filter((point) => point.is_void), { ...place, symbol: "times", r: 6, stroke: "var(--bad)", strokeWidth: 2 }),
  ];
}

export function tip(rows, options, pointer = Plot.pointer) {
  return Plot.tip(rows, pointer({ lineWidth: 40, lineHeight: 1.25, ...options }));
}

export function isNarrow(width) { return width < 460; }

function columnsOf(chart, width) { return chart.panels.length > 1 && !chart.isWide && width >= 880 ? 2 : 1; }

function drawPanel({ options }, width, words) {
  const drawn = Plot.plot({ width, marginLeft: 60, style: { fontSize: "12px", overflow: "visible" }, ...options(width) });
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", words);
  // One picture with one name: its groups need none. Tests and styles know them by their class.
  for (const part of drawn.querySelectorAll("[aria-label]")) {
    part.setAttribute("class", part.getAttribute("aria-label").replaceAll(" ", "-"));
    part.removeAttribute("aria-label");
  }
  for (const part of drawn.querySelectorAll("[aria-description]")) part.removeAttribute("aria-description");
  return drawn;
}

function element(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

const SHAPES = { circle: "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0", square: "M-3,-3H3V3H-3Z", diamond: "M0,-4.5L3.5,0L0,4.5L-3.5,0Z" };

function swatch({ color = "currentColor", kind, dash, symbol }, attributes) {
  const place = { width: 16, height: 12, viewBox: "0 0 16 12", "aria-hidden": "true", ...attributes };
  if (kind === "hatched") {
    return element("svg", place, element("rect", { width: 16, height: 12, fill: "var(--quiet)" }), element("rect", { width: 16, height: 12, fill: "url(#hatch)" }));
  }
  if (kind === "ringed") return element("svg", place, element("circle", { cx: 8, cy: 6, r: 5, fill: "none", stroke: "var(--caution)", "stroke-width": 1.8 }));
  if (kind === "void") return element("svg", place, element("path", { d: "M4,2L12,10M12,2L4,10", stroke: "var(--bad)", "stroke-width": 2 }));
  if (dash !== undefined || symbol) {
    return element("svg", place,
      ...(dash === undefined ? [] : [element("line", { x2: 16, y1: 6, y2: 6, stroke: color, "stroke-width": 2, "stroke-dasharray": dash || undefined })]),
      ...(symbol ? [element("path", { d: SHAPES[symbol], transform: "translate(8,6)", fill: color })] : []));
  }
  return element("svg", place, element("rect", { x: 1, width: 12, height: 12, rx: 2, fill: color }));
}

const placed = new Map();

export function place(container, charts) {
  const shown = charts.filter(Boolean);
  const figures = shown.map((chart) => document.getElementById(chart.name) ?? figureOf(chart, container.dataset.level ?? "3"));
  const isSame = figures.length === container.children.length && figures.every((figure, at) => figure === container.children[at]);
  // All stand in their places before one is drawn: how many there are decides how wide each is.
  if (!isSame) container.replaceChildren(...figures);
  for (const [at, chart] of shown.entries()) fill(figures[at], chart);
}

function figureOf(chart, level) {
  const figure = document.createElement("figure");
  figure.id = chart.name;
  figure.innerHTML = `<div class="figure-head"><h${level}></h${level}><button type="button" class="small">SVG</button></div>`
    + '<figcaption></figcaption><div class="legend" data-legend></div><div class="chart" data-chart></div>';
  figure.querySelector("button").dataset.download = chart.name;
  figure.querySelector("button").setAttribute("aria-label", `${chart.title} as SVG`);
  return figure;
}

function fill(figure, chart) {
  figure.querySelector("h2, h3").textContent = chart.title;
  figure.querySelector("figcaption").textContent = chart.caption;
  const area = figure.querySelector("[data-chart]");
  const width = Math.max(240, Math.floor(area.clientWidth || 640));
  const columns = columnsOf(chart, width);
  area.style.setProperty("--columns", columns);
  const own = Math.floor((width - GAP * (columns - 1)) / columns);
  area.replaceChildren(...chart.panels.map((panel) => {
    const cell = document.createElement("div");
    if (panel.title) {
      const title = document.createElement("p");
      title.className = "panel-title";
      title.textContent = panel.title;
      cell.append(title);
    }
    const drawn = drawPanel(panel, own, panel.title ? `${chart.words}: ${panel.title}` : chart.words);
    cell.append(drawn);
    chart.placed?.(drawn);
    return cell;
  }));
  figure.querySelector("[data-legend]").replaceChildren(...(chart.legend ?? []).map((item) => {
    const label = document.createElement("span");
    label.append(swatch(item, {}), item.label);
    return label;
  }));
  placed.set(chart.name, [chart, width]);
}

// A chart by itself, with its title, legend and caption.
export function fileOf(chart, width, theme) {
  const root = element("svg", { xmlns: SVG, width, role: "img", "aria-label": chart.words, fill: "currentColor", color: "var(--text)",
    "font-family": "Inter, system-ui, sans-serif", "font-size": 12 });
  const pattern = (id, width, stroke) => element("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, element("line", { y2: 6, stroke, "stroke-width": width }));
  root.append(element("defs", {}, pattern("hatch", 3.5, "var(--page)"), pattern("lines", 1.4, "var(--quiet)")));
  const back = root.appendChild(element("rect", { width: "100%", fill: "var(--page)" }));
  const margin = 16;
  const inner = width - 2 * margin;
  let y = 30;
  const write = (text, at, attributes) => root.append(element("text", { x: at, y, ...attributes }, text));
  write(chart.title, margin, { "font-size": 16, "font-weight": 600 });
  y += 22;
  let x = margin;
  for (const item of chart.legend ?? []) {
    const needed = 22 + CHARACTER * item.label.length + 14;
    if (x > margin && x + needed > width - margin) { x = margin; y += 19; }
    root.append(swatch(item, { x, y: y - 10 }));
    write(item.label, x + 22, {});
    x += needed;
  }
  if (chart.legend?.length) y += 16;
  const columns = columnsOf(chart, inner);
  const own = Math.floor((inner - GAP * (columns - 1)) / columns);
  for (let first = 0; first < chart.panels.length; first += columns) {
    let height = 0;
    const row = chart.panels.slice(first, first + columns);
    const titled = row.some((panel) => panel.title);
    for (const [column, panel] of row.entries()) {
      const left = margin + column * (own + GAP);
      if (panel.title) root.append(element("text", { x: left, y: y + 14, "font-weight": 600, "font-size": 13 }, panel.title));
      const drawn = drawPanel(panel, own, "");
      for (const name of ["role", "aria-label", "class", "font-family"]) drawn.removeAttribute(name);
      drawn.querySelector("style")?.remove();
      drawn.setAttribute("x", left);
      drawn.setAttribute("y", y + (titled ? 20 : 0));
      height = Math.max(height, Number(drawn.getAttribute("height")));
      root.append(drawn);
    }
    y += height + (titled ? 32 : 8);
  }
  for (const line of wrapped(chart.caption, inner / 5.9)) { y += 15; write(line, margin, { "font-size": 11, fill: "var(--quiet)" }); }
  back.setAttribute("height", y + 14);
  root.setAttribute("height", y + 14);
  root.setAttribute("viewBox", `0 0 ${width} ${y + 14}`);
  // A file of its own knows no variables of the page.
  return new XMLSerializer().serializeToString(root).replace(/var\((--[\w-]+)\)/g, (_, name) => theme(name) || "#888");
}

function wrapped(text, characters) {
  const lines = [];
  for (const word of (text ?? "").split(/\s+/).filter(Boolean)) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > characters) lines.push(word); else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function saveChart(name) {
  if (!placed.has(name)) return;
  const root = getComputedStyle(document.documentElement);
  const [chart, width] = placed.get(name);
  save(`${name}.svg`, "image/svg+xml", fileOf(chart, width + 32, (variable) => root.getPropertyValue(variable).trim()));
}
