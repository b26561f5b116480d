// What every page does: opens, is resized, printed, asked for another theme or for a chart.

import { saveChart } from "./charts.js";

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function sayTheme() {
  // It says what it does, not what is.
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
}

export function openPage(draw) {
  draw();
  sayTheme();
  let width = document.documentElement.clientWidth;
  let later = 0;
  addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    clearTimeout(later);
    later = setTimeout(draw, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sayTheme);
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    sayTheme();
  });
  document.getElementById("print").addEventListener("click", () => print());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-download]");
    if (button) saveChart(button.dataset.download);
  });
  addEventListener("hashchange", openTarget);
  openTarget();
  document.documentElement.dataset.drawn = "yes";
}

function openTarget() {
  const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
}
