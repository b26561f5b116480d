"""`--rotation COMMIT`: of the tests marked `long`, those that a commit draws; the rest is left out.

Each long test has its turn: what is drawn depends on the commit alone, so a failure is found again
by the same command. A mark says what its test costs in seconds of CPU time, `long(cpu_s=20)`, and
tests are drawn until `--rotation-cpu` is used up.
"""

import hashlib
import math
from collections.abc import Iterable

import pytest

CPU_S = 1.0
"""The cost of a long test whose mark gives none."""


def add_options(parser: pytest.Parser) -> None:
    """Take the commit and the seconds."""
    parser.addoption("--rotation", default="", metavar="COMMIT", help=__doc__.splitlines()[0])
    parser.addoption(
        "--rotation-cpu", type=float, default=40, metavar="SECONDS", help="of CPU time, in all"
    )


def drawn(costs: Iterable[tuple[str, float]], commit: str, budget_s: float) -> set[str]:
    """Return the tests that a commit draws, one after the other, until the budget is used.

    The chance of one to be the next is proportional to its cost: few that cost much have no fewer
    turns than many that cost little. One that costs more than what is left makes room for the next.
    """
    ordered = sorted(costs, key=lambda item: _arrival(f"{commit} {item[0]}") / item[1])
    chosen: set[str] = set()
    left_s = budget_s
    for name, cost_s in ordered:
        if cost_s <= left_s:
            chosen.add(name)
            left_s -= cost_s
    return chosen


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests that the commit does not draw."""
    commit = config.getoption("--rotation")
    if not commit:
        return
    long = {_name(item): _cost_s(item) for item in items if item.get_closest_marker("long")}
    chosen = drawn(long.items(), commit, config.getoption("--rotation-cpu"))
    left_out = {item for item in items if _name(item) in long.keys() - chosen}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def lines(config: pytest.Config, reports: Iterable[pytest.TestReport]) -> list[str]:
    """Say which long tests have run."""
    commit = config.getoption("--rotation")
    names = [
        report.nodeid for report in reports if report.when == "call" and "long" in report.keywords
    ]
    return [f"rotation of {commit[:12]}: {len(names)} long tests", *names] if commit else []


def _arrival(text: str) -> float:
    """Return an exponentially distributed number that is always the same for a text."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
    return -math.log((number + 1) / 2**48)


def _name(item: pytest.Item) -> str:
    """Return a test's name, without the group that several processes put behind it."""
    group = item.get_closest_marker("xdist_group")
    return item.nodeid.removesuffix(f"@{group.args[0]}") if group else item.nodeid


def _cost_s(item: pytest.Item) -> float:
    mark = item.get_closest_marker("long")
    assert mark is not None
    return float(mark.kwargs.get("cpu_s", CPU_S))
