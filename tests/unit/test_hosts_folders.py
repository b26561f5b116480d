"""The folders of agents: each keeps its own, and removes those of agents that were killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.hosts.sent_files import agent_folder
from loadstone.results.files import durable


def test_the_folder_of_an_agent_that_was_killed_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = (
        "import os; from loadstone.hosts.sent_files import agent_folder\n"
        "with agent_folder():\n    os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", killed], env=environment, check=False)
    (abandoned,) = tmp_path.iterdir()
    (tmp_path / "loadstone-agent-of-something-else").mkdir()
    with agent_folder() as first, agent_folder():
        # The one that is in use stays, and so does what no agent has locked.
        assert {path.name for path in tmp_path.iterdir()} > {
            Path(first).name,
            "loadstone-agent-of-something-else",
        }
        assert not abandoned.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["loadstone-agent-of-something-else"]


def test_agents_that_start_together_leave_each_other_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lock_within, others = durable._lock_within, []

    def start_another_first(descriptor: int, patience_s: float) -> bool:
        if not others:
            others.append(agent_folder())
            others[0].__enter__()
        return lock_within(descriptor, patience_s)

    monkeypatch.setattr(durable, "_lock_within", start_another_first)
    with agent_folder() as folder:
        assert durable.is_locked(Path(folder) / ".lock")
        assert len(list(tmp_path.iterdir())) == 2
        others[0].__exit__(None, None, None)
