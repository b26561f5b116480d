"""`loadstone run -`: a campaign from standard input is one like those from files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.system import campaigns
from tests.system.command import NO_STATE

SHORT = campaigns.QUICK.replace("200ms", "100ms").replace("rounds: 2", "rounds: 1")
HOOK = "hooks: [{at: before_run, run: [echo, told]}]\n"


def run(given: IO[Any] | str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `loadstone run -` on a text, or on an open file."""
    stdin: dict[str, Any] = {"input": given} if isinstance(given, str) else {"stdin": given}
    return subprocess.run(
        [sys.executable, "-m", "loadstone", "run", "-", *map(str, arguments)],
        env={**os.environ, "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE},
        capture_output=True, text=True, check=False, timeout=campaigns.HANGS_AFTER_S, **stdin,
    )  # fmt: skip


def test_the_run_folder_keeps_the_text_and_goes_on_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (folder.with_suffix(".yaml")).open("w+") as file:
        file.write(SHORT)
        file.seek(0)
        assert run(file, "-o", folder).returncode == 0
    file_name = json.loads((folder / "manifest.json").read_text())["campaign_file"]
    assert file_name == SHORT
    again = run(file_name, "-o", folder, "--resume")
    assert again.returncode == 0, again.stderr
    other = run(SHORT.replace("name: quick", "name: other"), "-o", folder, "--resume")
    assert other.returncode == 1, other.stderr


@pytest.mark.parametrize("text", ["", "targets: {", "name: \udc80"])
def test_an_invalid_campaign_is_refused_with_its_origin(text: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with path.open() as file:
        refused = run(file, "--dry-run")
    assert refused.returncode == 1
    assert "standard input" in refused.stderr


def test_input_without_end_is_refused_at_the_bound_of_a_file() -> None:
    with open("/dev/zero", "rb") as endless:
        refused = run(endless, "--dry-run")
    assert refused.returncode == 1
    assert "4 MiB" in refused.stderr


def test_its_commands_are_never_allowed_by_what_is_piped_in(tmp_path: Path) -> None:
    refused = run(SHORT + HOOK + "# y\n", "-o", tmp_path / "refused")
    assert refused.returncode == 1
    assert "--allow-commands" in refused.stderr
    assert not (tmp_path / "refused").exists()
    allowed = run(SHORT + HOOK, "-o", tmp_path / "allowed", "--allow-commands")
    assert allowed.returncode == 0, allowed.stderr
