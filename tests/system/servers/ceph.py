"""Ceph as plain processes: a monitor, a manager, three OSDs, an object gateway and an MDS.

Two pools are made for the driver `rados`: `bench` with three copies, and `ecbench` with an erasure
code 2+1. The gateway speaks S3 and Swift; the MDS serves the file system `lsfs`.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.system.servers import ceph_files
from tests.system.servers.ceph_files import (
    OSDS,
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    SWIFT_KEY,
    SWIFT_USER,
)
from tests.system.servers.processes import (
    HOST,
    Processes,
    answers,
    free_ports,
    scratch_directory,
)

# Debian links Ceph with the allocator of glibc, which keeps what it once had unless told so.
MEMORY = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(64 << 10),
}
PROGRAMS = ["ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "radosgw", "radosgw-admin"]

POOLS = """\
osd pool create bench 32 32 replicated
osd pool application enable bench loadstone
osd erasure-code-profile set ec21 k=2 m=1 crush-failure-domain=osd plugin=jerasure
osd pool create ecbench 32 32 erasure ec21
osd pool set ecbench min_size 2
osd pool set ecbench allow_ec_overwrites true
osd pool application enable ecbench loadstone
osd pool create cephfs.meta 8 8 replicated
osd pool create cephfs.data 16 16 replicated
fs new lsfs cephfs.meta cephfs.data
"""

Endpoints = dict[str, dict[str, str]]


def is_installed() -> bool:
    """Tell whether all daemons are there."""
    return all(shutil.which(program) for program in PROGRAMS)


@contextlib.contextmanager
def running() -> Iterator[Endpoints]:
    """Run an empty cluster; give what each kind of client needs to know."""
    with scratch_directory("ceph") as directory:
        processes = Processes(directory)
        try:
            yield up(directory, processes)
        finally:
            # All is thrown away, so no daemon is given time to say goodbye.
            processes.kill()


def up(directory: Path, processes: Processes) -> Endpoints:
    """Start every daemon, make pools and users, and wait until the gateway answers."""
    ports = ceph_files.Ports(free_ports(ceph_files.Ports.count))
    identity = ceph_files.Identity()
    conf = ceph_files.write(directory, ports, identity)
    _start_monitor(directory, processes, conf, ports, identity)
    _start_osds(processes, conf, identity)
    processes.run("pools", ["ceph", "-c", conf], text=POOLS)
    _start_daemon(processes, conf, "mds.a", "ceph-mds", "-i", "a")
    _start_gateway(processes, conf, ports)
    processes.wait_for("placement groups", lambda: _are_clean(processes, conf))
    url = f"http://{HOST}:{ports.gateway}"
    s3 = {"endpoint": url, "access_key": S3_ACCESS_KEY, "secret_key": S3_SECRET_KEY}
    swift = {"auth_url": f"{url}/auth/v1.0", "user": SWIFT_USER, "password": SWIFT_KEY}
    rados = {"conf": str(conf), "keyring": str(directory / "keyring")}
    return {"rados": rados, "s3": s3 | {"region": "default"}, "swift": swift}


def command(processes: Processes, conf: Path, *words: str) -> object:
    """Ask the monitor something, and give back its answer."""
    said = processes.run("command", ["ceph", "-c", conf, "--format", "json", *words])
    return json.loads(said) if said.strip() else None


def _start_monitor(
    directory: Path,
    processes: Processes,
    conf: Path,
    ports: ceph_files.Ports,
    identity: ceph_files.Identity,
) -> None:
    address = f"[v2:{HOST}:{ports.monitor},v1:{HOST}:{ports.monitor_v1}]"
    monitor_map = directory / "monmap"
    make_map = ["monmaptool", "--create", "--fsid", identity.fsid, "--addv", "a", address]
    processes.run("monmaptool", [*make_map, monitor_map])
    make = ["ceph-mon", "-c", conf, "-i", "a", "--mkfs", "--monmap", monitor_map]
    processes.run("mon-mkfs", [*make, "--keyring", directory / "keyring"])
    _start_daemon(processes, conf, "mon.a", "ceph-mon", "-i", "a")
    _start_daemon(processes, conf, "mgr.x", "ceph-mgr", "-i", "x")


def _start_osds(processes: Processes, conf: Path, identity: ceph_files.Identity) -> None:
    def make(number: int) -> None:
        words = ["--mkfs", "--osd-uuid", identity.osds[number]]
        processes.run(f"osd-mkfs.{number}", ["ceph-osd", "-c", conf, "-i", str(number), *words])

    with ThreadPoolExecutor(OSDS) as pool:
        list(pool.map(make, range(OSDS)))
    new = [f"osd new {identity.osds[number]} {number}" for number in range(OSDS)]
    processes.run("osd-new", ["ceph", "-c", conf], text="\n".join(new) + "\n")
    for number in range(OSDS):
        _start_daemon(processes, conf, f"osd.{number}", "ceph-osd", "-i", str(number))


def _start_gateway(processes: Processes, conf: Path, ports: ceph_files.Ports) -> None:
    admin = ["radosgw-admin", "-c", conf, "-n", "client.rgw.a"]
    user = ["--uid=loadstone", "--display-name=loadstone", f"--access-key={S3_ACCESS_KEY}"]
    processes.run("user", [*admin, "user", "create", *user, f"--secret-key={S3_SECRET_KEY}"])
    subuser = ["--uid=loadstone", f"--subuser={SWIFT_USER}", "--access=full", "--key-type=swift"]
    processes.run("subuser", [*admin, "subuser", "create", *subuser, f"--secret-key={SWIFT_KEY}"])
    _start_daemon(processes, conf, "client.rgw.a", "radosgw", "-n", "client.rgw.a")
    url = f"http://{HOST}:{ports.gateway}/swift/healthcheck"
    processes.wait_for("gateway", lambda: answers(url))


def _start_daemon(processes: Processes, conf: Path, name: str, *words: str) -> None:
    program, *options = words
    processes.start(name, [program, "-c", conf, *options, "-f"], MEMORY)


def _are_clean(processes: Processes, conf: Path) -> bool:
    status = command(processes, conf, "status")
    groups = status["pgmap"]["pgs_by_state"]  # type: ignore[index]
    return [group["state_name"] for group in groups] == ["active+clean"]
