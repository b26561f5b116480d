"""The jobs of the how-to pages: their commands, run as the service runs them; not the service."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from loadstone.cli import exit_code
from tests.system.command import NO_STATE

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
NIGHTLY = """\
name: nightly
targets: {t: {driver: "null"}}
dataset: {objects: 100, size: 4KiB}
load: {threads: 2}
phases: [put, get]
"""
KEYS = {
    "LOADSTONE_ACCESS_KEY": "me",
    "LOADSTONE_SECRET_KEY": "a-secret-of-tests",
    "AWS_ACCESS_KEY_ID": "me",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with the campaign, and `loadstone` of this environment as a program."""
    (tmp_path / "nightly.yaml").write_text(NIGHTLY)
    program = tmp_path / "bin" / "loadstone"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m loadstone "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(folder: Path, *words: str, **environment: str) -> int:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    variables = {**os.environ, **KEYS, "PATH": path, "XDG_STATE_HOME": NO_STATE, **environment}
    return subprocess.run(words, cwd=folder, env=variables, check=False).returncode


def gitlab_job(page: str, name: str) -> dict[str, object]:
    """Return a job of `.gitlab-ci.yml` from the page's blocks of YAML."""
    blocks = re.findall(r"^```yml\n(.*?)^```", (HOW_TO / page).read_text(), re.M | re.S)
    (job,) = (
        document[name]
        for block in blocks
        if isinstance(document := YAML(typ="safe").load(block), dict) and name in document
    )
    return job


def run_script(folder: Path, lines: object) -> int:
    """Run a job's lines as GitLab's runner does: in one shell that ends at the first failure."""
    assert isinstance(lines, list)
    return run(folder, "bash", "-eo", "pipefail", "-c", "\n".join(lines))


@pytest.mark.parametrize(("limit", "is_met"), [("50ms", False), ("1ns", True)])
def test_gitlabs_nightly_job_keeps_its_report_and_fails_by_its_threshold(
    folder: Path, limit: str, is_met: bool
) -> None:
    script = gitlab_job("nightly.md", "storage")["script"]
    code = run_script(folder, [line.replace("50ms", limit) for line in script])  # type: ignore[attr-defined]
    assert (code == exit_code.WORSE) == is_met
    assert bool(ElementTree.parse(folder / "junit.xml").findall(".//failure")) == is_met
    assert (folder / "report.html").exists()
    assert (folder / "run" / "manifest.json").exists()


def test_gitlabs_gate_writes_its_answer_as_junit(folder: Path) -> None:
    job = gitlab_job("gate.md", "gate")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    script = [
        line.replace("9000", port).replace("loadstone ab ", "loadstone ab --blocks-max 6 ")
        for line in job["script"]  # type: ignore[attr-defined]
    ]
    code = run_script(folder, [line.replace("-n 1000", "-n 100") for line in script])
    assert code in (0, exit_code.WORSE, exit_code.VOID, exit_code.UNDECIDED)
    assert job["allow_failure"] == {"exit_codes": [exit_code.UNDECIDED]}
    assert ElementTree.parse(folder / "junit.xml").findall(".//testcase")
    assert (folder / "gate" / "manifest.json").exists()


def test_jenkins_job_reports_each_build_in_one_workspace(folder: Path) -> None:
    page = (HOW_TO / "nightly.md").read_text()
    measure, report = re.findall(r"\bsh '(.*?)'", page.partition("In a Jenkinsfile")[2])
    for build in ("1", "2"):
        assert run(folder, "sh", "-xe", "-c", measure, BUILD_NUMBER=build) in (0, exit_code.VOID)
        assert run(folder, "sh", "-xe", "-c", report, BUILD_NUMBER=build) == 0
        assert ElementTree.parse(folder / "junit.xml").findall(".//testcase")
        assert (folder / "runs" / build / "manifest.json").exists()
