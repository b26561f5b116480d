"""A worker of pytest that dies ends the whole run: the others neither wait nor go on."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
OF_SERVER = 500
TESTS = f"""\
import os, resource, signal, time
import pytest

@pytest.mark.parametrize("number", range(20))
def test_before(number):
    pass

def test_that_dies():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)

@pytest.mark.xdist_group("server")
@pytest.mark.parametrize("number", range({OF_SERVER}))
def test_of_a_server(number):
    time.sleep(0.1)
"""


def test_a_worker_that_dies_ends_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(TESTS)
    inner = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path,
            "-p", "tests.lost_workers", "-p", "no:cacheprovider", "--dist", "loadgroup", "-n", "2",
            f"--junit-xml={tmp_path / 'ended.xml'}", tmp_path,
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        # Without the fix it would wait forever.
        timeout=600,
    )  # fmt: skip
    assert inner.returncode not in (0, 5), inner.stdout
    cases = list(ElementTree.parse(tmp_path / "ended.xml").iter("testcase"))
    assert [case.get("name") for case in cases if len(case)] == ["test_that_dies"]
    assert 20 <= len(cases) < OF_SERVER
    assert not list(tmp_path.glob("loadstone-*"))
