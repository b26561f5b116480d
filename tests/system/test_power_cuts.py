"""Survival of acknowledged writes after a power cut that loses all data that was not synced."""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.command import loadstone
from tests.system.servers import light_s3, unsynced
from tests.system.servers.fixtures import need_fuse
from tests.system.servers.install import BIN
from tests.system.servers.processes import Processes, free_ports, scratch_directory
from tests.system.test_bestiary import SERVE
from tests.system.test_card import port_of
from tests.system.test_durability import SMALL, faults_in

UNSYNCED = f"{sys.executable} {unsynced.__file__}"
KEYS = {"AWS_ACCESS_KEY_ID": light_s3.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": light_s3.SECRET_KEY}
SERVER_KEYS = {
    f"{prefix}{name}": value
    for prefix, names in (
        ("LOADSTONE_", ("ACCESS_KEY", "SECRET_KEY")), ("ROOT_", ("ACCESS_KEY", "SECRET_KEY")),
        ("MINIO_ROOT_", ("USER", "PASSWORD")),
    )
    for name, value in zip(names, KEYS.values(), strict=True)
}  # fmt: skip


@contextlib.contextmanager
def power(*options: str) -> Iterator[Path]:
    """Mount the file system whose power can be cut."""
    need_fuse()
    with scratch_directory("unsynced") as directory:
        processes = Processes(directory)
        mount = directory / "mount"
        mount.mkdir()
        processes.start("unsynced", [*UNSYNCED.split(), "mount", mount, *options])
        try:
            processes.wait_for("unsynced", lambda: os.path.ismount(mount))
            yield mount
        finally:
            processes.stop()


def write(path: Path, content: bytes, *, is_synced: bool) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        if is_synced:
            os.fsync(file)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ((), {"synced": b"a", "unsynced": b""}),
        (("--journal",), {"synced": b"a", "unsynced": b"", "unnamed": b"a"}),
    ],
)
def test_a_cut_leaves_bytes_and_names_as_they_were_synced(
    options: tuple[str, ...], left: dict[str, bytes]
) -> None:
    """A journal also keeps names created before any fsync, whose directory was not synced."""
    with power(*options) as mount:
        write(mount / "unsynced", b"b", is_synced=False)
        write(mount / "synced", b"a", is_synced=True)
        directory = os.open(mount, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        write(mount / "synced", b"later", is_synced=False)
        write(mount / "unnamed", b"a", is_synced=True)
        write(mount / "later", b"b", is_synced=False)
        (mount / "synced").rename(mount / "renamed")
        unsynced.cut(mount)
        assert {path.name: path.read_bytes() for path in mount.iterdir()} == left


@dataclass(frozen=True)
class Case:
    """A server over the file system: its command, and which share it loses at a power cut."""

    command: str
    options: tuple[str, ...] = ()
    lost: str = "all"


CASES = {
    "embedded": Case(f"{SERVE} --port PORT --data MOUNT", ("--journal",)),
    "embedded with fsync": Case(f"{SERVE} --port PORT --data MOUNT --fsync", lost="none"),
    "versitygw": Case(
        f"{BIN / 'versitygw'} --port 127.0.0.1:PORT --quiet posix MOUNT", ("--journal",)
    ),
    "minio": Case(
        f"{BIN / 'minio'} server --quiet --address 127.0.0.1:PORT --console-address "
        "127.0.0.1:CONSOLE MOUNT"
    ),
}  # fmt: skip


@pytest.mark.long(cpu_s=7)
@pytest.mark.parametrize("name", CASES)
def test_a_store_that_does_not_sync_survives_a_kill_and_no_power_cut(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    if not Path(case.command.split()[0]).exists():
        pytest.skip(f"{name} is not installed here: tests.system.servers install {name}")
    url, pid_file = f"http://127.0.0.1:{free_ports(1)}", tmp_path / "pid"
    with power(*case.options) as mount:
        server = (
            case.command.replace("MOUNT", str(mount))
            .replace("PORT", str(port_of(url)))
            .replace("CONSOLE", str(free_ports(1)))
        )
        finished = loadstone(
            "audit", "durability", url, *SMALL, "--times", "2", "-o", tmp_path / "run",
            "--start", f"sh -c 'echo $$ > {pid_file}; exec {server}'",
            "--power-cut", f"{UNSYNCED} cut {mount} {pid_file}",
            environment={**KEYS, **SERVER_KEYS},
        )  # fmt: skip
    kill, cut = (faults_in(finished)[fault] for fault in ("kill", "power_cut"))
    assert (kill["times"], kill["wrong"]) == (2, 0), finished.err
    assert cut["times"] == 2, finished.err
    assert min(kill["read_back"], cut["read_back"]) > 0, finished.err
    assert cut["wrong"] == (cut["read_back"] if case.lost == "all" else 0), finished.err
    assert finished.json()["class"] == ("buffered" if case.lost == "all" else "synced")
