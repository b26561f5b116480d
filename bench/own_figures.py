"""Measures what has no peer: lag under open load, connections, memory, payload, recording, ciphers.

Each figure stands beside its goal. The null server has core 0, loadstone core 1.

    python bench/own_figures.py [--seconds 5] [--figure lag]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_vs_peers import CASES, CLIENT_CORE, ROOT, Case, document, start_server

# 16 MiB, and 16 KiB for each connection.
MEMORY_MIB, MEMORY_KIB_PER_CONNECTION = 16, 16

TRIAL_PROGRAM = """
import json, resource, sys
import pyarrow
from loadstone import _loadgen
document = sys.stdin.read()
def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
def rss_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
lag, lag_of_seconds, not_sent = _loadgen.Histogram(), {}, 0
def on_interval(batch, live):
    global not_sent
    if batch is not None:
        for row in pyarrow.record_batch(batch).to_pylist():
            not_sent += row["requests"] * (row["outcome"] == "not_sent")
            if row["lag"]:
                lag.add(row["lag"])
                lag_of_seconds.setdefault(row["second"], _loadgen.Histogram()).add(row["lag"])
before_mib, before_s = rss_mib(), cpu_s()
summary = json.loads(_loadgen.run_trial(document, on_interval))
print(json.dumps({
    "cpu_s": cpu_s() - before_s, "own_mib": rss_mib() - before_mib,
    "lag_us": [lag.quantile(share) / 1000 for share in (0.5, 0.95, 0.99)] if lag.count else None,
    "lag_p99_us": [row.quantile(0.99) / 1000 for row in lag_of_seconds.values()],
    "not_sent": not_sent,
    **{key: summary[key] for key in (
        "requests", "failed", "error_examples", "connections_opened", "clients_requests_min",
        "clients_requests_max", "thread_cpu_ns")}}))
"""


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    value: str
    goal: str
    is_met: bool


def run_trial(text: str) -> dict[str, Any]:
    """Run a trial on the client's core and return what it told."""
    environment = os.environ | {"BENCH_ACCESS_KEY": "bench", "BENCH_SECRET_KEY": "bench-secret"}
    ran = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), sys.executable, "-c", TRIAL_PROGRAM],
        input=text,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode != 0:
        raise SystemExit(f"loadstone failed:\n{ran.stderr}")
    told: dict[str, Any] = json.loads(ran.stdout)
    # Where the host took the core at the end of an open load, what was due then is not sent.
    if told["failed"] > told["not_sent"]:
        raise SystemExit(f"{told['failed']} requests failed: {told['error_examples']}")
    return told


@contextmanager
def null_server(case: Case) -> Iterator[int]:
    """Run the null server on its core; give its port."""
    with tempfile.TemporaryDirectory() as folder:
        server, port = start_server(case, Path(folder))
        try:
            yield port
        finally:
            server.terminate()
            server.wait()


def changed(text: str, **changes: Any) -> str:
    """Return a trial document with other values."""
    return json.dumps(json.loads(text) | changes)


def lag(seconds: float) -> Iterator[Figure]:
    """How late requests leave under open load, and whether all leave.

    The lag of a whole trial tells of the worst moment of the host, that of the median second of
    loadstone.
    """
    case = Case("lag", "get", 4096, 64)
    with null_server(case) as port:
        for rate in (1_000, 10_000, 30_000):
            load = {"kind": "open", "rate_per_s": float(rate), "arrivals": "poisson"}
            load["clients_max"] = case.clients
            text = changed(document(case, port, 4 * seconds), load=load)
            told = run_trial(text)
            p50, p95, p99 = told["lag_us"]
            # What is asked of nobody is late only where the host does not let the thread run.
            nobody = {"name": "null", "driver": "null", "settings": {}}
            asked_nobody = run_trial(changed(text, target=nobody))
            name = f"open load, {rate} requests/s: lag p50, p95, p99"
            value = f"{p50:.1f}, {p95:.1f}, {p99:.0f} µs"
            yield Figure(name, value, "p99 50 µs at 10000/s", p99 <= 50)
            of_ours, of_host = "p99 50 µs at 10000/s", "the host's share"
            for who, goal, row in (("", of_ours, told), (" to nobody", of_host, asked_nobody)):
                seconds_p99 = row["lag_p99_us"]
                p99 = statistics.median(seconds_p99)
                calm = sum(p99 <= 50 for p99 in seconds_p99)
                name = f"open load, {rate} requests/s{who}: p99 of the median second"
                value = f"{p99:.0f} µs; {calm} of {len(seconds_p99)} s up to 50 µs"
                yield Figure(name, value, goal, p99 <= 50)
            # A Poisson count of this mean strays by its square root; constant arrivals do not.
            load["arrivals"] = "constant"
            told = run_trial(changed(document(case, port, seconds), load=load))
            off = told["requests"] / (rate * seconds) - 1
            name = f"open load, {rate} requests/s: rate reached"
            yield Figure(name, f"{off:+.3%}", "within 0.1 %", abs(off) <= 0.001)


def connections(seconds: float) -> Iterator[Figure]:
    """Ten thousand connections on one core: fair, kept open, and small."""
    case = Case("connections", "get", 4096, 10_000)
    with null_server(case) as port:
        told = run_trial(document(case, port, max(seconds, 5.0)))
    fairness = told["clients_requests_max"] / max(1, told["clients_requests_min"])
    opened = told["connections_opened"]
    limit = MEMORY_MIB + case.clients * MEMORY_KIB_PER_CONNECTION / 1024
    yield Figure(
        "10000 connections: most/least requests", f"{fairness:.2f}", "1.5", fairness <= 1.5
    )
    yield Figure("10000 connections: opened", str(opened), "10000", opened == case.clients)
    own = told["own_mib"]
    yield Figure(
        "10000 connections: own memory", f"{own:.1f} MiB", f"{limit:.0f} MiB", own <= limit
    )


def memory(_seconds: float) -> Iterator[Figure]:
    """Memory does not grow with the number of requests."""
    case = Case("memory", "get", 4096, 250)
    # Seconds, not a moment: histograms are in use from the second second on.
    few, many = 20_000_000, 1_000_000_000
    own = {}
    for requests in (few, many):
        text = changed(document(case, 1, 1.0), stop={"requests": requests})
        trial = json.loads(text)
        trial["target"] = {"name": "null", "driver": "null", "settings": {}}
        told = run_trial(json.dumps(trial))
        own[requests] = told["own_mib"]
        us = told["cpu_s"] * 1e6 / requests
    grown = own[many] - own[few]
    name = "null driver: memory from 20 to 1000 million requests"
    yield Figure(name, f"{grown:+.1f} MiB", "flat (1 MiB)", abs(grown) <= 1)
    yield Figure("null driver: CPU of a request", f"{us:.3f} µs", "0.25 µs", us <= 0.25)


def recording(seconds: float) -> Iterator[Figure]:
    """What the engine costs beside a request, recording included: more than recording alone."""
    case = next(case for case in CASES if case.name == "get-4KiB-16")
    trial = json.loads(document(case, 1, seconds))
    trial["target"] = {"name": "null", "driver": "null", "settings": {}}
    alone = [run_trial(json.dumps(trial)) for _ in range(3)]
    alone_us = statistics.median(told["cpu_s"] * 1e6 / told["requests"] for told in alone)
    with null_server(case) as port:
        whole = [run_trial(document(case, port, seconds)) for _ in range(3)]
    whole_us = statistics.median(told["cpu_s"] * 1e6 / told["requests"] for told in whole)
    share = alone_us / whole_us
    name = "schedule, choice and recording, of a 4 KiB get's CPU"
    yield Figure(name, f"{share:.1%}", "3 %", share <= 0.03)


def payload(_seconds: float) -> Iterator[Figure]:
    """How fast payload is made and verified."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "payload_speed"
    for bytes_ in (4096, 1 << 20):
        command = ["taskset", "-c", str(CLIENT_CORE), str(program), str(bytes_)]
        ran = subprocess.run(command, capture_output=True, check=True)
        told = json.loads(ran.stdout)
        for what, goal in (("made", 15), ("verified", 12)):
            speed = told[f"{what}_per_s"] / 1e9
            name = f"payload {what}, objects of {bytes_ >> 10} KiB"
            yield Figure(name, f"{speed:.1f} GB/s", f"{goal} GB/s", speed >= goal)


def hashed(seconds: float) -> Iterator[Figure]:
    """A put whose payload is hashed costs the hash, and what it costs unhashed."""
    command = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(1 << 20), "sha256"]
    command = ["taskset", "-c", str(CLIENT_CORE), *command]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bytes_per_s = float(next(line for line in told.splitlines() if "+F:" in line).split(":")[-1])
    hash_us = (1 << 20) / bytes_per_s * 1e6
    costs = {}
    for name in ("put-1MiB-16", "put-1MiB-16-hashed"):
        case = next(case for case in CASES if case.name == name)
        with null_server(case) as port:
            rounds = [run_trial(document(case, port, seconds)) for _ in range(3)]
        costs[name] = statistics.median(row["cpu_s"] * 1e6 / row["requests"] for row in rounds)
    limit = 1.25 * hash_us + costs["put-1MiB-16"]
    found = costs["put-1MiB-16-hashed"]
    name = "PUT 1 MiB, payload hashed and signed"
    yield Figure(name, f"{found:.0f} µs", f"{limit:.0f} µs (1.25 openssl + plain)", found <= limit)


def ciphers(_seconds: float) -> Iterator[Figure]:
    """How fast objects are encrypted and decrypted, as a share of what openssl does by turns."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "payload_speed"
    for bytes_ in (64 << 10, 1 << 20):
        shares: dict[str, list[float]] = {}
        for _ in range(3):
            command = ["taskset", "-c", str(CLIENT_CORE), str(program), str(bytes_)]
            ran = subprocess.run(command, capture_output=True, check=True)
            told = json.loads(ran.stdout)
            for cipher in ("aes-256-gcm", "aes-256-cbc"):
                for what, flags in (("sealed", []), ("opened", ["-decrypt"])):
                    peer = _openssl_bytes_per_s("-evp", cipher, *flags)
                    share = told[f"{cipher}_{what}_per_s"] / peer
                    shares.setdefault(f"{cipher} {what}, {bytes_ >> 10} KiB", []).append(share)
        for name, found in shares.items():
            share = statistics.median(found)
            yield Figure(name, f"{share:.2f}", "0.90 of openssl speed", share >= 0.9)


def _openssl_bytes_per_s(*algorithm: str) -> float:
    """Return what openssl does with segments of 64 KiB on the same core."""
    command = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(64 << 10), *algorithm]
    command = ["taskset", "-c", str(CLIENT_CORE), *command]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(next(line for line in told.splitlines() if "+F:" in line).split(":")[-1])


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
    """Measure every figure that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--figure", action="append", choices=FIGURES)
    options = parser.parse_args()
    print(f"| {'figure':<52} | {'measured':>10} | {'goal':<32} | met |")
    print(f"|{'-' * 54}|{'-' * 12}|{'-' * 34}|-----|")
    for name in options.figure or FIGURES:
        for row in FIGURES[name](options.seconds):
            met = "yes" if row.is_met else "no"
            print(f"| {row.name:<52} | {row.value:>10} | {row.goal:<32} | {met:<3} |", flush=True)


if __name__ == "__main__":
    main()
