"""The bottlenecks that the rig injects: each known, each by a means that loadstone is not told of.

`expected` are the verdicts that name it. `judged` is the load, among those that are run, whose
verdict is asked for. What a production set-up would have too, an exporter on the server and a
measured ceiling of the path, is there where `is_watched`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.rig.machine import Limits

FREE = Limits()
INSTRUMENT = ("INSTRUMENT", "CLIENT_NIC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """One bottleneck, and how it is made."""

    name: str
    summary: str
    expected: tuple[str, ...]
    client: Limits = FREE
    server: Limits = FREE
    faults: Mapping[str, Any] = field(default_factory=dict)
    operation: str = "get"
    size: str = "4KiB"
    threads: tuple[int, ...] = (4, 8, 16)
    judged: int = 8
    load: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    is_watched: bool = False
    hog: bool = False
    on_disk: bool = False

    @property
    def is_instrument(self) -> bool:
        """Whether the limit is the instrument's: then no verdict may blame the target."""
        return all(one.startswith(INSTRUMENT) for one in self.expected)


BOTTLENECKS: Mapping[str, Bottleneck] = {
    one.name: one
    for one in (
        Bottleneck(
            name="client-quota",
            summary="the client's control group may use 0.15 of a core",
            expected=("INSTRUMENT_CPU",),
            client=Limits(cores=0.15),
        ),
        Bottleneck(
            name="client-core",
            summary="another program takes the client's only core in turns",
            expected=("INSTRUMENT_CPU",),
            hog=True,
        ),
        Bottleneck(
            name="client-open",
            summary="20,000 requests a second of an open load, on 0.1 of a core",
            expected=("INSTRUMENT_CPU", "INSTRUMENT_LAG"),
            client=Limits(cores=0.1),
            load={"rate": "20000/s", "clients_max": 4096},
            threads=(),
            judged=20_000,
        ),
        Bottleneck(
            name="client-card",
            summary="the client's card sends 40 Mbit/s",
            expected=("CLIENT_NIC",),
            client=Limits(sends_megabits=40),
            operation="put",
            size="64KiB",
        ),
        Bottleneck(
            name="client-ports",
            summary="50 local ports, a connection for each request",
            expected=("INSTRUMENT_SOCKETS",),
            client=Limits(ports=50),
            workload={"connections": "per_request"},
        ),
        Bottleneck(
            name="network-path",
            summary="40 Mbit/s on the way from the server, its ceiling measured by iperf3",
            expected=("NETWORK_PATH",),
            server=Limits(sends_megabits=40),
            size="64KiB",
            is_watched=True,
        ),
        Bottleneck(
            name="too-few",
            summary="20 ms for each request in the store, as of a slow disk, and few clients",
            expected=("LATENCY_BOUND", "NOT_SATURATED"),
            faults={"latency": {"all": {"kind": "fixed", "ms": 20.0}}},
            threads=(1, 2, 4, 8),
            judged=2,
        ),
        Bottleneck(
            name="store-slow-down",
            summary="the store answers 503 SlowDown beyond 2000 requests a second",
            expected=("TARGET_THROTTLED",),
            faults={"requests_per_s": 2000.0},
        ),
        Bottleneck(
            name="store-bandwidth",
            summary="the store paces its bodies to 4 MiB/s, watched",
            expected=("TARGET_SOFTWARE",),
            faults={"bytes_per_s": 4 << 20},
            size="64KiB",
            is_watched=True,
        ),
        Bottleneck(
            name="server-quota",
            summary="the server's control group may use 0.2 of a core, watched",
            expected=("TARGET_CPU",),
            server=Limits(cores=0.2),
            is_watched=True,
        ),
        Bottleneck(
            name="server-quota-unwatched",
            summary="the same, without probes of the server or the path",
            expected=("BEYOND_CLIENT",),
            server=Limits(cores=0.2),
        ),
    )
}
