"""A campaign's limit of memory: enforced by a control group, or refused before anything is made."""

import json
from pathlib import Path

from tests.system import campaigns
from tests.system.command import loadstone

LIMITED = campaigns.QUICK.replace("rounds: 2\n", "limits: {memory: 256MiB}\n")


def test_a_run_keeps_what_it_really_used_or_is_refused_with_the_reason(tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = loadstone("run", campaigns.write(tmp_path, LIMITED), "-o", run)
    if said.code:
        # This host allows no control groups.
        assert "limits: memory" in said.err
        assert "systemd-run" in said.err
        assert not run.exists()
        return
    limits = json.loads((run / "manifest.json").read_text())["limits"]
    assert limits["memory_bytes"] == 256 * 2**20
    peak = limits["memory_peak_bytes"]
    assert peak is None or 0 < peak <= limits["memory_bytes"]
    assert str(tmp_path) not in Path("/proc/self/cgroup").read_text()


def test_limits_of_this_process_are_refused_where_hosts_make_the_load(tmp_path: Path) -> None:
    text = LIMITED + "hosts: {launch: local, count: 2}\n"
    said = loadstone("run", campaigns.write(tmp_path, text), "-o", tmp_path / "run")
    assert said.code == 1
    assert "hosts" in said.err
    assert not (tmp_path / "run").exists()
