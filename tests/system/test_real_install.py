"""The wheel in a fresh environment, on a host that has neither Rust nor a compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.cli import exit_code

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.real

BASE_MIB, REPORT_MIB = 180, 350
"""The most that an installation may take: alone, and with pages and charts."""


def _build(folder: Path) -> Path:
    """Build the wheel from the crates that the extension was built from.

    It asks for this host's glibc. `make wheel` links for an older one, which compiles all again.
    """
    bin_folder = Path(sys.executable).parent
    subprocess.run(
        [bin_folder / "maturin", "build", "--release", "--strip", "--quiet", "--out", folder],
        cwd=ROOT,
        env={**os.environ, "VIRTUAL_ENV": str(bin_folder.parent)},
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("loadstone-*-abi3-*.whl")
    return wheel


def test_a_wheel_runs_load_and_the_demo_without_a_compiler(tmp_path: Path) -> None:
    """First without extras, where all is answered but pages and charts; then with them."""
    wheel = _build(tmp_path / "wheels")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (tmp_path / "no-programs").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    bare = {"PATH": str(tmp_path / "no-programs"), "XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}

    def run(program: str, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / program, *words],
            cwd=tmp_path,
            env={**kept, **bare},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode in codes, done.stdout
        return done.stdout

    def size_mib() -> float:
        files = (tmp_path / "venv").rglob("*")
        return sum(one.lstat().st_blocks * 512 for one in files if not one.is_symlink()) / 2**20

    run("pip", "install", f"loadstone @ file://{wheel}")
    installed = run("pip", "list", "--format", "freeze")
    assert "loadstone==" in installed
    assert not {"pyarrow", "scipy", "jinja2", "mini-racer"} & {
        line.partition("==")[0].lower() for line in installed.splitlines()
    }
    assert size_mib() < BASE_MIB
    said = run("loadstone", "bench", "put,get", "null", "-n", "1000", "--blocks", "6", "-o", "load")
    assert "Limited by" in said
    for form in ("terminal", "json", "csv", "md"):
        assert "null" in run("loadstone", "report", "load", "-f", form)
    # Of bounds, which the null driver has, nothing is claimed.
    assert "load" in run("loadstone", "compare", "load", "load", codes=(0, exit_code.VOID))
    said = run("loadstone", "demo", "--objects", "500", "-o", "first")
    assert "loadstone[report]" in said

    run("pip", "install", f"loadstone[report] @ file://{wheel}")
    assert size_mib() < REPORT_MIB
    said = run("loadstone", "demo", "--objects", "500", "-o", "run")
    assert "Limited by" in said
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    # No program and no font of the host: loadstone brings its own.
    run("loadstone", "report", "run", "-f", "png", "-o", "charts")
    assert (tmp_path / "charts" / "throughput.png").read_bytes().startswith(b"\x89PNG")
