"""Draw bottlenecks, run them, and count how often the verdict names what limits each.

`python -m tests.rig` runs scenarios of the families in tests/rig/families.py on the virtual clock,
from the half of their combinations that rules are developed with. `--publish` runs those of the
other half, with a seed that is fixed, and injects the bottlenecks of tests/rig/bottleneck.py for
real where this machine can; the counts go into tests/rig/*.json and docs/verdict.md, as they are.
Ends with 1 where a goal is missed.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.rig import figure
from tests.rig.bottleneck import bottlenecks
from tests.rig.experiment import ATTEMPTS, FACTOR_MIN, inject
from tests.rig.families import FAMILIES, Purpose, scenarios
from tests.rig.machine import ROOT, lacks
from tests.rig.scenario import Outcome
from tests.rig.simulated import outcome_of

PAGE = ROOT / "docs" / "verdict.md"
SIMULATED = ROOT / "tests" / "rig" / "simulated.json"
INJECTED = ROOT / "tests" / "rig" / "injected.json"

PARTS = ("simulated", "injected")
MEASURED_SEED = 20_261_202
MEASURED_COUNT = 3000
INJECTED_SEED = 20_261_203
INJECTED_COUNT = 60
SECONDS = 3.0


def main() -> int:
    """Run the rig."""
    arguments = _arguments()
    if arguments.publish is not None:
        return _publish(arguments.publish or PARTS, arguments.processes)
    if arguments.injected:
        outcomes = run_injected(arguments.seed, arguments.count)
    else:
        outcomes = run(
            "develop", arguments.seed, arguments.count, arguments.processes, arguments.only
        )
    counted = figure.document(outcomes)
    print(figure.table(counted), figure.summary(counted), sep="\n\n")
    return 0 if figure.meets_goals(counted) else 1


def _publish(parts: Sequence[str], processes: int) -> int:
    """Measure with scenarios that no rule was developed on, and write the result down."""
    if "simulated" in parts:
        outcomes = run("measure", MEASURED_SEED, MEASURED_COUNT, processes)
        drawn = (
            f"Drawn from {len(FAMILIES)} families with the seed {MEASURED_SEED}, from the"
            " combinations that are for measuring only."
        )
        _write(SIMULATED, figure.document(outcomes, seed=MEASURED_SEED, drawn=drawn))
    reason = lacks()
    if "injected" in parts and reason is None:
        outcomes = run_injected(INJECTED_SEED, INJECTED_COUNT)
        foreign = sum(outcome.foreign for outcome in outcomes) / len(outcomes)
        drawn = (
            f"Injected with the seed {INJECTED_SEED} on {_machine()}, of whose cores other programs"
            f" took {foreign:.0%} meanwhile. {_void(outcomes)}"
        )
        _write(INJECTED, figure.document(outcomes, seed=INJECTED_SEED, drawn=drawn))
    elif "injected" in parts:
        print(f"nothing is injected for real: {reason}", file=sys.stderr)
    figures = published()
    figure.publish(PAGE, figures)
    for measured in figures:
        print(figure.table(measured), figure.summary(measured), sep="\n\n")
    return 0 if all(map(figure.meets_goals, figures)) else 1


def published() -> list[dict[str, Any]]:
    """Return the figures that were written down last."""
    return [json.loads(path.read_text()) for path in (SIMULATED, INJECTED) if path.exists()]


def run(
    purpose: Purpose, seed: int, count: int, processes: int = 1, only: str | None = None
) -> Sequence[Outcome]:
    """Run so many scenarios and return their outcomes, in the order in which they were drawn."""
    drawn = [
        scenario for scenario in scenarios(purpose, seed, count) if only in (None, scenario.family)
    ]
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for outcome in pool.imap(outcome_of, drawn):
            outcomes.append(outcome)
            _tell(outcome, len(outcomes), len(drawn))
    return outcomes


def run_injected(seed: int, count: int) -> Sequence[Outcome]:
    """Inject so many bottlenecks, one after the other, and return their outcomes."""
    outcomes: list[Outcome] = []
    for bottleneck in bottlenecks(seed, count):
        outcomes.append(inject(bottleneck, SECONDS))
        _tell(outcomes[-1], len(outcomes), count)
    return outcomes


def _tell(outcome: Outcome, number: int, count: int) -> None:
    mark = (
        "void"
        if outcome.is_void
        else "right"
        if outcome.is_right
        else "undetermined"
        if outcome.is_undetermined
        else "WRONG"
    )
    if mark == "right":
        return
    named = ", ".join((outcome.limit, *outcome.also))
    print(
        f"{number}/{count} {mark}{' BLAME' if outcome.is_blamed else ''} {outcome.combination}"
        f" (seed {outcome.seed}): {named}; right: {', '.join(outcome.right)}"
        + (f"; {outcome.why_void}" if outcome.why_void else ""),
        flush=True,
    )


def _void(outcomes: Sequence[Outcome]) -> str:
    count = sum(outcome.is_void for outcome in outcomes)
    return (
        f"{count} of {len(outcomes)} were void after {ATTEMPTS} attempts: what was injected left"
        f" more than 1/{FACTOR_MIN:g} of the rate without it."
    )


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _machine() -> str:
    cpu = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores of a virtual machine ({cpu}), {memory:.0f} GiB,"
        f" Linux {platform.release().split('-')[0]}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    parser.add_argument(
        "--publish", nargs="*", choices=PARTS, help="measure both parts or one, and write it down"
    )
    parser.add_argument("--injected", action="store_true", help="inject bottlenecks for real")
    parser.add_argument("--seed", type=int, default=1, help="of scenarios to develop with")
    parser.add_argument("--count", type=int, default=230, help="how many of them")
    parser.add_argument("--only", choices=list(FAMILIES), help="one family of them")
    parser.add_argument("--processes", type=int, default=2, help="that run scenarios at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
