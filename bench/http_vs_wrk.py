"""Compares the CPU time that a request costs loadstone and wrk, against one null server.

The null server has core 0, the client core 1. Rounds alternate, so that a slow drift of the machine
hits both alike, and each figure is the median of its rounds; the spread stands beside it. CPU time
is the kernel's account of the whole client process, not of its busiest thread.

    python bench/http_vs_wrk.py [--rounds 5] [--seconds 2] [--case get-4KiB-16]
"""

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER_CORE, CLIENT_CORE = 0, 1
OBJECTS = 1000
WARM_UP_S = 0.3


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work for both clients."""

    name: str
    operation: str
    size: int
    clients: int
    goal: float
    signing: str = "unsigned"
    verify: float = 0.0


CASES = (
    Case("get-4KiB-1", "get", 4096, 1, 1.05),
    Case("put-4KiB-1", "put", 4096, 1, 1.05),
    Case("get-4KiB-16", "get", 4096, 16, 1.0),
    Case("get-4KiB-250", "get", 4096, 250, 1.0),
    Case("put-4KiB-16", "put", 4096, 16, 1.0),
    Case("put-4KiB-250", "put", 4096, 250, 1.0),
    Case("put-4KiB-16-hashed", "put", 4096, 16, 2.0, signing="signed"),
    Case("get-1MiB-16", "get", 1 << 20, 16, 0.65),
    Case("get-1MiB-16-verified", "get", 1 << 20, 16, 1.0, verify=1.0),
    Case("put-1MiB-16", "put", 1 << 20, 16, 0.8),
)

# wrk with one fixed request for reads; for writes a script, since wrk has no other way to a body.
PUT_SCRIPT = """
wrk.method = "PUT"
wrk.body = string.rep("x", {size})
local number = 0
request = function()
  number = number + 1
  return wrk.format(nil, "/bench/o-" .. (number % {objects}))
end
"""

TRIAL_PROGRAM = """
import json, resource, sys
from loadstone import _loadgen
document = sys.stdin.read()
def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
def rss_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
before_kib = rss_kib()
before_s = cpu_s()
summary = json.loads(_loadgen.run_trial(document))
print(json.dumps({"cpu_s": cpu_s() - before_s, "requests": summary["requests"],
                  "failed": summary["failed"], "examples": summary["error_examples"],
                  "load_cpu_s": sum(summary["thread_cpu_ns"]) / 1e9,
                  "rss_mib": rss_kib() / 1024, "before_mib": before_kib / 1024}))
"""


def document(case: Case, port: int, seconds: float) -> str:
    """Return the trial document of a case."""
    return json.dumps(
        {
            "format": 1,
            "id": "0001",
            "run": "0" * 31 + "1",
            "seed": 1,
            "phase": "bench",
            "target": {
                "name": "null",
                "driver": "s3",
                "settings": {
                    "endpoints": [f"http://127.0.0.1:{port}"],
                    "access_key": {"env": "BENCH_ACCESS_KEY"},
                    "secret_key": {"env": "BENCH_SECRET_KEY"},
                    "payload_signing": case.signing,
                },
            },
            "dataset": {
                "bucket_prefix": "bench",
                "buckets": 1,
                "objects": OBJECTS,
                "object_prefix": "o-",
                "size": {"kind": "fixed", "bytes": case.size},
            },
            "mix": [{"operation": case.operation}],
            "load": {"kind": "closed", "clients": case.clients},
            "stop": {"duration_ns": int(seconds * 1e9)},
            "verify": case.verify,
            "allow_foreign": True,
            "cores": 1,
        }
    )


def run_loadstone(case: Case, port: int, seconds: float) -> dict[str, float]:
    """Return CPU microseconds per request and memory of one round of loadstone."""
    environment = os.environ | {"BENCH_ACCESS_KEY": "bench", "BENCH_SECRET_KEY": "bench-secret"}
    ran = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), sys.executable, "-c", TRIAL_PROGRAM],
        input=document(case, port, seconds),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode != 0:
        raise SystemExit(f"loadstone failed in {case.name}:\n{ran.stderr}")
    told = json.loads(ran.stdout)
    if told["failed"]:
        raise SystemExit(f"{case.name}: {told['failed']} requests failed: {told['examples']}")
    return {
        "us": told["cpu_s"] * 1e6 / told["requests"],
        "load_us": told["load_cpu_s"] * 1e6 / told["requests"],
        "per_s": told["requests"] / seconds,
        "rss_mib": told["rss_mib"],
        "own_mib": told["rss_mib"] - told["before_mib"],
    }


def run_wrk(case: Case, port: int, seconds: float, folder: Path) -> dict[str, float]:
    """Return CPU microseconds per request and memory of one round of wrk."""
    command = ["taskset", "-c", str(CLIENT_CORE), "wrk", "-t1", f"-c{case.clients}"]
    command += [f"-d{max(1, round(seconds))}s"]
    if case.operation == "put":
        script = folder / f"put-{case.size}.lua"
        script.write_text(PUT_SCRIPT.format(size=case.size, objects=OBJECTS))
        command += ["-s", str(script)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/bench/o-1"], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    words = next(line for line in ran.stdout.splitlines() if " requests in " in line).split()
    requests = int(words[0])
    return {"us": cpu_s * 1e6 / requests, "per_s": requests / max(1, round(seconds))}


def start_server(case: Case, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the null server on its core and return it with its port.

    For reads that are verified it serves the very objects of the trial.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    binary = os.environ.get("LOADSTONE_STORE_BIN", str(ROOT / "target/release/loadstone-store"))
    settings = {"port": port, "threads": 1, "object_bytes": case.size}
    if case.verify:
        settings["trial"] = json.loads(document(case, port, 1.0))
    config = folder / f"{case.name}.json"
    config.write_text(json.dumps(settings))
    server = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CORE), binary, "null", str(config)],
        stdout=subprocess.DEVNULL,
    )
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.02)
    raise SystemExit("the null server did not start")


def measure(case: Case, rounds: int, seconds: float, folder: Path) -> dict[str, object]:
    """Run both clients in turn and return a row of the table."""
    server, port = start_server(case, folder)
    try:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(run_loadstone(case, port, seconds))
            theirs.append(run_wrk(case, port, seconds, folder))
    finally:
        server.terminate()
        server.wait()
    ratios = [a["us"] / b["us"] for a, b in zip(ours, theirs, strict=True)]
    return {
        "case": case.name,
        "loadstone_us": statistics.median(row["us"] for row in ours),
        "load_threads_us": statistics.median(row["load_us"] for row in ours),
        "wrk_us": statistics.median(row["us"] for row in theirs),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "goal": case.goal,
        "per_s": statistics.median(row["per_s"] for row in ours),
        "wrk_per_s": statistics.median(row["per_s"] for row in theirs),
        "rss_mib": statistics.median(row["rss_mib"] for row in ours),
        "own_mib": statistics.median(row["own_mib"] for row in ours),
    }


def print_row(row: dict[str, object]) -> None:
    print(
        f"| {row['case']:<22} | {row['loadstone_us']:>9.2f} | {row['wrk_us']:>6.2f} "
        f"| {row['ratio']:>5.2f} | {row['ratio_min']:.2f}-{row['ratio_max']:.2f} "
        f"| {row['goal']:>4.2f} | {row['per_s']:>9.0f} | {row['wrk_per_s']:>9.0f} "
        f"| {row['rss_mib']:>7.1f} | {row['own_mib']:>7.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("error: no wrk on PATH\nhint: apt-get install wrk")
    print(
        "| case                   | loadstone | wrk µs | ratio | spread    | goal "
        "| ours /s   | wrk /s    | RSS MiB | own MiB |\n"
        "|------------------------|-----------|--------|-------|-----------|------"
        "|-----------|-----------|---------|---------|"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not options.case or case.name in options.case:
                row = measure(case, options.rounds, options.seconds, Path(folder))
                rows.append(row)
                print_row(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
