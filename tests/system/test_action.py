"""The GitHub Action: its shell measures, reports and comments; the last step fails the job."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from loadstone.cli import exit_code
from tests.system.command import loadstone
from tests.system.test_ab import ANSWERS, KEYS, free_port

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "action" / "measure.sh"

# An environment as `python3 -m venv` makes it, whose pip installs nothing, for all is there.
PYTHON = f"""#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$@" >"$RUNNER_TEMP/installed"\\n' >"$3/bin/pip"
printf '#!/bin/sh\\nexec {sys.executable} -m loadstone "$@"\\n' >"$3/bin/loadstone"
chmod +x "$3/bin/pip" "$3/bin/loadstone"
"""
GH = '#!/bin/sh\nprintf "%s\\n" "$@" >"$RUNNER_TEMP/commented"\nexit ${GH_FAILS:-0}\n'


@dataclass(frozen=True)
class Job:
    """A job's folder and what its step wrote."""

    folder: Path
    code: int

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""


def measure(folder: Path, arguments: str, **environment: str) -> Job:
    programs = folder / "programs"
    programs.mkdir()
    for name, text in (("python3", PYTHON), ("gh", GH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [SCRIPT],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "LOADSTONE_INSTALL": "loadstone[report]",
            "LOADSTONE_ARGUMENTS": arguments,
            "LOADSTONE_FOLDER": "run",
            "LOADSTONE_COMMENT": "true",
            "LOADSTONE_PULL_REQUEST": "17",
            **environment,
        },
        check=False,
    )
    return Job(folder, done.returncode)


def test_a_run_is_summed_up_commented_and_kept(tmp_path: Path) -> None:
    job = measure(tmp_path, "bench put,get null -n 1000 --fail-if 'get p99 > 1h'")
    assert job.code == 0
    assert job.read("installed").split()[-1] == "loadstone[report]"
    (code,) = re.findall(r"exit-code=(\d+)", job.read("output"))
    assert int(code) in (0, exit_code.VOID)
    assert "| null" in job.read("summary")
    assert job.read("commented").split()[:3] == ["pr", "comment", "17"]
    assert (tmp_path / "run.html").stat().st_size > 100_000
    # The comment is the summary.
    assert job.read("loadstone.md") == job.read("summary")


def test_a_threshold_that_is_met_is_left_to_the_last_step(tmp_path: Path) -> None:
    job = measure(tmp_path, 'bench get null -n 1000 --fail-if "failures >= 0%"', GH_FAILS="1")
    assert job.code == 0
    assert job.read("output") == f"exit-code={exit_code.WORSE}\n"
    assert job.read("summary")


def test_the_comment_on_a_gate_is_its_answer(tmp_path: Path) -> None:
    port = free_port()
    server = f"loadstone serve --port {port} --threads 1"
    job = measure(
        tmp_path,
        f'ab --base "{server}" --new "{server}" --blocks-max 6'
        f" bench put http://127.0.0.1:{port} -t 2 -n 100 -s 4KiB",
        **KEYS,
    )
    assert job.code == 0
    (code,) = re.findall(r"exit-code=(\d+)", job.read("output"))
    assert int(code) in ANSWERS
    assert job.read("summary").startswith("**no worse than")
    assert job.read("loadstone.md") == job.read("summary")
    assert job.read("commented").split()[:3] == ["pr", "comment", "17"]
    assert (tmp_path / "run" / "manifest.json").exists()
    assert (tmp_path / "run.html").exists()


@pytest.mark.parametrize("arguments", ["run absent.yaml", "bench get null; touch pwned"])
def test_without_a_run_the_exit_code_is_kept(arguments: str, tmp_path: Path) -> None:
    job = measure(tmp_path, arguments)
    assert job.code == 0
    assert re.fullmatch(r"exit-code=[12]\n", job.read("output"))
    assert not job.read("commented")
    assert not (tmp_path / "pwned").exists()


def test_arguments_that_are_no_words_measure_nothing(tmp_path: Path) -> None:
    """The words before an open quote, without a threshold behind it, would pass."""
    job = measure(tmp_path, "bench get null -n 10 --fail-if 'get p99 > 1ns")
    assert job.code != 0
    assert not (tmp_path / "run").exists()


def test_a_folder_that_came_with_the_branch_is_not_reported(tmp_path: Path) -> None:
    loadstone("bench", "get", "null", "-n", "10", "-o", tmp_path / "run")
    assert (tmp_path / "run" / "manifest.json").exists()
    job = measure(tmp_path, "bench get null -n 10")
    assert job.code != 0
    assert not job.read("commented")
    assert not job.read("summary")


def test_the_action_hands_the_script_what_it_reads() -> None:
    action = YAML(typ="safe").load((ROOT / "action.yml").read_text())
    inputs: Mapping[str, object] = action["inputs"]
    assert set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text())) == set(inputs)
    (step,) = (step for step in action["runs"]["steps"] if step.get("id") == "measure")
    read = set(re.findall(r"\$\{?(LOADSTONE_\w+)", SCRIPT.read_text()))
    assert read == set(step["env"]) - {"GH_TOKEN"}
