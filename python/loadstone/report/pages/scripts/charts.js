// A chart in its place: width, legend, words for those who do not see it, and its download.

import { data, unique } from "./selection.js";

export const AXIS = { labelArrow: "none", tickSize: 4 };

const targets = unique(data.targets ?? []);
const targetColors = new Map(targets.map((target, place) => [target, `var(--series-${place % 8})`]));

export function colors(names) {
  // A target keeps its colour wherever it is shown.
  const areTargets = names.every((name) => targetColors.has(name));
  return names.map((name, place) => (areTargets ? targetColors.get(name) : `var(--series-${place % 8})`));
}

export function colorScale(names) {
  return { type: "ordinal", domain: names, range: colors(names) };
}

export function put(name, words, options, legend = []) {
  const figure = document.getElementById(name);
  const place = figure.querySelector("[data-chart]");
  figure.hidden = options === null;
  if (options === null) return null;
  const width = Math.max(240, Math.floor(place.clientWidth || figure.clientWidth || 640));
  const drawn = Plot.plot({ width, marginLeft: 60, style: { fontSize: "12px", overflow: "visible" }, ...options });
  const svg = drawn instanceof SVGElement ? drawn : drawn.querySelector("svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", words);
  // One picture with one name: its groups need none.
  for (const part of svg.querySelectorAll("[aria-label], [aria-description]")) {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-description");
  }
  place.replaceChildren(drawn);
  const places = legend.map(([label, color, kind]) => {
    const item = document.createElement("span");
    const mark = document.createElement("i");
    if (kind) mark.className = kind; else mark.style.background = color;
    item.append(mark, label);
    return item;
  });
  figure.querySelector("[data-legend]").replaceChildren(...places);
  return svg;
}

export function legendOf(names, { bounds = false, rings = false } = {}) {
  const drawn = colors(names);
  return [
    ...(names.length > 1 || bounds || rings ? names.map((name, place) => [name, drawn[place]]) : []),
    ...(bounds ? [["at least: the client was the limit", "", "hatched"]] : []),
    ...(rings ? [["the client was the limit", "", "ringed"]] : []),
  ];
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function saveChart(name) {
  const svg = document.querySelector(`#${CSS.escape(name)} [data-chart] svg`);
  if (!svg) return;
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const hatch = document.getElementById("hatch");
  const defs = document.createElementNS("http://www.w3.org/2000/svg", "defs");
  if (hatch) defs.append(hatch.cloneNode(true));
  copy.prepend(defs);
  const root = getComputedStyle(document.documentElement);
  copy.setAttribute("style", `background: ${root.getPropertyValue("--page")}; color: ${root.getPropertyValue("--text")}; font: 12px sans-serif`);
  // A file of its own knows no variables of the page.
  const text = new XMLSerializer().serializeToString(copy)
    .replace(/var\((--[\w-]+)\)/g, (_, variable) => root.getPropertyValue(variable).trim() || "#888");
  save(`${name}.svg`, "image/svg+xml", text);
}
