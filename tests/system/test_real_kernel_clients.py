"""The clients of Ceph in the kernel: images mapped by rbd and rbd-nbd, CephFS mounted.

They are tried in a guest, for the host's kernel may lack the modules, by the commands of
docs/how-to/rbd.md and docs/how-to/cephfs.md.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.devices import DEVICES, DIRECTORIES, row
from tests.system.command import NO_STATE, trials_of
from tests.system.servers import guest as guests
from tests.system.servers.ceph import Cluster
from tests.system.servers.guest import Guest, ScriptResult
from tests.system.servers.install import GUEST, PROJECT

pytestmark = pytest.mark.real

# Requests of a phase that would take a minute, and how long one may take.
REQUESTS, PATIENT = 64, "seed: 1\ntimeout: 20min"
# The paths in the how-tos.
MAPPED, MAPPED_BY_NBD, MOUNTED = "/dev/rbd/rbd/loadstone", "/dev/nbd0", "/mnt/cephfs"
# The conformance suite's names.
ROWS = (row("device", MAPPED), row("device", MAPPED_BY_NBD), row("directory", MOUNTED))

# Prints what is left of the devices in the end.
UNTIL_UNMAPPED = """
for _ in {1..600}; do
    servers=$(pidof rbd-nbd || true)
    mapped=$(rbd showmapped)
    by_nbd=$(rbd-nbd list-mapped)
    devices=$(find /dev -maxdepth 1 -name 'rbd*')
    left=$servers$mapped$by_nbd$devices
    [ -n "$left" ] || break
    sleep 0.2
done
echo -n "$left"
"""


@pytest.fixture(scope="module")
def guest(ceph_server: Cluster) -> Iterator[Guest]:
    """Boot a guest that knows the cluster."""
    missing = guests.missing(GUEST)
    if missing:
        pytest.skip(f"no guest can be booted here ({', '.join(missing)}): make servers")
    for number in range(ceph_server.shape.osds):
        # The kernel renews its watches every 5 s, which this cluster takes for dead after 4; on a
        # slow host a guest may be late by minutes.
        watch = ["config", "set", "osd_client_watch_timeout", "600"]
        ceph_server.command("tell", f"osd.{number}", *watch)
    with guests.running(GUEST) as booted:
        settings = booted.directory / "ceph"
        settings.mkdir()
        (settings / "ceph.conf").write_text(f"[global]\nmon host = {ceph_server.monitors}\n")
        for name, keyring in (
            ("admin", ceph_server.keyring.read_text()),
            ("bench", ceph_server.authorize("bench")),
        ):
            (settings / f"ceph.client.{name}.keyring").write_text(keyring)
        run(booted, f"cp {settings}/* /etc/ceph/")
        yield booted


@pytest.fixture(scope="module")
def devices(guest: Guest) -> Iterator[list[str]]:
    """Map an image by the kernel's client and one by librbd, as the how-to says, and unmap them."""
    finished = run(guest, "rbd create --size 64G rbd/loadstone", "rbd map rbd/loadstone")
    assert finished.out.split() == ["/dev/rbd0"]
    finished = run(guest, "rbd create --size 64G rbd/other", "rbd-nbd map rbd/other")
    assert finished.out.split() == [MAPPED_BY_NBD]
    yield [MAPPED, MAPPED_BY_NBD]
    # udev looks at a device that was written to, which keeps it in use meanwhile.
    run(guest, "udevadm settle -t 600", "rbd unmap rbd/loadstone", "rbd-nbd unmap rbd/other")
    # A client ends, and udev takes its names away, some time after the command.
    assert not run(guest, UNTIL_UNMAPPED).out
    run(guest, "rbd rm --no-progress rbd/loadstone", "rbd rm --no-progress rbd/other")


@pytest.fixture(scope="module")
def mount(guest: Guest) -> Iterator[str]:
    """Mount the file system by the kernel's client, as the how-to says, and unmount it."""
    make = [f"mkdir -p {MOUNTED}", f"mount -t ceph :/ {MOUNTED} -o name=bench"]
    run(guest, *make, f"mkdir {MOUNTED}/loadstone")
    yield MOUNTED
    run(guest, f"umount {MOUNTED}")


def run(guest: Guest, *commands: str) -> ScriptResult:
    """Run commands in the guest, each of which has to succeed."""
    result = guest.run("\n".join(["set -e", *commands]))
    assert result.code == 0, result.out + result.err
    return result


def python(words: str, **environment: str) -> str:
    """Return a command that runs this interpreter with the packages of this host."""
    values = {"PYTHONPATH": f"{PROJECT}/python", "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE}
    values |= environment
    settings = " ".join(f"{name}='{value}'" for name, value in values.items())
    return f"cd {PROJECT} && {settings} {sys.executable} {words}"


def scaled(name: str, **changes: str) -> str:
    """Return an example of ours with less to do, whose phases end by counts and not by seconds."""
    text = (PROJECT / "examples" / f"{name}.yaml").read_text()
    counted = {"duration: 60s, warm_up: 5s": f"requests: {REQUESTS}", "seed: 1": PATIENT}
    for before, after in (counted | changes).items():
        assert before in text, f"{name}.yaml has no {before} any more"
        text = text.replace(before, after)
    return text


def measured(folder: Path) -> list[dict[str, Any]]:
    """Read the measured trials of a finished run, all of whose requests were made and went well."""
    assert json.loads((folder / "manifest.json").read_text())["state"] == "finished"
    trials = [trial for trial in trials_of(folder) if trial["trial"]["measured"]]
    for trial in trials:
        summary = trial["summary"]
        assert summary["failed"] == 0, summary["error_examples"]
        stop = trial["trial"]["stop"]
        assert (summary["requests"], stop["duration_ns"]) == (stop["requests"], None)
    return trials


def conformance(guest: Guest, devices: list[str], mount: str, which: str) -> None:
    """Run tests of the conformance suite in the guest."""
    # Its plugin for repeats listens on 127.0.0.1, which is not the guest's.
    plugins = "-p no:cacheprovider -p no:rerunfailures"
    tests = f"tests/conformance {plugins} -q -k '{which}' -m 'not real and not long'"
    named = {DEVICES: " ".join(devices), DIRECTORIES: mount}
    result = guest.run(python(f"-m pytest {tests}", **named))
    assert result.code == 0, result.out[-8000:] + result.err[-2000:]
    assert " passed" in result.out.splitlines()[-1]


def test_operations_have_their_effects(guest: Guest, devices: list[str], mount: str) -> None:
    """Each operation of the drivers block and file, on both devices and the mount."""
    rows = f"({' or '.join(ROWS)})"
    conformance(guest, devices, mount, f"test_each_operation_has_its_effect and {rows}")


@pytest.mark.long(cpu_s=80)
@pytest.mark.parametrize("which", [*ROWS, "test_devices"])
def test_the_conformance_suite_holds(
    guest: Guest, devices: list[str], mount: str, which: str
) -> None:
    """The drivers block and file keep their promises there, too.

    An emulated processor takes minutes for it; the host runs the same suite on a loop device, a
    folder and CephFS by fuse.
    """
    conformance(guest, devices, mount, f"{which} and not test_each_operation_has_its_effect")


@pytest.mark.long(cpu_s=200)
def test_the_example_of_an_image_runs_on_both_devices(guest: Guest, devices: list[str]) -> None:
    rbd = f"  rbd: {{driver: block, path: {MAPPED}, direct: true, replication: 3}}\n"
    nbd = rbd.replace("rbd:", "nbd:").replace(MAPPED, MAPPED_BY_NBD)
    nbd = nbd.replace("direct: true", "direct: true, fsync: each, fsync_every: 8")
    campaign = guest.directory / "rbd.yaml"
    last = f"name: large-reads, requests: {REQUESTS}}}\n"
    fewer = {"32GiB": "32MiB", "[1, 16, 64]": "[4]", "blocks: 3": "blocks: 1"}
    fewer |= {last: last + "  - delete\n"}
    campaign.write_text(scaled("rbd", **{rbd: rbd + nbd, "[rbd]": "[rbd, nbd]"}, **fewer))
    folder = guest.directory / "rbd"
    run(guest, python(f"-m loadstone run {campaign} -o {folder}"))
    trials = measured(folder)
    phases = ["fill", "random-reads", "random-writes", "large-reads", "delete"]
    phases_run = [(trial["trial"]["target"]["name"], trial["trial"]["phase"]) for trial in trials]
    assert sorted(phases_run) == sorted(
        (name, phase) for name in ("rbd", "nbd") for phase in phases
    )
    for trial in trials:
        summary, phase = trial["summary"], trial["trial"]["phase"]
        # nbd needs a blocking call for deletes; the kernel's client uses io_uring.
        blocks = (trial["trial"]["target"]["name"], phase) == ("nbd", "delete")
        features = {"engine": "psync", "delete": "BLKDISCARD"} if blocks else {"engine": "io_uring"}
        assert summary["features"] == features
        if phase.endswith("reads"):
            assert summary["verified_bytes"] == summary["bytes"] > 0
    disks = json.loads((folder / "manifest.json").read_text())["host"]["disks"]
    assert disks["rbd0"]["bytes"] == disks["nbd0"]["bytes"] == 64 << 30


@pytest.mark.long(cpu_s=140)
def test_the_example_of_cephfs_runs_on_the_kernels_mount(guest: Guest, mount: str) -> None:
    campaign, folder = guest.directory / "cephfs.yaml", guest.directory / "cephfs"
    fewer = {
        "50_000": "200",
        "1GiB": "16MiB",
        "objects: 16": "objects: 2",
        "buckets: 64": "buckets: 4",
    }
    fewer |= {"threads: 32": "threads: 8", "threads: 16": "threads: 4"}
    text = scaled("cephfs", **fewer).partition("ceilings:")[0]
    campaign.write_text(text)
    run(guest, python(f"-m loadstone run {campaign} -o {folder}"))
    trials = measured(folder)
    assert len(trials) == 8
    for trial in trials:
        summary, phase = trial["summary"], trial["trial"]["phase"]
        if phase == "get" or phase.endswith("reads"):
            assert summary["verified_bytes"] == summary["bytes"] > 0
    finished = run(guest, f"ls {mount}/loadstone", "stat -f -c %T " + mount)
    assert finished.out.split() == ["ceph"], "all that the run made is gone"
