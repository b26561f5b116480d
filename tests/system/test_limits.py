"""A campaign's limit of memory: enforced by a control group, or refused before anything is made."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.system import campaigns
from tests.system.command import loadstone

LIMITED = campaigns.QUICK.replace("rounds: 2\n", "limits: {memory: 256MiB}\n")


def test_a_run_keeps_what_it_really_used_or_is_refused_with_the_reason(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished = loadstone("run", campaigns.write(tmp_path, LIMITED), "-o", run)
    if finished.code:
        # This host allows no control groups.
        assert "limits: memory" in finished.err
        assert "systemd-run" in finished.err
        assert not run.exists()
        return
    limits = json.loads((run / "manifest.json").read_text())["limits"]
    assert limits["memory_bytes"] == 256 * 2**20
    peak = limits["memory_peak_bytes"]
    assert peak is None or 0 < peak <= limits["memory_bytes"]
    assert str(tmp_path) not in Path("/proc/self/cgroup").read_text()


def test_a_run_that_the_kernel_kills_for_its_memory_says_so(tmp_path: Path) -> None:
    """The outcome is printed, and kept: which trial was under way, why it ended, what is left."""
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    file = campaigns.write(tmp_path, GREEDY.format(folder=data))
    finished = loadstone("run", file, "-o", run)
    if finished.code == 1:
        assert "limits: memory" in finished.err
        return
    assert finished.code == -signal.SIGKILL
    _wait_until(lambda: _manifest(run).get("failed"))
    manifest = _manifest(run)
    assert manifest["state"] == "interrupted"
    (trial,) = manifest["failed"]
    assert trial == "0001"
    assert "limits.memory: 12" in (manifest["failed"][trial])
    assert manifest["limits"]["memory_kills"] >= 1
    assert not list(Path("/sys/fs/cgroup").rglob(f"loadstone-{manifest['run']}"))
    report = loadstone("report", run)
    assert "interrupted" in report.out
    # The same campaign goes on, as after any interruption; here into the same limit.
    again = loadstone("run", file, "-o", run, "--resume")
    assert again.code == -signal.SIGKILL


def _manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "manifest.json").read_text())  # type: ignore[no-any-return]


def _wait_until(is_so: Callable[[], object]) -> None:
    """Wait for what another process does at once."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


GREEDY = """\
name: greedy
targets: {{folder: {{driver: file, path: "{folder}"}}}}
dataset: {{objects: 64, size: 16MiB, buckets: 1}}
load: {{threads: 8}}
limits: {{memory: 12MiB}}
phases: [put]
"""


def test_limits_of_this_process_are_refused_where_hosts_make_the_load(tmp_path: Path) -> None:
    text = LIMITED + "hosts: {launch: local, count: 2}\n"
    finished = loadstone("run", campaigns.write(tmp_path, text), "-o", tmp_path / "run")
    assert finished.code == 1
    assert "hosts" in finished.err
    assert not (tmp_path / "run").exists()
