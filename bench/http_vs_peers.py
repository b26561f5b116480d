"""Compares the CPU time that a request costs loadstone and its peers, against one null server.

The peers are wrk, oha and warp, each where it is on PATH. The null server has core 0, the client
core 1. Rounds alternate, so that a slow drift of the machine hits all alike, and each figure is the
median of its rounds; the ratio is taken within each round, and its spread is given, too.
`--at-once` two clients share the core, so that what is fast and passes hits both alike too. CPU
time is the kernel's account of the whole client process, not of its busiest thread.

What they do is not the same. loadstone signs, checks status and headers, puts unique payload, and
records every request. wrk sends one fixed request, unsigned, and checks nothing; for puts a script
gives it one body. oha signs and hashes every body, and puts one body. warp
does all that loadstone does, with random payload. "floor" is no client: it sends one fixed request,
waits and discards the answer, by epoll or, where it is named, by io_uring, so what it needs is the
kernel's (`cargo build --release -p loadstone-loadgen --example floor`).

    python bench/http_vs_peers.py [--rounds 5] [--seconds 2] [--case get-4KiB-16] [--peer wrk]
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ratios import Row, Table, ratio
from trials import (
    ON_SERVER_CORE,
    ROOT,
    Document,
    add_at_once_option,
    cpu_of,
    example,
    in_rounds,
    run,
)
from trials import document as trial_document

CERTIFICATES = ROOT / "crates/loadgen/tests/certificates"
OBJECTS = 1000
# warp prints no report for shorter runs.
WARP_SECONDS = 6


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work for all, and the target ratio against each peer."""

    name: str
    operation: str
    size: int
    clients: int
    goals: Mapping[str, float] = field(default_factory=dict)
    signing: str = "unsigned"
    verify: float = 0.0
    is_tls: bool = False

    def url(self, port: int) -> str:
        """Return the server's URL."""
        return f"{'https' if self.is_tls else 'http'}://127.0.0.1:{port}"

    def is_small(self) -> bool:
        """Tell whether the kernel transfers a request in one piece, without further work."""
        return self.size == 4096 and self.signing == "unsigned" and not self.is_tls


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

# wrk with one fixed request for reads; writes need a script, its only way to send a body.
PUT_SCRIPT = """
wrk.method = "PUT"
wrk.body = string.rep("x", {size})
local number = 0
request = function()
  number = number + 1
  return wrk.format(nil, "/bench/o-" .. (number % {objects}))
end
"""


def document(case: Case, port: int, seconds: float) -> Document:
    """Return the trial document of a case."""
    settings = {
        "endpoints": [case.url(port)],
        "access_key": {"env": "BENCH_ACCESS_KEY"},
        "secret_key": {"env": "BENCH_SECRET_KEY"},
        "payload_signing": case.signing,
    }
    if case.is_tls:
        settings["tls"] = {"ca_file": str(CERTIFICATES / "certificate.pem")}
    dataset = {"objects": OBJECTS, "size": case.size}
    stop = {"duration_ns": int(seconds * 1e9)}
    others = {"verify": case.verify, "allow_foreign": True}
    return trial_document("s3", settings, dataset, case.operation, case.clients, stop, **others)


def wrk_command(case: Case, port: int, seconds: float, folder: Path) -> list[str]:
    """Return wrk's command for a case; it prints its latencies, too."""
    command = ["wrk", "-t1", f"-c{case.clients}", f"-d{max(1, round(seconds))}s", "--latency"]
    if case.operation == "put":
        script = folder / f"put-{case.size}.lua"
        script.write_text(PUT_SCRIPT.format(size=case.size, objects=OBJECTS))
        command += ["-s", str(script)]
    return [*command, f"{case.url(port)}/bench/o-1"]


def run_wrk(case: Case, port: int, seconds: float, folder: Path) -> float:
    """Return CPU microseconds per request of one round of wrk."""
    cpu_s, output = cpu_of(wrk_command(case, port, seconds, folder))
    words = next(line for line in output.splitlines() if " requests in " in line).split()
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
    cpu_s, output = cpu_of([*command, f"{case.url(port)}/bench/o-1"])
    statuses = json.loads(output)["statusCodeDistribution"]
    if set(statuses) != {"200"}:
        raise SystemExit(f"oha: {statuses}")
    return cpu_s * 1e6 / int(statuses["200"])


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
    summary = json.loads(
        subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
    )
    packed.unlink()
    return cpu_s * 1e6 / int(summary["total"]["total_requests"])


def run_floor(way: str, case: Case, port: int, seconds: float, _folder: Path) -> float:
    """Return CPU microseconds per request of one round of a client that only sends and waits."""
    command = [example("floor"), way, case.operation, str(port), str(case.clients), str(seconds)]
    cpu_s, output = cpu_of(command)
    return cpu_s * 1e6 / int(output)


@dataclass(frozen=True)
class Peer:
    """Another program, and whether its work in a case is comparable."""

    program: str
    run: Callable[[Case, int, float, Path], float]
    does: Callable[[Case], bool]


PEERS = {
    "wrk": Peer("wrk", run_wrk, lambda case: case.signing == "unsigned"),
    "oha": Peer("oha", run_oha, lambda case: True),
    # It only reads its own objects; other servers, and a null server for verified reads, have
    # theirs only.
    "warp": Peer("warp", run_warp, lambda case: not case.is_tls and not case.verify),
} | {
    name: Peer(example("floor"), partial(run_floor, way), Case.is_small)
    for name, way in (("floor", "epoll"), ("floor-io_uring", "io_uring"))
}
# Not every kernel allows io_uring.
BY_DEFAULT = ("wrk", "oha", "warp", "floor")


# The null server has no TLS, so another server is used, whose CPU time is not counted.
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
    """Return the command of a case's server."""
    config = folder / f"{case.name}.conf"
    if case.is_tls:
        (folder / "object").write_bytes(os.urandom(case.size))
        folder.chmod(0o755)
        text = NGINX_CONFIG.format(folder=folder, port=port, certificates=CERTIFICATES)
        config.write_text(text)
        return ["nginx", "-c", str(config), "-e", str(folder / "error.log")]
    settings: Document = {"port": port, "threads": 1, "object_bytes": case.size}
    if case.verify:
        # For verified reads it serves the trial's own objects.
        settings["trial"] = document(case, port, 1.0)
    config.write_text(json.dumps(settings))
    binary = os.environ.get("LOADSTONE_STORE_BIN", str(ROOT / "target/release/loadstone-store"))
    return [binary, "null", str(config)]


@contextlib.contextmanager
def serving(case: Case) -> Iterator[int]:
    """Run a case's server on its core; yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [*ON_SERVER_CORE, *server_command(case, port, Path(folder))]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()
            server.wait()


def wait_for(port: int) -> None:
    """Wait until a server accepts connections."""
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit("the server did not start")


@dataclass(frozen=True)
class Work:
    """The repetitions and the mode of a case's measurement."""

    rounds: int
    seconds: float
    at_once: bool


def measure(case: Case, peers: list[str], work: Work, folder: Path) -> Iterator[Row]:
    """Run loadstone and its peers and give a row of the table for each peer."""
    if case.is_tls and shutil.which("nginx") is None:
        print(f"| {case.name:<20} | no nginx on PATH")
        return
    with serving(case) as port:
        ours = partial(run, document(case, port, work.seconds), with_intervals=False)
        theirs = {
            peer: partial(PEERS[peer].run, case, port, work.seconds, folder)
            for peer in peers
            if PEERS[peer].does(case)
        }
        rounds_of = in_rounds(ours, theirs, work.rounds, at_once=work.at_once)
    for peer, rounds in rounds_of.items():
        ours_of_rounds, costs = zip(*rounds, strict=True)
        ratios, goal = (
            ratio("ratio", [trial.us for trial in ours_of_rounds], costs),
            case.goals.get(peer),
        )
        yield {
            "case": case.name,
            "us": statistics.median(trial.us for trial in ours_of_rounds),
            "peer": peer,
            "peer_us": statistics.median(costs),
            **ratios,
            "goal": goal,
            "is_met": None if goal is None else ratios["ratio"] <= goal,
            "per_s": statistics.median(trial.requests / work.seconds for trial in ours_of_rounds),
            "own_mib": statistics.median(trial.own_mib for trial in ours_of_rounds),
        }


def measure_medians(case: Case, rounds: int, seconds: float, folder: Path) -> Row:
    """Run loadstone and wrk in turn and give a row with the medians of their service times."""
    ours, theirs = [], []
    with serving(case) as port:
        for _ in range(rounds):
            ours.append(run(document(case, port, seconds), with_intervals=True).service_p50_us)
            _, output = cpu_of(wrk_command(case, port, seconds, folder))
            number, unit = re.findall(r"^ +50% +([\d.]+)(us|ms|s)$", output, re.MULTILINE)[0]
            theirs.append(float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit])
    medians = {"us": statistics.median(ours), "wrk_us": statistics.median(theirs)}
    return {"case": case.name, **medians, **ratio("ratio", ours, theirs)}


MEDIAN_COLUMNS = (
    ("one at a time: service time, p50", "{case:<32}"),
    ("ours µs ", "{us:>8.2f}"),
    ("wrk's µs", "{wrk_us:>8.2f}"),
    ("ratio", "{ratio:>5.2f}"),
    ("spread   ", "{ratio_min:.2f}–{ratio_max:.2f}"),
)
COLUMNS = (
    ("case                ", "{case:<20}"),
    ("ours µs ", "{us:>8.2f}"),
    ("peer          ", "{peer:<14}"),
    ("its µs  ", "{peer_us:>8.2f}"),
    ("ratio", "{ratio:>5.2f}"),
    ("spread   ", "{ratio_min:.2f}–{ratio_max:.2f}"),
    ("goal", "{shown_goal:>4}"),
    ("met", "{met:<3}"),
    ("own MiB", "{own_mib:>7.1f}"),
)


def main() -> None:
    """Measure every requested case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    add_at_once_option(parser)
    names = [case.name for case in CASES]
    only = "only this one; may be repeated"
    parser.add_argument("--case", action="append", choices=names, metavar="CASE", help=only)
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this; may be repeated")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    peers = [peer for peer in options.peer or BY_DEFAULT if shutil.which(PEERS[peer].program)]
    for peer in set(options.peer or BY_DEFAULT) - set(peers):
        print(f"no {peer} here: it is left out")
    if options.at_once and "warp" in peers:
        print(f"warp runs for {WARP_SECONDS} s, most of them alone then: it is left out")
        peers.remove("warp")
    if not peers:
        named = ", ".join(options.peer or BY_DEFAULT)
        raise SystemExit(
            f"error: none of {named} is here\n"
            "hint: apt-get install wrk, or cargo build --release -p loadstone-loadgen --examples"
        )
    cases = [case for case in CASES if not options.case or case.name in options.case]
    work = Work(options.rounds, options.seconds, options.at_once)
    table = Table(COLUMNS, options.json)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            for row in measure(case, peers, work, Path(folder)):
                goal = "–" if row["goal"] is None else f"{row['goal']:.2f}"
                met = {None: "", True: "yes", False: "no"}[row["is_met"]]
                table.add(row, shown_goal=goal, met=met)
        has_medians = "wrk" in peers and not options.at_once
        one_at_a_time = [case for case in cases if case.clients == 1 and has_medians]
        if one_at_a_time:
            medians = Table(MEDIAN_COLUMNS, None)
        for case in one_at_a_time:
            medians.add(measure_medians(case, options.rounds, options.seconds, Path(folder)))


if __name__ == "__main__":
    main()
