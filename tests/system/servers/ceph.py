"""Ceph as plain processes: a monitor, a manager, OSDs, an object gateway and an MDS.

Two pools are made for the driver `rados`: `bench` with three copies, and `ecbench` with an erasure
code 2+1. The gateway speaks S3 and Swift; the MDS serves the file system `lsfs`; the pool `rbd` is
for images.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.system.servers import ceph_files
from tests.system.servers.ceph_files import (
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    SWIFT_KEY,
    SWIFT_USER,
    Shape,
)
from tests.system.servers.processes import (
    HOST,
    Processes,
    answers,
    free_ports,
    scratch_directory,
)

ENVIRONMENT = {
    # Debian links Ceph with glibc's allocator, which keeps freed memory without this setting.
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(64 << 10),
    # Override the user's setting for another cluster.
    "CEPH_ARGS": "",
    "CEPH_CONF": "",
}
# An OSD with data in memory is used for measurements. It keeps freed memory, because the first
# access to new memory can cost the host more than everything else. Other arenas return heaps.
KEEPS_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
# Ceph's Python bindings belong to the system's interpreter.
SYSTEM_PYTHON = "/usr/bin/python3"
PROGRAMS = [
    "ceph",
    "ceph-fuse",
    "ceph-mds",
    "ceph-mgr",
    "ceph-mon",
    "ceph-osd",
    "rados",
    "radosgw",
    "radosgw-admin",
    "rbd-fuse",
    "rbd-nbd",
]

# Space for the data of all tests; the OSDs' files are sparse.
ROOM_BYTES = 6 << 30

POOLS = """\
osd pool create bench 32 32 replicated
osd pool application enable bench loadstone
"""
ERASURE_CODED_POOLS = """\
osd erasure-code-profile set ec21 k=2 m=1 crush-failure-domain=osd plugin=jerasure
osd pool create ecbench 32 32 erasure ec21
osd pool set ecbench min_size 2
osd pool set ecbench allow_ec_overwrites true
osd pool application enable ecbench loadstone
"""
FILE_SYSTEM = """\
osd pool create cephfs.meta 8 8 replicated
osd pool create cephfs.data 16 16 replicated
fs new lsfs cephfs.meta cephfs.data
osd pool create rbd 8 8 replicated
osd pool application enable rbd rbd
"""

Endpoints = dict[str, dict[str, str]]


def missing_programs() -> list[str]:
    """Return the missing parts of Ceph: programs, and the bindings with which tests inspect
    pools.
    """
    missing = [program for program in (SYSTEM_PYTHON, *PROGRAMS) if shutil.which(program) is None]
    bindings = [SYSTEM_PYTHON, "-c", "import rados"]
    if not missing and subprocess.run(bindings, capture_output=True, check=False).returncode:
        missing.append("python3-rados")
    return missing


@contextlib.contextmanager
def running(shape: Shape | None = None) -> Iterator["Cluster"]:
    """Run an empty cluster; its data is discarded at the end."""
    with scratch_directory("ceph", ROOM_BYTES, with_direct=True) as directory:
        cluster = Cluster(directory, shape or Shape())
        try:
            cluster.start()
            yield cluster
        finally:
            # The data is not needed any more, so daemons are killed without a grace period.
            cluster.processes.kill()


class Cluster:
    """A cluster on this host, and the tests' actions on it."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        """Use `directory` for all files of the cluster."""
        self.directory, self.shape = directory, shape
        self.processes = Processes(directory)
        self.ports = ceph_files.Ports(free_ports(ceph_files.Ports.count))
        self.identity = ceph_files.Identity([ceph_files.new_id() for _ in range(shape.osds)])
        self.conf = ceph_files.write(directory, self.ports, self.identity, shape)

    @property
    def keyring(self) -> Path:
        """The file with all keys."""
        return self.directory / "keyring"

    @property
    def monitors(self) -> str:
        """The clients' setting `mon host`."""
        return ceph_files.monitors(self.ports)

    @property
    def endpoints(self) -> Endpoints:
        """The connection settings of each kind of client."""
        url = f"http://{HOST}:{self.ports.gateway}"
        s3 = {"endpoint": url, "access_key": S3_ACCESS_KEY, "secret_key": S3_SECRET_KEY}
        swift = {"auth_url": f"{url}/auth/v1.0", "user": SWIFT_USER, "password": SWIFT_KEY}
        rados = {"conf": str(self.conf), "keyring": str(self.keyring)}
        return {"rados": rados, "s3": s3 | {"region": "default"}, "swift": swift}

    def start(self) -> None:
        """Start every daemon, make pools and users, and wait until all is ready."""
        self._start_monitor()
        self._start_osds()
        self._make_pools()
        if self.shape.has_services:
            self._start_daemon("mds.a", "ceph-mds", "-i", "a")
            self._start_gateway()
            self.processes.wait_for("file system", self._has_active_mds)
        self.wait_until_clean()

    def command(self, *words: str) -> Any:
        """Send the monitor a command, and return its answer."""
        output = self._ceph("command", "--format", "json", *words)
        return json.loads(output) if output.strip() else None

    def authorize(self, name: str) -> str:
        """Create a user who may use the file system; return the keyring."""
        return self._ceph("authorize", "fs", "authorize", "lsfs", f"client.{name}", "/", "rw")

    def kill(self, name: str) -> None:
        """Kill a daemon, such as `osd.1`."""
        self.processes.stop(name, number=signal.SIGKILL)

    def start_osd(self, number: int) -> None:
        """Start an OSD, possibly after it was killed."""
        environment = KEEPS_MEMORY if self.shape.store == "memstore" else {}
        self._start_daemon(f"osd.{number}", "ceph-osd", "-i", str(number), **environment)

    def wait_until_clean(self) -> None:
        """Wait until every object has all its copies."""
        self.processes.wait_for("placement groups", self._is_clean)

    def mount(self, directory: Path) -> contextlib.AbstractContextManager[Path]:
        """Mount the file system with ceph-fuse."""
        options = ["-c", self.conf, "-n", "client.admin", "--client_fs", "lsfs"]
        command: list[str | Path] = ["ceph-fuse", *options, "-f", directory]
        return self._mounted(f"ceph-fuse.{directory.name}", command, directory)

    def mount_images(self, directory: Path) -> contextlib.AbstractContextManager[Path]:
        """Mount the pool `rbd` with rbd-fuse: each image is a file there."""
        command: list[str | Path] = ["rbd-fuse", "-f", "-c", self.conf, "-p", "rbd", directory]
        return self._mounted("rbd-fuse", command, directory)

    @contextlib.contextmanager
    def _mounted(self, name: str, command: list[str | Path], directory: Path) -> Iterator[Path]:
        directory.mkdir()
        self.processes.start(name, command, ENVIRONMENT)
        try:
            self.processes.wait_for(f"mount of {name}", lambda: os.path.ismount(directory))
            yield directory
        finally:
            # A busy file system, or one whose daemon has ended, must be detached, too; the daemon
            # then ends.
            self.processes.run("umount", ["umount", "--lazy", directory])
            self.processes.stop(name)

    def _start_monitor(self) -> None:
        address = self.monitors
        monitor_map = self.directory / "monmap"
        make_map = ["monmaptool", "--create", "--fsid", self.identity.fsid, "--addv", "a", address]
        self.processes.run("monmaptool", [*make_map, monitor_map], ENVIRONMENT)
        make = ["ceph-mon", "-c", self.conf, "-i", "a", "--mkfs", "--monmap", monitor_map]
        self.processes.run("mon-mkfs", [*make, "--keyring", self.keyring], ENVIRONMENT)
        self._start_daemon("mon.a", "ceph-mon", "-i", "a")
        self._start_daemon("mgr.x", "ceph-mgr", "-i", "x")

    def _start_osds(self) -> None:
        osds = self.identity.osds

        def make(number: int) -> None:
            command = ["ceph-osd", "-c", self.conf, "-i", str(number), "--mkfs"]
            identity = ["--osd-uuid", osds[number]]
            self.processes.run(f"osd-mkfs.{number}", [*command, *identity], ENVIRONMENT)

        with ThreadPoolExecutor(len(osds)) as pool:
            list(pool.map(make, range(len(osds))))
        new = [f"osd new {identity} {number}\n" for number, identity in enumerate(osds)]
        self._ceph("osd-new", text="".join(new))
        for number in range(len(osds)):
            self.start_osd(number)

    def _make_pools(self) -> None:
        pools = POOLS
        if self.shape.osds >= 3:
            pools += ERASURE_CODED_POOLS
        if self.shape.has_services:
            pools += FILE_SYSTEM
        self._ceph("pools", text=pools)

    def _start_gateway(self) -> None:
        admin = ["radosgw-admin", "-c", self.conf, "-n", "client.rgw.a"]
        user = ["--uid=loadstone", "--display-name=loadstone", f"--access-key={S3_ACCESS_KEY}"]
        make_user = [*admin, "user", "create", *user, f"--secret-key={S3_SECRET_KEY}"]
        self.processes.run("user", make_user, ENVIRONMENT)
        access = ["--uid=loadstone", f"--subuser={SWIFT_USER}", "--access=full"]
        make_subuser = [*admin, "subuser", "create", *access, "--key-type=swift"]
        self.processes.run("subuser", [*make_subuser, f"--secret-key={SWIFT_KEY}"], ENVIRONMENT)
        self._start_daemon("client.rgw.a", "radosgw", "-n", "client.rgw.a")
        url = f"http://{HOST}:{self.ports.gateway}/swift/healthcheck"
        self.processes.wait_for("gateway", lambda: answers(url))

    def _start_daemon(self, name: str, *words: str, **environment: str) -> None:
        program, *options = words
        command = [program, "-c", self.conf, *options, "-f"]
        self.processes.start(name, command, ENVIRONMENT | environment)

    def _ceph(self, name: str, *words: str, text: str = "") -> str:
        command = ["ceph", "-c", self.conf, "--connect-timeout", "60", *words]
        return self.processes.run(name, command, ENVIRONMENT, text)

    def _has_active_mds(self) -> bool:
        (system,) = self.command("fs", "dump")["filesystems"]
        return any(mds["state"] == "up:active" for mds in system["mdsmap"]["info"].values())

    def _is_clean(self) -> bool:
        status = self.command("status")
        osds = status["osdmap"]["num_up_osds"]
        groups = [group["state_name"] for group in status["pgmap"]["pgs_by_state"]]
        return bool(osds == self.shape.osds and groups == ["active+clean"])
