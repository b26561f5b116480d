"""Fixtures of several kinds of tests: the real servers, each started once, and the options."""

import signal

import pytest

from tests import cpu_times, golden_files, lost_workers, rotation
from tests.golden_files import golden
from tests.system.servers.fixtures import (
    ceph_server,
    ceph_to_break,
    cephfs,
    rbd_images,
    swift_server,
    versitygw_server,
)

# A shell that runs the tests in the background has turned Ctrl-C off for them and for all that they
# start, and `nohup` the hang-up; what is tested here is what an ordinary user starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SERVERS = {
    "ceph_server": "ceph",
    "cephfs": "ceph",
    "rbd_images": "ceph",
    "ceph_to_break": "ceph to break",
    "swift_server": "swift",
    "versitygw_server": "swift",
}
"""The servers that fixtures start, as the groups in which their tests run."""

__all__ = [
    "ceph_server",
    "ceph_to_break",
    "cephfs",
    "golden",
    "rbd_images",
    "swift_server",
    "versitygw_server",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of our own."""
    for module in (golden_files, rotation, cpu_times):
        module.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """End with a worker that dies, and measure what tests cost where that is asked for."""
    config.pluginmanager.register(lost_workers)
    if config.getoption("--cpu-times"):
        config.pluginmanager.register(cpu_times)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of one server in one process: each process would start its own."""
    used = [SERVERS[name] for name in getattr(item, "fixturenames", ()) if name in SERVERS]
    if used and item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(used[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests whose turn it is not, among those that are asked for."""
    rotation.select(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whose turn it was."""
    reports = [
        report
        for stat in terminalreporter.stats.values()
        for report in stat
        if isinstance(report, pytest.TestReport)
    ]
    for line in rotation.lines(terminalreporter.config, reports):
        terminalreporter.write_line(line)
