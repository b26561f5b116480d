"""`--cpu-times N`: the tests and files that cost most CPU time, with all processes they start.

Wall time says little on a shared machine. What is counted is the time of this process and of all
below it, ended or not; a fixture's start counts for the test that asks for it first.
"""

import os
from collections import defaultdict
from collections.abc import Iterator

import psutil
import pytest

SPENT = "cpu_s"


def add_options(parser: pytest.Parser) -> None:
    """Take the number of tests to show."""
    parser.addoption("--cpu-times", type=int, default=0, metavar="N", help=__doc__.splitlines()[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the CPU time spent before the first step of a test."""
    item.stash[_BEGAN] = _spent_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Add the CPU time of the step to its report, which reaches the process that prints it."""
    report = yield
    now = _spent_s()
    report.user_properties = [(SPENT, max(0.0, now - item.stash[_BEGAN]))]
    item.stash[_BEGAN] = now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the most expensive tests and files."""
    shown = terminalreporter.config.getoption("--cpu-times")
    cpu: dict[str, float] = defaultdict(float)
    wall: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.split("::")[0]
                for name in (report.nodeid, f"{file} (all)"):
                    cpu[name] += dict(report.user_properties).get(SPENT, 0.0)
                    wall[name] += report.duration
    for title, is_file in (("tests", False), ("files", True)):
        names = [name for name in cpu if name.endswith(" (all)") == is_file]
        terminalreporter.section(f"CPU time of {title}")
        for name in sorted(names, key=lambda name: -cpu[name])[:shown]:
            terminalreporter.write_line(f"{cpu[name]:8.2f} s CPU {wall[name]:8.2f} s wall  {name}")
    total = sum(cpu[name] for name in cpu if name.endswith(" (all)"))
    terminalreporter.write_line(f"{total:8.2f} s CPU in all")


_BEGAN = pytest.StashKey[float]()


def _spent_s() -> float:
    used = os.times()
    spent = used.user + used.system + used.children_user + used.children_system
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent
