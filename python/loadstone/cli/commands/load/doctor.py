"""Check this host as a source of load: what limits it or is missing, and what to do.

Looks at cores, clocks, memory, descriptors, ports, the network's windows and cards, control groups,
extras, probes and the calibration. Changes nothing and asks no target. The exit code is 0; what is
found is advice.

\b
Examples:
  loadstone doctor
  loadstone doctor -f json
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.cli import extras
from loadstone.cli.flags import TerminalOrJson
from loadstone.cli.screen.output import print_table, print_words

if TYPE_CHECKING:
    from loadstone.execution.host.doctor import HostCheck


def command(form: TerminalOrJson = "terminal") -> None:
    from loadstone.execution.host.doctor import examine

    checks = [*examine(Path("runs")), *map(_check_extra, extras.EXTRAS)]
    if form == "json":
        print(json.dumps({"checks": [check.document() for check in checks]}, indent=2))
        return
    print_table(
        ("good", "value"), [(check.name, check.value) for check in checks if check.state == "good"]
    )
    print()
    counts = dict.fromkeys(("missing", "limits"), 0)
    for check in sorted(checks, key=lambda check: check.state, reverse=True):
        if check.state in counts:
            counts[check.state] += 1
            print_words(f"{check.state}: {check.name} ({check.value})", below="  ")
            print_words(check.advice or "", indent="  → ", below="    ")
    print(f"{len(checks)} checks: {counts['limits']} limits, {counts['missing']} missing")


def _check_extra(extra: str) -> "HostCheck":
    from loadstone.execution.host.doctor import HostCheck

    is_there = extras.has(extra)
    return HostCheck(
        name=f"extra {extra}",
        state="good" if is_there else "missing",
        value=", ".join(extras.EXTRAS[extra]),
        advice=None if is_there else extras.install(extra),
    )
