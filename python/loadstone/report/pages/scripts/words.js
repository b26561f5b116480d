// Numbers as people read them: the same wordings as units.py.

export function number(value, digits = 3) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value === 0) return "0";
  // Rounded first: 9.996 has two decimals by its own size, but is 10.0 when it is shown.
  const rounded = Number(value.toPrecision(digits));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  return value.toLocaleString("en-US", {
    minimumFractionDigits: Math.min(decimals, 12), maximumFractionDigits: Math.min(decimals, 12),
  });
}

export function rate(value) { return `${number(value)}/s`; }

export function shortRate(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+value.toPrecision(3)}`;
}

export function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) return `${number(ns / size)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

// Marks of a logarithmic axis, each of which has a label.
// On a narrow axis that lies, marks of a power's thirds are far enough apart for their words.
export function logTicks(values, isNarrow = false) {
  const least = Math.min(...values), most = Math.max(...values);
  if (most === least) return [least];
  if (!(least > 0)) return 5;
  if (most / least >= 3) {
    const steps = most / least > (isNarrow ? 100 : 2000) ? [1] : isNarrow ? [1, 3] : most / least > 12 ? [1, 2, 5] : [1, 2, 3, 5, 7];
    const powers = Array.from({ length: Math.ceil(Math.log10(most / least)) + 2 }, (_, at) => 10 ** (Math.floor(Math.log10(least)) + at));
    return powers.flatMap((power) => steps.map((one) => one * power)).filter((tick) => tick >= least && tick <= most);
  }
  const power = 10 ** Math.floor(Math.log10((most - least) / 4));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= (most - least) / 4);
  const found = [];
  for (let at = Math.ceil(least / step); at * step <= most; at += 1) found.push(at * step);
  return found;
}

export function axisDuration(ns) {
  if (ns === 0) return "0";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) return `${+(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${+ns.toPrecision(3)} ns`;
}

export function byteRate(value) {
  for (const [unit, size] of [["GiB/s", 2 ** 30], ["MiB/s", 2 ** 20], ["KiB/s", 2 ** 10]]) {
    if (value >= size) return `${number(value / size)} ${unit}`;
  }
  return `${number(value)} B/s`;
}

export function axisBytes(value) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${+(value / size).toPrecision(3)} ${unit}`;
  }
  return `${+value.toPrecision(3)} B`;
}

export function bitRate(value) {
  for (const [unit, size] of [["Gbit/s", 1e9], ["Mbit/s", 1e6]]) if (value >= size) return `${number(value / size)} ${unit}`;
  return `${number(value)} bit/s`;
}

const COUNTED = new Set(["threads", "clients", "hosts", "buckets", "containers"]);

export function parameterWords(name, value) {
  if (COUNTED.has(name)) return `${value} ${value === 1 ? name.slice(0, -1) : name}`;
  if (["client", "encryption", "source"].includes(name)) return value; // they speak for themselves
  return `${name.replaceAll("_", " ")} ${value}`;
}

export function parameterName(name) { return name.replaceAll("_", " ").replace("rate per s", "offered per second"); }

export function seconds(value) { return `${+value.toPrecision(4)} s`; }

export function share(x) { return `${+(100 * (1 - 1 / x)).toPrecision(7)} %`; }
