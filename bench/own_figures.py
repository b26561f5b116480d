"""Measures figures without peers: lag under open load, connections, memory, payload, recording,
ciphers.

Each figure is shown with its goal. The null server has core 0, loadstone core 1.

    python bench/own_figures.py [--seconds 5] [--figure lag]
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from http_vs_peers import CASES, Case, document, serving
from ratios import Table
from trials import cpu_of, example, run

# 16 MiB in total, and 16 KiB for each connection.
MEMORY_MIB, MEMORY_KIB_PER_CONNECTION = 16, 16
# A target without a server.
NO_TARGET = {"name": "null", "driver": "null", "settings": {}}

run_trial = partial(run, with_intervals=True)


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    value: str
    goal: str
    is_met: bool


def lag(seconds: float) -> Iterator[Figure]:
    """How late requests leave under open load, and whether all leave.

    The lag of a whole trial shows the host's worst moment, that of the median second loadstone's
    own.
    """
    case = Case("lag", "get", 4096, 64)
    with serving(case) as port:
        for rate in (1_000, 10_000, 30_000):
            load = {"kind": "open", "rate_per_s": float(rate), "arrivals": "poisson"}
            load["clients_max"] = case.clients
            trial = document(case, port, 4 * seconds) | {"load": load}
            trial_result = run_trial(trial)
            p50, p95, p99 = trial_result.lag_us
            # Without a target, a request is late only if the host does not run the thread.
            without_target = run_trial(trial | {"target": NO_TARGET})
            name = f"open load, {rate} requests/s: lag p50, p95, p99"
            value = f"{p50:.1f}, {p95:.1f}, {p99:.0f} µs"
            yield Figure(name, value, "p99 50 µs at 10000/s", p99 <= 50)
            of_ours, of_host = "p99 50 µs at 10000/s", "the host's share"
            for who, goal, row in (
                ("", of_ours, trial_result),
                (" without a target", of_host, without_target),
            ):
                seconds_p99 = row.lag_p99_us
                p99 = statistics.median(seconds_p99)
                calm = sum(p99 <= 50 for p99 in seconds_p99)
                name = f"open load, {rate} requests/s{who}: p99 of the median second"
                value = f"{p99:.0f} µs; {calm} of {len(seconds_p99)} s up to 50 µs"
                yield Figure(name, value, goal, p99 <= 50)
            # A Poisson count varies by the square root of its mean; constant arrivals do not.
            load["arrivals"] = "constant"
            trial_result = run_trial(document(case, port, seconds) | {"load": load})
            off = trial_result.requests / (rate * seconds) - 1
            name = f"open load, {rate} requests/s: rate reached"
            yield Figure(name, f"{off:+.3%}", "within 0.1 %", abs(off) <= 0.001)


def connections(seconds: float) -> Iterator[Figure]:
    """Ten thousand connections on one core: fair, kept open, and small."""
    case = Case("connections", "get", 4096, 10_000)
    with serving(case) as port:
        result = run_trial(document(case, port, max(seconds, 5.0)))
    fairness = result.summary["clients_requests_max"] / max(
        1, result.summary["clients_requests_min"]
    )
    opened = result.summary["connections_opened"]
    limit = MEMORY_MIB + case.clients * MEMORY_KIB_PER_CONNECTION / 1024
    yield Figure(
        "10000 connections: most/least requests", f"{fairness:.2f}", "1.5", fairness <= 1.5
    )
    yield Figure("10000 connections: opened", str(opened), "10000", opened == case.clients)
    own_mib = result.own_mib
    yield Figure(
        "10000 connections: own memory", f"{own_mib:.1f} MiB", f"{limit:.0f} MiB", own_mib <= limit
    )


def memory(_seconds: float) -> Iterator[Figure]:
    """Memory does not grow with the number of requests."""
    case = Case("memory", "get", 4096, 250)
    # Several seconds: histograms are used from the second one on.
    few, many = 20_000_000, 1_000_000_000
    mib = {}
    for requests in (few, many):
        stop = {"requests": requests}
        result = run_trial(document(case, 1, 1.0) | {"stop": stop, "target": NO_TARGET})
        mib[requests] = result.own_mib
    grown = mib[many] - mib[few]
    name = "null driver: memory from 20 to 1000 million requests"
    yield Figure(name, f"{grown:+.1f} MiB", "flat (1 MiB)", abs(grown) <= 1)
    yield Figure(
        "null driver: CPU of a request", f"{result.us:.3f} µs", "0.25 µs", result.us <= 0.25
    )


def recording(seconds: float) -> Iterator[Figure]:
    """The engine's cost per request, including recording: more than recording alone."""
    case = next(case for case in CASES if case.name == "get-4KiB-16")
    trial = document(case, 1, seconds) | {"target": NO_TARGET}
    alone_us = statistics.median(run_trial(trial).us for _ in range(3))
    with serving(case) as port:
        trial = document(case, port, seconds)
        whole_us = statistics.median(run_trial(trial).us for _ in range(3))
    share = alone_us / whole_us
    name = "schedule, choice and recording, of a 4 KiB get's CPU"
    yield Figure(name, f"{share:.1%}", "3 %", share <= 0.03)


def payload(_seconds: float) -> Iterator[Figure]:
    """The speed of generating and verifying payload."""
    for bytes_ in (4096, 1 << 20):
        speeds = _payload_speed(bytes_)
        for what, goal in (("made", 15), ("verified", 12)):
            speed = speeds[f"{what}_per_s"] / 1e9
            name = f"payload {what}, objects of {bytes_ >> 10} KiB"
            yield Figure(name, f"{speed:.1f} GB/s", f"{goal} GB/s", speed >= goal)


def hashed(seconds: float) -> Iterator[Figure]:
    """A put with hashed payload costs the hash plus an unhashed put."""
    hash_us = (1 << 20) / _openssl_bytes_per_s(1 << 20, "sha256") * 1e6
    costs = {}
    for name in ("put-1MiB-16", "put-1MiB-16-hashed"):
        case = next(case for case in CASES if case.name == name)
        with serving(case) as port:
            trial = document(case, port, seconds)
            costs[name] = statistics.median(run_trial(trial).us for _ in range(3))
    limit = 1.25 * hash_us + costs["put-1MiB-16"]
    cost = costs["put-1MiB-16-hashed"]
    name = "PUT 1 MiB, payload hashed and signed"
    yield Figure(name, f"{cost:.0f} µs", f"{limit:.0f} µs (1.25 openssl + plain)", cost <= limit)


def ciphers(_seconds: float) -> Iterator[Figure]:
    """The speed of encryption and decryption, relative to openssl's."""
    for bytes_ in (64 << 10, 1 << 20):
        shares: dict[str, list[float]] = {}
        for _ in range(3):
            speeds = _payload_speed(bytes_)
            for cipher in ("aes-256-gcm", "aes-256-cbc"):
                for what, flags in (("sealed", []), ("opened", ["-decrypt"])):
                    peer = _openssl_bytes_per_s(64 << 10, "-evp", cipher, *flags)
                    if cipher == "aes-256-cbc":
                        # The MAC is added, since the other mode authenticates by itself.
                        mac = _openssl_bytes_per_s(64 << 10, "-hmac", "sha256")
                        peer = 1 / (1 / peer + 1 / mac)
                    share = speeds[f"{cipher}_{what}_per_s"] / peer
                    shares.setdefault(f"{cipher} {what}, {bytes_ >> 10} KiB", []).append(share)
        for name, ratios in shares.items():
            share = statistics.median(ratios)
            yield Figure(name, f"{share:.2f}", "0.90 of openssl speed", share >= 0.9)


def _payload_speed(bytes_: int) -> dict[str, float]:
    """Return the results of an example of the load generator with objects of this size."""
    speeds: dict[str, float] = json.loads(cpu_of([example("payload_speed"), str(bytes_)])[1])
    return speeds


def _openssl_bytes_per_s(bytes_: int, *algorithm: str) -> float:
    """Return openssl's speed with segments of this size."""
    command = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(bytes_), *algorithm]
    _, output = cpu_of(command)
    return float(next(line for line in output.splitlines() if "+F:" in line).split(":")[-1])


COLUMNS = (
    (f"{'figure':<52}", "{name:<52}"),
    (f"{'measured':>10}", "{value:>10}"),
    (f"{'goal':<32}", "{goal:<32}"),
    ("met", "{met:<3}"),
)

FIGURES: dict[str, Callable[[float], Iterator[Figure]]] = {
    "lag": lag,
    "connections": connections,
    "memory": memory,
    "recording": recording,
    "payload": payload,
    "hashed": hashed,
    "ciphers": ciphers,
}


def main() -> None:
    """Measure every requested figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--figure", action="append", choices=FIGURES)
    options = parser.parse_args()
    table = Table(COLUMNS, None)
    for name in options.figure or FIGURES:
        for row in FIGURES[name](options.seconds):
            table.add(vars(row), met="yes" if row.is_met else "no")


if __name__ == "__main__":
    main()
