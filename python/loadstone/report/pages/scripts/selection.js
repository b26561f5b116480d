// What is shown: the data of the page, and the filters that act on all of it.

import { parameterWords } from "./words.js";

export const data = JSON.parse(document.getElementById("data").textContent);

// Of scripts the charts show actions, and requests are no choice: they stand whichever action is chosen.
const operations = new Set((data.results ?? []).map((one) => one.operation));
const chosen = { target: "", operation: "", size: "", round: "" };
const listeners = [];

export function whenSelected(draw) { listeners.push(draw); }

export function isShown(facts) {
  const size = facts.size_words ?? facts.size ?? "";
  return (!chosen.target || facts.target === chosen.target)
    && (!chosen.operation || facts.operation === chosen.operation || !operations.has(facts.operation))
    && (!chosen.size || size === chosen.size);
}

export function results() {
  const all = chosen.round ? data.rounds.filter((one) => String(one.round) === chosen.round) : data.results;
  return all.filter(isShown);
}

export function chosenRound() { return chosen.round; }

export function trialsShown() { return new Set(results().flatMap((one) => one.trials)); }

export function makeFilters(form) {
  const values = {
    target: unique(data.results.map((one) => one.target)),
    operation: unique(data.results.map((one) => one.operation)),
    size: unique(sortedBy(data.results, (one) => one.size ?? 0).map((one) => one.size_words).filter(Boolean)),
    round: unique(data.rounds.map((one) => String(one.round))),
  };
  for (const [name, own] of Object.entries(values)) {
    if (own.length < 2) continue;
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...own.map((value) => new Option(value, value)));
    select.addEventListener("change", () => { chosen[name] = select.value; for (const draw of listeners) draw(); });
    const label = document.createElement("label");
    const shown = name === "operation" && data.counted === "action" ? "action" : name;
    label.append(`${shown[0].toUpperCase()}${shown.slice(1)} `, select);
    form.append(label);
  }
  form.addEventListener("submit", (event) => event.preventDefault());
}

export function namesOf(shown, { without = null, sizes = true } = {}) {
  // What tells each result from the others shown: its target, its size, and parameters that vary.
  const keys = unique(shown.flatMap((one) => Object.keys(one.parameters))).filter((name) => name !== without)
    .filter((name) => unique(shown.map((one) => String(one.parameters[name]))).length > 1);
  const severalTargets = unique(shown.map((one) => one.target)).length > 1;
  const severalSizes = sizes && unique(shown.map((one) => one.size)).length > 1;
  return shown.map((one) => [
    ...(severalTargets ? [one.target] : []),
    ...(severalSizes ? [one.size_words] : []),
    ...keys.filter((name) => one.parameters[name] !== undefined).map((name) => parameterWords(name, one.parameters[name])),
  ].filter(Boolean).join(", ") || one.target);
}

export function unique(values) { return [...new Set(values)]; }

export function sortedBy(values, key) { return [...values].sort((a, b) => key(a) - key(b)); }
