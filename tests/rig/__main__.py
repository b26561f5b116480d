"""Inject every bottleneck several times and publish what loadstone said of each.

`python -m tests.rig [--times N] [--seconds S] [--only NAME …] [--append] [-o FILE]` prints one line
for each injection, keeps them in FILE, and writes the confusion matrix into docs/verdict.md. It
ends with 1 if fewer than 95 % were named rightly, or if a limit of the instrument was ever blamed
on the target.
"""

import argparse
import dataclasses
import json
import os
import platform
import sys
from pathlib import Path

from tests.rig.bottleneck import BOTTLENECKS
from tests.rig.experiment import Outcome, inject
from tests.rig.machine import ROOT, lacks
from tests.rig.matrix import is_blamed, is_right, publish, summary

PAGE = ROOT / "docs" / "verdict.md"


def main() -> int:
    """Run the rig."""
    arguments = _arguments()
    reason = lacks()
    if reason is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    outcomes = _read(arguments.output) if arguments.append else []
    for number in range(arguments.times):
        for name in arguments.only or BOTTLENECKS:
            outcome = inject(BOTTLENECKS[name], arguments.seconds)
            outcomes.append(outcome)
            mark = "ok   " if is_right(outcome) else "WRONG"
            print(
                f"{mark} {number + 1}/{arguments.times} {name:24} {outcome.limit}"
                f" {outcome.grade or ''}: {outcome.reason}",
                flush=True,
            )
            _write(arguments.output, outcomes)
    publish(PAGE, outcomes, _machine())
    print(summary(outcomes))
    right = sum(map(is_right, outcomes)) / len(outcomes)
    return 0 if right >= 0.95 and not any(map(is_blamed, outcomes)) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="how often each is injected")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each trial")
    parser.add_argument("--only", nargs="+", choices=list(BOTTLENECKS), help="some of them")
    parser.add_argument("--append", action="store_true", help="go on with what FILE holds")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "rig.json")
    return parser.parse_args()


def _read(path: Path) -> list[Outcome]:
    return [Outcome(**one) for one in json.loads(path.read_text())] if path.exists() else []


def _write(path: Path, outcomes: list[Outcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(one) for one in outcomes], indent=1) + "\n")


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


if __name__ == "__main__":
    sys.exit(main())
