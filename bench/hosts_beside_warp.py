"""Compares how simultaneously clients of warp and agents of loadstone start, and how each handles a
loss.

    python bench/hosts_beside_warp.py WARP [--rounds 5]

Three of each on this machine put objects of 4 KiB into an embedded store for ten seconds. A proxy
in front of the store records the arrival of each process's first object, so that its own delay is
in both columns. Then one process of three is killed after five seconds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from loadstone import _loadgen
from loadstone.results.store import read_run
from tests.system.test_hosts import agents_of

KEYS = {"access_key": "STOREACCESS", "secret_key": "store-secret"}
PORTS = (7761, 7762, 7763)
OBJECT = re.compile(rb"PUT /[^/? ]+/(?!\.loadstone)[^ ?]+ HTTP")
CAMPAIGN = """\
name: beside
targets:
  store:
    {{driver: s3, endpoint: "{url}", access_key: {{env: ACCESS}}, secret_key: {{env: SECRET}}}}
hosts: {{launch: local, count: 3}}
dataset: {{objects: 100000, size: 4KiB}}
load: {{threads: 4}}
phases: [{{op: put, duration: 10s}}]
"""


class Proxy:
    """Forwards bytes to a store, and records when each process sends its first object."""

    def __init__(self, port: int) -> None:
        self.first: dict[int, float] = {}
        self.processes: list[int] = []
        self._to = port
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()
        self._is_open.wait()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._is_open.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = self._owner(writer.get_extra_info("peername")[1])
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        await asyncio.gather(self._pass(reader, back, owner), self._pass(there, writer, None))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, owner: int | None
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                if owner is not None and owner not in self.first and OBJECT.match(piece):
                    self.first[owner] = time.monotonic()
                writer.write(piece)
                await writer.drain()
            writer.close()

    def _owner(self, port: int) -> int | None:
        """Return the process whose socket has a local port."""
        inode = None
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1] == f"0100007F:{port:04X}":
                inode = fields[9]
        for process in self.processes:
            with contextlib.suppress(OSError):
                for file in Path(f"/proc/{process}/fd").iterdir():
                    if os.readlink(file) == f"socket:[{inode}]":
                        return process
        return None


@contextlib.contextmanager
def warp_clients(warp: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a client of warp on each port."""
    clients = [
        subprocess.Popen(
            [warp, "client", f"127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for port in PORTS
    ]  # fmt: skip
    try:
        time.sleep(2)
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.wait()


def run_warp(warp: str, proxy: Proxy, folder: Path, *, is_killed: bool) -> None:
    """Put by warp, and print the result."""
    with warp_clients(warp) as clients:
        proxy.first, proxy.processes = {}, [client.pid for client in clients]
        words = [
            warp, "put", "--no-color",
            "--warp-client", ",".join(f"127.0.0.1:{port}" for port in PORTS),
            "--host", f"127.0.0.1:{proxy.port}", "--access-key", KEYS["access_key"],
            "--secret-key", KEYS["secret_key"], "--duration", "10s", "--concurrent", "4",
            "--obj.size", "4KiB", "--bucket", "beside-warp", "--benchdata", str(folder / "warp"),
        ]  # fmt: skip
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        killed = wait_and_kill(proxy, clients[1].pid) if is_killed else None
        out, _ = process.communicate(timeout=180)
    tell("warp", proxy, process.returncode, killed, began)
    if is_killed:
        print(out.decode(errors="replace").replace("\r", "\n")[-1800:])
        files = [path.name for path in folder.glob("warp*")]
        print(f"files: {files}")


def run_loadstone(proxy: Proxy, folder: Path, *, is_killed: bool) -> None:
    """Put by three agents of loadstone, and print the result."""
    file = folder / "campaign.yaml"
    file.write_text(CAMPAIGN.format(url=f"http://127.0.0.1:{proxy.port}"))
    keys = {"ACCESS": KEYS["access_key"], "SECRET": KEYS["secret_key"]}
    began = time.monotonic()
    run = folder / f"run-{began}"
    process = subprocess.Popen(
        [sys.executable, "-m", "loadstone", "run", str(file), "-o", str(run)],
        env={**os.environ, **keys}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    proxy.first, proxy.processes = {}, []
    while len(proxy.processes) < 3:
        time.sleep(0.05)
        proxy.processes = agents_of(process.pid)
    killed = wait_and_kill(proxy, proxy.processes[1]) if is_killed else None
    out, _ = process.communicate(timeout=180)
    tell("loadstone", proxy, process.returncode, killed, began)
    (record,) = (record for record in read_run(run).records if record.trial["measured"])
    hosts = record.summary["hosts"]
    late_ns = [host["start_error_ns_max"] for host in hosts if host["state"] == "finished"]
    print(f"  late by {[late / 1e6 for late in late_ns]} ms")
    if is_killed:
        print(out.decode(errors="replace")[-1200:])
        print(f"hosts: {[(host['name'], host['state'], host['requests']) for host in hosts]}")


def wait_and_kill(proxy: Proxy, process: int) -> float:
    """Kill a process five seconds after the first object; return the time."""
    while len(proxy.first) < 3:
        time.sleep(0.02)
    time.sleep(5)
    os.kill(process, signal.SIGKILL)
    return time.monotonic()


def tell(name: str, proxy: Proxy, code: int, killed: float | None, began: float) -> None:
    """Print when the processes started, and when all had ended."""
    now, times = time.monotonic(), sorted(proxy.first.values())
    apart_ms = (times[-1] - times[0]) * 1000 if times else float("nan")
    after = "" if killed is None else f", {now - killed:.1f} s after one was killed"
    APART.setdefault(name, []).append(apart_ms)
    print(f"{name}: {len(times)} began within {apart_ms:.1f} ms; exit code {code}, "
          f"{now - began:.1f} s in all{after}", flush=True)  # fmt: skip


APART: dict[str, list[float]] = {}


def main() -> None:
    """Print the start differences of both, and the effects of a loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("warp")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    store = _loadgen.Store(json.dumps(KEYS))
    proxy = Proxy(store.port)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(wanted.rounds):
            run_warp(wanted.warp, proxy, Path(folder), is_killed=False)
            run_loadstone(proxy, Path(folder), is_killed=False)
        for name, apart_ms in APART.items():
            print(f"{name}: apart, median {statistics.median(apart_ms):.1f} ms,"
                  f" at most {max(apart_ms):.1f} ms")  # fmt: skip
        run_warp(wanted.warp, proxy, Path(folder), is_killed=True)
        run_loadstone(proxy, Path(folder), is_killed=True)
    store.stop()
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
