"""Bottlenecks that are injected for real, by means that loadstone is not told of.

`draw` makes one of a family. `expected` are the verdicts that name it as exactly as what is
observed allows. What a production set-up would have too, an exporter on the server and a
measured ceiling of the path, is there where `is_watched`; `judged` is the load whose verdict is
asked for.

What is injected is bounded by rates, quotas and sleeps far below what the machine can do, so that
other programs on it change little.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.rig.machine import Limits
from tests.rig.tls import Key

UNLIMITED = Limits()
SWEPT = (4, 8, 16)
LOAD = ("LATENCY_BOUND", "NOT_SATURATED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """One bottleneck, and how it is made."""

    family: str
    summary: str
    seed: int
    expected: tuple[str, ...]
    client: Limits = UNLIMITED
    server: Limits = UNLIMITED
    faults: Mapping[str, Any] = field(default_factory=dict)
    operation: str = "get"
    size: str = "4KiB"
    threads: tuple[int, ...] = SWEPT
    judged: int = 8
    load: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    is_watched: bool = False
    hog: bool = False
    tls: Key | None = None

    @property
    def is_client(self) -> bool:
        """Whether the limit is the instrument's own."""
        return all(label.startswith(("INSTRUMENT", "CLIENT_NIC")) for label in self.expected)

    @property
    def is_beyond(self) -> bool:
        """Whether it is nothing of the instrument's."""
        return not any(label.startswith(("INSTRUMENT", "CLIENT_NIC")) for label in self.expected)


def bottlenecks(seed: int, count: int) -> Iterator[Bottleneck]:
    """Yield so many bottlenecks, the families in turns."""
    names = list(FAMILIES)
    for number in range(count):
        name = names[number % len(names)]
        yield draw(name, seed + number)


def draw(family: str, seed: int) -> Bottleneck:
    """Return a bottleneck of a family."""
    made = FAMILIES[family](random.Random(f"{family} {seed}"))
    return Bottleneck(family=family, seed=seed, **made)


def _between(chance: random.Random, low: float, high: float) -> float:
    return float(f"{low * (high / low) ** chance.random():.3g}")


def _client_quota(chance: random.Random) -> dict[str, Any]:
    cores = _between(chance, 0.04, 0.1)
    return {
        "summary": f"the client's control group may use {cores:g} of a core",
        "expected": ("INSTRUMENT_CPU",),
        "client": Limits(cores=cores),
        "operation": chance.choice(("get", "put")),
        "size": chance.choice(("1KiB", "4KiB", "16KiB")),
    }


def _client_core(chance: random.Random) -> dict[str, Any]:
    return {
        "summary": "another program takes the client's only core in turns",
        "expected": ("INSTRUMENT_CPU",),
        "hog": True,
        # While the client has its turn it serves more than a few requests.
        "threads": (16, 64, 256),
        "judged": 64,
        "size": chance.choice(("1KiB", "4KiB", "16KiB")),
    }


def _client_open(chance: random.Random) -> dict[str, Any]:
    cores, rate = _between(chance, 0.04, 0.08), chance.choice((10_000, 20_000))
    return {
        "summary": f"{rate:,} requests a second of an open load, on {cores:g} of a core",
        "expected": ("INSTRUMENT_CPU", "INSTRUMENT_LAG"),
        "client": Limits(cores=cores),
        "load": {"rate": f"{rate}/s", "clients_max": 4096},
        "threads": (),
        "judged": rate,
    }


def _client_card(chance: random.Random) -> dict[str, Any]:
    megabits = _between(chance, 5, 20)
    return {
        "summary": f"the client's card sends {megabits:g} Mbit/s",
        "expected": ("CLIENT_NIC",),
        "client": Limits(sends_megabits=megabits),
        "operation": "put",
        "size": chance.choice(("8KiB", "16KiB", "32KiB")),
    }


def _client_ports(chance: random.Random) -> dict[str, Any]:
    ports = chance.randrange(30, 300)
    return {
        "summary": f"{ports} local ports, a connection for each request",
        "expected": ("INSTRUMENT_SOCKETS",),
        "client": Limits(ports=ports),
        "workload": {"connections": "per_request"},
        # A second load would wait until ports are free again.
        "threads": (),
    }


def _path(chance: random.Random) -> dict[str, Any]:
    megabits, is_watched = _between(chance, 5, 20), chance.random() < 0.6
    return {
        "summary": f"{megabits:g} Mbit/s on the way from the server",
        "expected": ("NETWORK_PATH",) if is_watched else ("BEYOND_CLIENT", "NETWORK_PATH"),
        "server": Limits(sends_megabits=megabits),
        "size": chance.choice(("8KiB", "16KiB", "32KiB")),
        "is_watched": is_watched,
    }


def _too_few(chance: random.Random) -> dict[str, Any]:
    ms = _between(chance, 8, 60)
    return {
        "summary": f"{ms:g} ms for each request in the store, and few clients",
        "expected": LOAD,
        "faults": {"latency": {"all": {"kind": "fixed", "ms": ms}}},
        "threads": (1, 2, 4, 8),
        "judged": chance.choice((2, 4)),
        "is_watched": chance.random() < 0.5,
    }


def _throttle(chance: random.Random) -> dict[str, Any]:
    rate = round(_between(chance, 20, 80))
    return {
        "summary": f"the store answers 503 SlowDown beyond {rate} requests a second",
        "expected": ("TARGET_THROTTLED",),
        "faults": {"requests_per_s": float(rate)},
    }


def _pacing(chance: random.Random) -> dict[str, Any]:
    mib, is_watched = chance.choice((1, 2)), chance.random() < 0.6
    return {
        "summary": f"the store paces its bodies to {mib} MiB/s",
        "expected": ("TARGET_SOFTWARE",) if is_watched else ("BEYOND_CLIENT",),
        "faults": {"bytes_per_s": mib << 20},
        "size": chance.choice(("16KiB", "32KiB")),
        "is_watched": is_watched,
    }


def _pacing_open(chance: random.Random) -> dict[str, Any]:
    made = _pacing(chance)
    rate = round(made["faults"]["bytes_per_s"] / 16_384 * chance.uniform(1.2, 1.6))
    return made | {
        "size": "16KiB",
        "load": {"rate": f"{rate}/s", "clients_max": 400},
        "threads": (),
        "judged": rate,
    }


def _met(chance: random.Random) -> dict[str, Any]:
    rate = chance.randrange(20, 80)
    return {
        "summary": f"{rate} requests a second of an open load, which are served",
        "expected": ("REQUESTED_RATE",),
        "load": {"rate": f"{rate}/s", "clients_max": 200},
        "threads": (),
        "judged": rate,
    }


def _server_quota(chance: random.Random) -> dict[str, Any]:
    cores, is_watched = _between(chance, 0.05, 0.12), chance.random() < 0.6
    return {
        "summary": f"the server's control group may use {cores:g} of a core",
        "expected": ("TARGET_CPU",) if is_watched else ("BEYOND_CLIENT",),
        "server": Limits(cores=cores),
        "is_watched": is_watched,
    }


def _client_tls(chance: random.Random) -> dict[str, Any]:
    cores = _between(chance, 0.03, 0.05)
    return _tls(chance, key="ec") | {
        "summary": f"the client encrypts with {cores:g} of a core",
        "expected": ("INSTRUMENT_CPU",),
        "client": Limits(cores=cores),
    }


def _server_tls(chance: random.Random) -> dict[str, Any]:
    cores = _between(chance, 0.1, 0.2)
    return _tls(chance, key="rsa") | {
        "summary": f"the server encrypts with {cores:g} of a core",
        "expected": ("TARGET_CPU",),
        "server": Limits(cores=cores),
        # A connection for each request is one load, which alone does not show that it is full.
        "is_watched": True,
    }


def _tls(chance: random.Random, key: Key) -> dict[str, Any]:
    """Encrypt much data on persistent connections, or little on a new one for each request."""
    if chance.random() < 0.5:
        dataset = {"objects": 50, "size": "1MiB"}
        return {"tls": key, "size": "1MiB", "workload": {"dataset": dataset}}
    # Further loads would wait for the ports of the first.
    return {"tls": key, "size": "1KiB", "workload": {"connections": "per_request"}, "threads": ()}


FAMILIES: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    "client's quota": _client_quota,
    "client's core shared": _client_core,
    "client's thread, open load": _client_open,
    "client's card": _client_card,
    "client's ports": _client_ports,
    "path's rate": _path,
    "too few clients": _too_few,
    "store's throttle": _throttle,
    "store's pacing": _pacing,
    "store's pacing, open load": _pacing_open,
    "a rate that is met": _met,
    "server's quota": _server_quota,
    "client's TLS": _client_tls,
    "server's TLS": _server_tls,
}
