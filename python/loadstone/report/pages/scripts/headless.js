// The charts of a page without a page: each as a file, drawn where there is no browser.

import { fileOf } from "./charts.js";
import { SECTIONS } from "./sections.js";
import { chooseTimes, timeChoices } from "./times.js";

export function allCharts() {
  const first = Object.values(SECTIONS).flatMap((charts) => charts()).filter(Boolean);
  const names = new Set(first.map((chart) => chart.name));
  // A page has a choice of trials over time; files have one of each.
  const rest = timeChoices().slice(1).flatMap((choice, at) => {
    if (timeChoices()[0].value === -1) return [];
    chooseTimes(choice.value);
    const ofTime = SECTIONS["over-time"]().filter((chart) => chart && chart.name.endsWith("-over-time"));
    return ofTime.map((chart) => ({ ...chart, name: `${chart.name}-${at + 2}`, title: `${chart.title}: ${choice.words}` }));
  });
  return [...first, ...rest.filter((chart) => !names.has(chart.name))];
}

export function pictures(width, theme) {
  return JSON.stringify(allCharts().map((chart) => ({ name: chart.name, title: chart.title, caption: chart.caption, svg: fileOf(chart, width, (name) => theme[name]) })));
}
