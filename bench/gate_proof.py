"""How often is `loadstone ab` right? Gates of the embedded store whose answer is known.

Gates of two kinds take turns, beside whatever else the machine does: `equal`, the store against
itself, and `slower`, against itself with a burn of 5 % more processor time on each request. The
burn is calibrated first, by a gate against a larger one. Requests are puts of 256 KiB, most of
which is hashing: what other programs do to the caches changes a request of 4 KiB by more than 5 %.
Each gate is a line of build/gate-proof/gates.jsonl; the same command goes on where it ended, and
`--summary` only counts. From the noise of the measured blocks it draws thousands of gates more,
which shows how many blocks the rule takes on this machine.

    python bench/gate_proof.py [--gates 100] [--hours 1] [--margin 2.5%] [--blocks-max 120]
    python bench/gate_proof.py --spread 5%
"""

import argparse
import json
import math
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from loadstone import units
from loadstone.analysis.accounts.account import SERVER_CPU
from loadstone.analysis.accounts.gate import Rules, rules_of
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.statistics import sequential, student
from loadstone.analysis.statistics.ratios import Numbers, t_quantile
from loadstone.results.store import read_run

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "target" / "release" / "loadstone-store"
FOLDER = ROOT / "build" / "gate-proof"
KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests"}
SHARE = 0.05
CALIBRATING_ROUNDS = 100_000
CALIBRATING_BLOCKS = 60
NEVER = 1e-9
LOAD = ("bench", "put", "{url}", "-t", "4", "-s", "256KiB", "-n", "100")
KINDS = ("equal", "slower")
CONFIDENCE = 0.95
ALPHA = 0.05
DRAWN = 10_000
BLOCKS_DRAWN = (30, 60, 120, 240)
STRETCH = 6


def main() -> None:
    options = _parser().parse_args()
    if options.spread is not None:
        noise = np.random.default_rng(1).normal(0, units.parse_fraction(options.spread), DRAWN)
        print("\n".join(_lines_of_drawn(noise, units.parse_fraction(options.margin), ALPHA)))
        return
    log = FOLDER / "gates.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    gates = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not options.summary:
        _measure(options, gates, log)
    print(summary(gates))


def _measure(options: argparse.Namespace, gates: list[dict[str, Any]], log: Path) -> None:
    end = time.monotonic() + options.hours * 3600
    if gates:
        rounds = max(gate["burn_rounds"] for gate in gates)
    else:
        # The error rate is so small that no look ends the gate early.
        gate = _gate(CALIBRATING_ROUNDS, options.margin, CALIBRATING_BLOCKS, NEVER)
        rounds = round(CALIBRATING_ROUNDS * SHARE / gate["change"])
        print(
            f"{CALIBRATING_ROUNDS:,} rounds take {gate['change']:.1%} ({gate['low']:.1%} to"
            f" {gate['high']:.1%}) more of processor time, after {gate['blocks']} blocks;"
            f" {rounds:,} take {SHARE:.0%}",
            flush=True,
        )
    while len(gates) < options.gates * len(KINDS) and time.monotonic() < end:
        kind = KINDS[len(gates) % len(KINDS)]
        gate = _gate(rounds if kind == "slower" else 0, options.margin, options.blocks_max)
        gates.append({"kind": kind, **gate})
        with log.open("a") as stream:
            stream.write(json.dumps(gates[-1]) + "\n")


def _gate(rounds: int, margin: str, blocks_max: int, alpha: float = ALPHA) -> dict[str, Any]:
    """Run one gate of the store against itself with this many rounds of burn."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    run = FOLDER / "run"
    shutil.rmtree(run, ignore_errors=True)
    words = [sys.executable, "-m", "loadstone", "ab", "-q", "-f", "json", "-o", str(run)]
    for arm, burn in (("base", 0), ("new", rounds)):
        words += [f"--{arm}", shlex.join([str(STORE), "serve", str(_store(arm, port, burn))])]
    words += ["--metrics", "cpu", "--margin", margin, "--alpha", f"{alpha:.9f}"]
    words += ["--blocks-max", str(blocks_max)]
    words += [word.format(url=f"http://127.0.0.1:{port}") for word in LOAD]
    began, load_before = time.monotonic(), os.getloadavg()[0]
    ended = subprocess.run(words, env={**os.environ, **KEYS}, capture_output=True, text=True)
    if not ended.stdout:
        sys.exit(f"error: the gate ended with {ended.returncode}: {ended.stderr}")
    answer = json.loads(ended.stdout)
    (row,) = answer["rows"]
    return {
        "burn_rounds": rounds, "outcome": answer["outcome"], "blocks": answer["blocks"],
        "blocks_max": blocks_max, "margin": answer["margin"], "alpha": answer["alpha"],
        "change": row["change"], "low": row["low"], "high": row["high"],
        "cpu_ns": row["base"], "seconds": time.monotonic() - began, "began": time.time(),
        "load": (load_before + os.getloadavg()[0]) / 2, "log_ratios": _log_ratios(run),
    }  # fmt: skip


def _log_ratios(run: Path) -> list[float]:
    """Return the logarithm of each block's ratio of the new arm to the base."""
    values: dict[int, dict[str, float]] = {}
    for measurement in read_account(read_run(run)).of(SERVER_CPU):
        if measurement.block is not None and measurement.value:
            values.setdefault(measurement.block, {})[measurement.target] = measurement.value
    return [math.log(arms["new"] / arms["base"]) for arms in values.values() if len(arms) == 2]


def _store(arm: str, port: int, burn: int) -> Path:
    path = FOLDER / f"{arm}.json"
    keys = dict(zip(("access_key", "secret_key"), KEYS.values(), strict=True))
    config = {"port": port, "threads": 1, "faults": {"burn_rounds": burn}, **keys}
    path.write_text(json.dumps(config))
    return path


def summary(gates: Sequence[dict[str, Any]]) -> str:
    """Return the frequency of each answer, and the blocks needed with this noise, as text."""
    lines = []
    for kind in KINDS:
        chosen = [gate for gate in gates if gate["kind"] == kind]
        if not chosen:
            continue
        lines.append(f"{kind}: {len(chosen)} gates, {_sum(chosen, 'seconds') / 60:.0f} min")
        for outcome in ("worse", "no worse", "not decided", "void"):
            count = sum(gate["outcome"] == outcome for gate in chosen)
            low, high = share_interval(count, len(chosen))
            lines.append(f"  {outcome}: {count / len(chosen):.1%} ({low:.1%} to {high:.1%})")
        # Over blocks, because gates end sooner when chance favours their answer.
        changes = [ratio for gate in chosen for ratio in gate["log_ratios"]]
        blocks = statistics.median(gate["blocks"] for gate in chosen)
        error = statistics.stdev(changes) / math.sqrt(len(changes))
        lines.append(
            f"  change: {math.expm1(statistics.mean(changes)):+.2%} ± {1.96 * error:.2%}"
            f" over all blocks; of a gate: {blocks:g} (median); load of the machine:"
            f" {statistics.median(gate['load'] for gate in chosen):.1f}"
        )
    spreads = [spread(gate) for gate in gates]
    if spreads:
        each = statistics.median(spreads)
        seconds = _sum(gates, "seconds") / _sum(gates, "blocks")
        lines.append(f"spread of a block's log ratio: {each:.1%} (median); {seconds:.1f} s a block")
        lines += _lines_of_drawn(_noise(gates), gates[0]["margin"], gates[0]["alpha"])
    return "\n".join(lines)


def _noise(gates: Sequence[dict[str, Any]]) -> Numbers:
    """Return the log ratios of all blocks in order, without the mean of their kind."""
    logs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for gate in gates:
        logs[gate["kind"]] += gate["log_ratios"]
    means = {kind: statistics.fmean(values) for kind, values in logs.items() if values}
    return np.array([x - means[gate["kind"]] for gate in gates for x in gate["log_ratios"]])


def _lines_of_drawn(noise: Numbers, margin: float, alpha: float) -> list[str]:
    lines = []
    for most in BLOCKS_DRAWN:
        rules = rules_of(margin, alpha, most, ["cpu"])
        for name, share in zip((*KINDS, "at the margin"), (0.0, SHARE, margin), strict=True):
            worse, no_worse, blocks = drawn(noise, share, rules)
            lines.append(
                f"{DRAWN:,} drawn gates ({name}, up to {most} blocks): {worse:.1%} worse,"
                f" {no_worse:.1%} no worse; {blocks:g} blocks (median)"
            )
    return lines


def drawn(noise: Numbers, share: float, rules: Rules) -> tuple[float, float, float]:
    """Simulate gates of a build that needs a share more CPU, from the noise of blocks' log ratios.

    Return the shares of gates that are worse and no worse, and the median number of blocks. Noise
    is drawn in runs of consecutive blocks, because disturbances last for several.
    """
    blocks_max = rules.looks[-1]
    stretches = math.ceil(blocks_max / STRETCH)
    starts = np.random.default_rng(1).integers(noise.size, size=(DRAWN, stretches, 1))
    logs = noise[(starts + np.arange(STRETCH)) % noise.size].reshape(DRAWN, -1) + math.log1p(share)
    worse, no_worse = np.zeros((2, DRAWN), dtype=bool)
    ends = np.full(DRAWN, blocks_max)
    for blocks in rules.looks:
        so_far = logs[:, :blocks]
        error = so_far.std(axis=1, ddof=1) / math.sqrt(blocks)
        errors = (so_far.mean(axis=1) - math.log1p(rules.margin)) / error
        level = sequential.level_at(rules.looks, blocks, rules.alpha)
        is_open, needed = ~(worse | no_worse), student.quantile(1 - level, blocks - 1)
        worse |= is_open & (errors > needed)
        no_worse |= is_open & (errors < -needed)
        ends[is_open & (worse | no_worse)] = blocks
    return float(worse.mean()), float(no_worse.mean()), float(np.median(ends))


def spread(gate: dict[str, Any]) -> float:
    """Return the standard deviation of a block's log ratio, from the gate's 95 % interval."""
    width = math.log1p(gate["high"]) - math.log1p(gate["low"])
    return width / 2 / t_quantile(CONFIDENCE, gate["blocks"] - 1) * math.sqrt(gate["blocks"])


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Return Clopper and Pearson's 95 % interval of a share (Biometrika 26, 1934)."""
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(1 - tail, count + 1, of - count)) if count < of else 1.0
    return low, high


def _sum(gates: Sequence[dict[str, Any]], key: str) -> float:
    return float(sum(gate[key] for gate in gates))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gates", type=int, default=100, help="gates of each kind")
    parser.add_argument("--hours", type=float, default=1.0, help="begin no gate after so long")
    parser.add_argument("--margin", default="2.5%")
    parser.add_argument("--blocks-max", type=int, default=240)
    parser.add_argument("--summary", action="store_true", help="only count what was measured")
    parser.add_argument("--spread", help="only draw gates, from normal noise of such a spread")
    return parser


if __name__ == "__main__":
    main()
