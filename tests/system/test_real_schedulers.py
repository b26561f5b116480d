"""Agents that a scheduler of the site starts: Open MPI, Slurm, and dask with TLS of its own.

HTCondor is not to be had here: its job is checked as text.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from loadstone.hosts.carrier import Authority
from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, loadstone, start
from tests.system.servers import slurm

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("schedulers")]

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
CAMPAIGN = f"""\
name: scheduled
targets: {{t: {{driver: "null"}}}}
hosts: {{listen: 127.0.0.1, command: {sys.executable} -m loadstone, HOSTS}}
dataset: {{objects: 1000, size: 4KiB}}
load: {{threads: 1, cores: 1}}
phases: [{{op: put, duration: 500ms}}]
"""

WAIT_S = 60.0
"""How long Slurm may take to forget jobs that were cancelled."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    # Daemons name sockets in it, whose paths are short.
    with slurm.running(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def assert_one_load(folder: Path, hosts: str, names: list[str], **environment: str) -> None:
    """Make a load, and look that each agent had its share and nothing is left behind."""
    state = {"XDG_STATE_HOME": str(folder / "state")}
    file = campaigns.write(folder, CAMPAIGN.replace("HOSTS", f"folder: {folder}, {hosts}"))
    finished = loadstone(
        "run", file, "--allow-commands", "-o", folder / "run", environment={**environment, **state}
    )
    assert finished.code == 0, finished.err
    (record,) = read_run(folder / "run").records
    summaries = record.summary["hosts"]
    assert [(host["name"], host["state"]) for host in summaries] == [
        (name, "finished") for name in names
    ]
    assert all(host["requests"] for host in summaries)
    assert sum(host["requests"] for host in summaries) == record.summary["requests"]
    assert not list(folder.glob("invitations-*"))


def test_ranks_of_mpirun_make_one_load(tmp_path: Path) -> None:
    assert shutil.which("mpirun"), "install openmpi: python -m tests.system.servers install slurm"
    hosts = "launch: mpirun, count: 3, options: [--oversubscribe]"
    assert_one_load(tmp_path, hosts, ["rank1", "rank2", "rank3"], **AS_ROOT)


def of_mpirun(folder: Path, command: str) -> Path:
    hosts = f"launch: mpirun, count: 2, options: [--oversubscribe], folder: {folder}"
    text = CAMPAIGN.replace("HOSTS", hosts).replace(f"{sys.executable} -m loadstone", command)
    return campaigns.write(folder, text)


def test_a_command_that_mpirun_cannot_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    file = of_mpirun(tmp_path, "/nowhere/loadstone")
    finished = loadstone(
        "run", file, "--allow-commands", "-o", tmp_path / "run", environment=AS_ROOT
    )
    assert finished.code == 1
    # Told while it was waited for, and as what ended it.
    assert re.search(r"^mpirun: .*/nowhere/loadstone", finished.err, re.MULTILINE)
    assert re.search(r"^error: .*/nowhere/loadstone", finished.err, re.MULTILINE)
    assert not list(tmp_path.glob("invitations-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_ranks_are_waited_for_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\ntrap '' HUP\nsleep 600\n")
    mute.chmod(0o755)
    words = ("run", of_mpirun(tmp_path, str(mute)), "--allow-commands", "-o", tmp_path / "run")
    process = start(*words, environment={**os.environ, **AS_ROOT})
    end = time.monotonic() + WAIT_S
    while len(running(str(mute))) < 2:
        assert time.monotonic() < end, "the ranks never began"
        time.sleep(0.1)
    assert list(tmp_path.glob("invitations-*"))
    process.send_signal(number)
    campaigns.end(process)
    assert process.returncode == 130
    assert not list(tmp_path.glob("invitations-*"))
    while left := running(str(mute)):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def running(program: str) -> list[str]:
    """Return the processes, but mpirun itself, that have a program on their command line."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if program in words and words[0] != "mpirun":
                lines.append(" ".join(words))
    return lines


def test_tasks_of_srun_make_one_load(tmp_path: Path, cluster: Mapping[str, str]) -> None:
    hosts = "launch: srun, count: 2, options: [--overcommit]"
    assert_one_load(tmp_path, hosts, ["rank1", "rank2"], **cluster)


def test_jobs_of_slurm_make_one_load(tmp_path: Path, cluster: Mapping[str, str]) -> None:
    job = "{cores: 1, memory: 100MiB, job_directives_skip: [--mem]}"
    assert_one_load(tmp_path, f"launch: slurm, count: 2, job: {job}", ["job1", "job2"], **cluster)
    # A job that has ended is listed for a moment more, while Slurm cleans up after it.
    end = time.monotonic() + WAIT_S
    while left := subprocess.run(
        ["squeue", "-h"], env=dict(cluster), capture_output=True, text=True, check=True
    ).stdout:
        assert time.monotonic() < end, left
        time.sleep(0.2)
    assert not list(Path.cwd().glob("slurm-*.out"))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("launch: srun, count: 2, options: [--partition=nowhere]", "invalid partition"),
        ("launch: slurm, count: 1, job: {cores: 1, memory: 1MiB, queue: nowhere}", "partition"),
        ("launch: slurm, count: 1, job: {colour: red}", "colour"),
        ("launch: slurm, count: 1", "specify how much cores and memory"),  # others' words
    ],
)
def test_refusals_of_slurm_are_reported(
    tmp_path: Path, cluster: Mapping[str, str], hosts: str, expected: str
) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", f"folder: {tmp_path}, {hosts}"))
    finished = loadstone(
        "run", file, "--allow-commands", "-o", tmp_path / "run", environment=cluster
    )
    assert finished.code == 1
    assert expected in finished.err
    assert "hint:" in finished.err or "allowed" in finished.err
    assert "Traceback" not in finished.err
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob("invitations-*"))


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", "launch: mpirun, count: 2"))
    words = (*ERRORS_AS_JSON, "run", file, "--allow-commands", "-o", tmp_path / "run")
    finished = loadstone(*words, environment={"PATH": str(tmp_path)})
    assert finished.code == 1
    assert finished.kinds == ["program-absent"]
    assert '"mpirun"' in finished.errors[0]["message"]


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a scheduler with TLS and its workers, as a site does; give address and environment."""
    authority = Authority("site")
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    identity = authority._issue("site", uses, "127.0.0.1")
    files = {"ca.pem": authority.certificate, "pair.pem": identity.certificate + identity.key}
    for name, text in files.items():
        (folder / name).write_text(text)
    ca, pair = folder / "ca.pem", folder / "pair.pem"
    scheduler_file = folder / "scheduler.json"
    tls = ["--tls-ca-file", str(ca), "--tls-cert", str(pair), "--tls-key", str(pair)]
    dask = [sys.executable, "-m", "dask"]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "dask.said").open("wb"))

        def start(*words: str) -> None:
            process = subprocess.Popen(
                [*dask, *words, *tls, "--scheduler-file", str(scheduler_file)],
                cwd=folder, stdout=log, stderr=log,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("scheduler", "--host", "tls://127.0.0.1", "--port", "0", "--no-dashboard",
              "--protocol", "tls")  # fmt: skip
        for _ in range(workers):
            start("worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", "--protocol", "tls")
        environment = {
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(ca),
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": str(pair),
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": str(pair),
        }
        yield _address(scheduler_file, folder), environment


def _address(file: Path, folder: Path) -> str:
    import time

    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end, (folder / "dask.said").read_text()[-2000:]
        time.sleep(0.1)
    time.sleep(0.2)
    return str(json.loads(file.read_text())["address"])


def test_workers_of_a_dask_of_the_site_make_one_load(tmp_path: Path) -> None:
    with dask_cluster(tmp_path, 2) as (address, environment):
        hosts = f"launch: dask, count: 2, scheduler: '{address}'"
        file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", hosts))
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        words = ("run", file, "--allow-commands", "-o", tmp_path / "run")
        finished = loadstone(*words, environment={**environment, **state})
        assert finished.code == 0, finished.err
        (record,) = read_run(tmp_path / "run").records
        assert [host["state"] for host in record.summary["hosts"]] == ["finished", "finished"]
        assert b"PRIVATE KEY" not in (tmp_path / "dask.said").read_bytes()
        many = loadstone(
            "hosts",
            "check",
            file,
            "--allow-commands",
            "--set",
            "hosts.count=9",
            environment=environment,
        )
        assert many.code == 1
        assert re.search(r"\b2 workers, hosts.count\b.*\b9\b", many.err)
        stranger = loadstone("hosts", "check", file, "--allow-commands")
        assert stranger.code == 1
        assert address in stranger.err
        assert "Traceback" not in stranger.err


def test_a_dask_without_encryption_is_refused(tmp_path: Path) -> None:
    hosts = "launch: dask, count: 2, scheduler: 'tcp://192.0.2.1:8786'"
    file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", hosts))
    finished = loadstone("hosts", "check", file, "--allow-commands")
    assert finished.code == 1
    assert "tls://HOST:PORT" in finished.err
