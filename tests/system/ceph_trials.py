"""Trials on the pools of a cluster that tests may break."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.rados_view import RadosView
from tests.conformance.targets import Place
from tests.conformance.trials import SECOND_NS, Dataset, Result
from tests.system.servers.ceph import Cluster


def place(cluster: Cluster, pool: str = "bench", **settings: Any) -> Place:
    """Describe a pool to the driver and to Ceph's own bindings."""
    conf = str(cluster.conf)
    return Place("rados", {"pool": pool, "conf": conf, **settings}, RadosView(conf, pool))


def lasting(where: Place, dataset: Dataset, operation: str, seconds: int, **changes: Any) -> Result:
    """Run one operation for some seconds."""
    stop = {"requests": None, "duration_ns": seconds * SECOND_NS}
    return trials.run(trials.document(where, dataset, operation, stop=stop, **changes))


def service(result: Result, second: int | None = None) -> "_loadgen.Histogram":
    """Merge the service times of all requests, or of those that ended in one second."""
    merged = _loadgen.Histogram()
    for row in result.rows:
        if second is None or row["second"] == second:
            merged.add(row["service"])
    return merged


@contextlib.contextmanager
def after(seconds: float, act: Callable[[], Any]) -> Iterator[None]:
    """Act in a separate thread after some seconds; wait for the thread at the end."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@contextlib.contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Suspend every OSD for a while, with its connections open."""
    osds = [f"osd.{number}" for number in range(cluster.shape.osds)]
    try:
        cluster.processes.signal(*osds, number=signal.SIGSTOP)
        yield
    finally:
        cluster.processes.signal(*osds, number=signal.SIGCONT)


@contextlib.contextmanager
def without(cluster: Cluster, *osds: int) -> Iterator[None]:
    """Kill OSDs, and restore the cluster at the end."""
    for number in osds:
        cluster.kill(f"osd.{number}")
    try:
        left = cluster.shape.osds - len(osds)
        cluster.processes.wait_for(
            "OSDs to be missed", lambda: cluster.command("osd", "stat")["num_up_osds"] <= left
        )
        yield
    finally:
        mend(cluster, *osds)


def mend(cluster: Cluster, *osds: int) -> None:
    """Restart killed OSDs, and wait until every object has all its copies."""
    for number in osds:
        cluster.start_osd(number)
    cluster.wait_until_clean()


def until(what: str, is_so: Callable[[], bool], limit_s: float = 120) -> None:
    """Wait for a condition that the cluster reaches by itself."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not so after {limit_s:.0f} s"
        time.sleep(0.1)
