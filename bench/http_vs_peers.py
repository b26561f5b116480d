"""Compares the CPU time that a request costs loadstone and its peers, against one null server.

The peers are wrk, oha and warp, each where it is on PATH. The null server has core 0, the client
core 1. Rounds alternate, so that a slow drift of the machine hits all alike, and each figure is the
median of its rounds; the ratio is taken within each round, and its spread stands beside it. CPU
time is the kernel's account of the whole client process, not of its busiest thread.

What they do is not the same. loadstone signs, checks status and headers, puts unique payload, and
records every request. wrk sends one fixed request, unsigned, and checks nothing; for puts a script
gives it one body. oha signs as loadstone does (or not, where it is said so) and puts one body. warp
does all that loadstone does, with random payload.

    python bench/http_vs_peers.py [--rounds 5] [--seconds 2] [--case get-4KiB-16] [--peer wrk]
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CERTIFICATES = ROOT / "crates/loadgen/tests/certificates"
SERVER_CORE, CLIENT_CORE = 0, 1
OBJECTS = 1000
# warp reports nothing of a shorter run.
WARP_SECONDS = 6


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work for all, and the ratio to reach against each peer."""

    name: str
    operation: str
    size: int
    clients: int
    goals: Mapping[str, float] = field(default_factory=dict)
    signing: str = "unsigned"
    verify: float = 0.0
    is_tls: bool = False

    def url(self, port: int) -> str:
        """Return where the server is."""
        return f"{'https' if self.is_tls else 'http'}://127.0.0.1:{port}"


WARP_GET, WARP_PUT = 1 / 12, 1 / 10

CASES = (
    Case("get-4KiB-1", "get", 4096, 1, {"wrk": 1.05}),
    Case("put-4KiB-1", "put", 4096, 1, {"wrk": 1.05}),
    Case("get-4KiB-16", "get", 4096, 16, {"wrk": 1.0, "warp": WARP_GET}),
    Case("get-4KiB-250", "get", 4096, 250, {"wrk": 1.0, "warp": WARP_GET}),
    Case("put-4KiB-16", "put", 4096, 16, {"wrk": 1.0, "warp": WARP_PUT}),
    Case("put-4KiB-250", "put", 4096, 250, {"wrk": 1.0, "warp": WARP_PUT}),
    Case("put-4KiB-16-hashed", "put", 4096, 16, {"oha": 0.5}, signing="signed"),
    Case("get-1MiB-16", "get", 1 << 20, 16, {"wrk": 0.65}),
    Case("get-1MiB-16-verified", "get", 1 << 20, 16, {"wrk": 1.0}, verify=1.0),
    Case("put-1MiB-16", "put", 1 << 20, 16, {"wrk": 0.8}),
    Case("put-1MiB-16-hashed", "put", 1 << 20, 16, signing="signed"),
    Case("get-4KiB-16-tls", "get", 4096, 16, is_tls=True),
    Case("get-1MiB-16-tls", "get", 1 << 20, 16, is_tls=True),
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
                    "endpoints": [case.url(port)],
                    **(
                        {"tls": {"ca_file": str(CERTIFICATES / "certificate.pem")}}
                        if case.is_tls
                        else {}
                    ),
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
        "per_s": told["requests"] / seconds,
        "own_mib": told["rss_mib"] - told["before_mib"],
    }


def cpu_of(command: list[str]) -> tuple[float, str]:
    """Run a command on the client's core; return its CPU seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), *command], capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{ran.stdout}{ran.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, ran.stdout


def run_wrk(case: Case, port: int, seconds: float, folder: Path) -> float:
    """Return CPU microseconds per request of one round of wrk."""
    command = ["wrk", "-t1", f"-c{case.clients}", f"-d{max(1, round(seconds))}s"]
    if case.operation == "put":
        script = folder / f"put-{case.size}.lua"
        script.write_text(PUT_SCRIPT.format(size=case.size, objects=OBJECTS))
        command += ["-s", str(script)]
    cpu_s, told = cpu_of([*command, f"{case.url(port)}/bench/o-1"])
    words = next(line for line in told.splitlines() if " requests in " in line).split()
    return cpu_s * 1e6 / int(words[0])


def run_oha(case: Case, port: int, seconds: float, folder: Path) -> float:
    """Return CPU microseconds per request of one round of oha."""
    command = ["oha", "-z", f"{seconds}s", "-c", str(case.clients)]
    command += ["--no-tui", "--output-format", "json", "--insecure"]
    command += ["--aws-sigv4", "aws:amz:us-east-1:s3", "-a", "bench:bench-secret"]
    if case.operation == "put":
        body = folder / f"body-{case.size}"
        body.write_bytes(os.urandom(case.size))
        command += ["-m", "PUT", "-D", str(body)]
    cpu_s, told = cpu_of([*command, f"{case.url(port)}/bench/o-1"])
    statuses = json.loads(told)["statusCodeDistribution"]
    if set(statuses) != {"200"}:
        raise SystemExit(f"oha: {statuses}")
    return cpu_s * 1e6 / statuses["200"]


def run_warp(case: Case, port: int, _seconds: float, folder: Path) -> float:
    """Return CPU microseconds per request of one round of warp, its own analysis included."""
    data = folder / "warp"
    command = ["warp", case.operation, "--host", f"127.0.0.1:{port}", "--bucket", "bench"]
    command += ["--access-key", "bench", "--secret-key", "bench-secret", "--noclear", "--no-color"]
    command += ["--obj.size", str(case.size), "--concurrent", str(case.clients)]
    command += ["--duration", f"{WARP_SECONDS}s", "--benchdata", str(data)]
    if case.operation == "get":
        command += ["--objects", "64"]
    cpu_s, _ = cpu_of(command)
    packed = data.with_suffix(".json.zst")
    told = json.loads(
        subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
    )
    packed.unlink()
    return cpu_s * 1e6 / told["total"]["total_requests"]


PEERS: dict[str, Callable[[Case, int, float, Path], float]] = {
    "wrk": run_wrk,
    "oha": run_oha,
    "warp": run_warp,
}
# What a peer would do of a case that it does not do alike says nothing.
ALIKE = {"oha": ("unsigned", "signed"), "wrk": ("unsigned",), "warp": ("unsigned", "signed")}


# The null server speaks no TLS: another server does, whose share of a request is not counted.
NGINX_CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 100000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {certificates}/certificate.pem; ssl_certificate_key {certificates}/key.pem;
    location / {{ root {folder}; try_files /object =404; }}
  }}
}}
"""


def server_command(case: Case, port: int, folder: Path) -> list[str]:
    """Return how a case's server is started."""
    config = folder / f"{case.name}.conf"
    if case.is_tls:
        (folder / "object").write_bytes(os.urandom(case.size))
        folder.chmod(0o755)
        text = NGINX_CONFIG.format(folder=folder, port=port, certificates=CERTIFICATES)
        config.write_text(text)
        return ["nginx", "-c", str(config), "-e", str(folder / "error.log")]
    settings = {"port": port, "threads": 1, "object_bytes": case.size}
    if case.verify:
        # For reads that are verified it serves the very objects of the trial.
        settings["trial"] = json.loads(document(case, port, 1.0))
    config.write_text(json.dumps(settings))
    binary = os.environ.get("LOADSTONE_STORE_BIN", str(ROOT / "target/release/loadstone-store"))
    return [binary, "null", str(config)]


def start_server(case: Case, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a case's server on its core and return it with its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CORE), *server_command(case, port, folder)],
        stdout=subprocess.DEVNULL,
    )
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.02)
    server.terminate()
    raise SystemExit("the server did not start")


def measure(
    case: Case, peers: list[str], rounds: int, seconds: float, folder: Path
) -> list[dict[str, object]]:
    """Run loadstone and its peers in turn and return a row of the table for each peer."""
    peers = [peer for peer in peers if case.signing in ALIKE[peer]]
    if case.is_tls and shutil.which("nginx") is None:
        print(f"| {case.name:<20} | no nginx on PATH")
        return []
    if case.is_tls or case.verify:
        # It reads what it has put, and these servers have objects of their own and no other.
        peers = [peer for peer in peers if peer != "warp"]
    server, port = start_server(case, folder)
    ours: list[dict[str, float]] = []
    theirs: dict[str, list[float]] = {peer: [] for peer in peers}
    try:
        for _ in range(rounds):
            ours.append(run_loadstone(case, port, seconds))
            for peer in peers:
                theirs[peer].append(PEERS[peer](case, port, seconds, folder))
    finally:
        server.terminate()
        server.wait()
    rows: list[dict[str, object]] = []
    for peer, costs in theirs.items():
        ratios = [mine["us"] / cost for mine, cost in zip(ours, costs, strict=True)]
        ratio, goal = statistics.median(ratios), case.goals.get(peer)
        rows.append(
            {
                "case": case.name,
                "us": statistics.median(row["us"] for row in ours),
                "peer": peer,
                "peer_us": statistics.median(costs),
                "ratio": ratio,
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "goal": goal,
                "is_met": None if goal is None else ratio <= goal,
                "per_s": statistics.median(row["per_s"] for row in ours),
                "own_mib": statistics.median(row["own_mib"] for row in ours),
            }
        )
    return rows


def print_row(row: dict[str, object]) -> None:
    """Print a line of the table."""
    goal = "–" if row["goal"] is None else f"{row['goal']:.2f}"
    met = {None: "", True: "yes", False: "no"}[row["is_met"]]
    spread = f"{row['ratio_min']:.2f}–{row['ratio_max']:.2f}"
    print(
        f"| {row['case']:<20} | {row['us']:>8.2f} | {row['peer']:<4} | {row['peer_us']:>8.2f} "
        f"| {row['ratio']:>5.2f} | {spread:<9} | {goal:>4} | {met:<3} | {row['own_mib']:>7.1f} |",
        flush=True,
    )


def main() -> None:
    """Measure every case that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this; may be repeated")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    peers = [peer for peer in options.peer or PEERS if shutil.which(peer)]
    if not peers:
        raise SystemExit("error: none of wrk, oha and warp on PATH\nhint: apt-get install wrk")
    print(
        "| case                 | ours µs  | peer | its µs   | ratio | spread    | goal | met "
        "| own MiB |\n"
        "|----------------------|----------|------|----------|-------|-----------|------|-----"
        "|---------|"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not options.case or case.name in options.case:
                for row in measure(case, peers, options.rounds, options.seconds, Path(folder)):
                    rows.append(row)
                    print_row(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
