"""Completions that the shell offers on Tab."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.synthetic_run import Folder, trial


def offered(folder: Path, *words: str) -> list[str]:
    """Return bash's completions of the last word."""
    environment = {
        "_LOADSTONE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("loadstone", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "loadstone"]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("be",), {"bench"}),
        (("bench", "put,ge"), {"put,get"}),
        (("bench", "mi"), {"mixed"}),
        (("bench", "get", "null", "-f", "js"), {"json"}),
        (("ab", "be"), {"bench"}),
        (("ab", "--new", "server", "bench", "put,ge"), {"put,get"}),
        (("ab", "-f", "ju"), {"junit"}),
        (("calibrate", "nu"), {"null"}),
        (("list", "drivers", "s3"), {"s3"}),
        (("report", "published:sk"), {"published:skyhook"}),
    ],
)
def test_names_are_offered(words: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    assert expected <= set(offered(tmp_path, *words))
    assert all(name.startswith(words[-1]) for name in offered(tmp_path, *words))


def test_run_folders_are_offered_and_no_others(tmp_path: Path) -> None:
    for name in ("runs/monday", "runs/tuesday", "kept/friday"):
        run = Folder(tmp_path / name, "nightly", 1)
        run.add(trial(0, "s3", "get"), 100)
        run.close(campaign={"name": "nightly", "targets": {"s3": {}}}, campaign_file="")
    (tmp_path / "runs/other").mkdir()
    assert offered(tmp_path, "report", "runs/") == ["runs/tuesday", "runs/monday"]
    assert offered(tmp_path, "clean", "kept/fr") == ["kept/friday"]
    assert offered(tmp_path, "clean", "mon") == []
