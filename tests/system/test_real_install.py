"""The wheel in a fresh environment, on a host that has neither Rust nor a compiler."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

import pytest

from loadstone.cli import exit_code
from loadstone.results.store import read_run

ROOT = Path(__file__).resolve().parents[2]

# One process builds the wheel, and early: groups come before single tests.
pytestmark = [pytest.mark.real, pytest.mark.xdist_group("wheel")]

BASE_MIB, REPORT_MIB = 180, 350
"""The most that an installation may take: alone, and with pages and charts."""


NEWER = (12, 13, 14)
"""Python 3 of these minor versions is tried too, where the host has it."""


def find_python(version: str) -> Path | None:
    """Return an interpreter of this version that can make environments, in PATH or of pyenv."""
    in_path = [Path(path)] if (path := which(f"python{version}")) else []
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    print_version = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for program in (*in_path, *of_pyenv):
        printed = subprocess.run([program, "-c", print_version], capture_output=True, text=True)
        if printed.stdout.strip() == version:
            return program
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the crates that the extension was built from.

    It asks for this host's glibc. `make wheel` links for an older one, which compiles all again.
    """
    folder = tmp_path_factory.mktemp("wheels")
    bin_folder = Path(sys.executable).parent
    subprocess.run(
        [bin_folder / "maturin", "build", "--release", "--strip", "--quiet", "--out", folder],
        cwd=ROOT,
        env={**os.environ, "VIRTUAL_ENV": str(bin_folder.parent)},
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("loadstone-*-abi3-*.whl")
    return built


@pytest.mark.parametrize("version", [f"3.{minor}" for minor in NEWER])
def test_the_wheel_runs_on_newer_pythons(wheel: Path, tmp_path: Path, version: str) -> None:
    """Deprecation warnings are errors, because a later Python will lack the feature."""
    program = find_python(version)
    if program is None:
        pytest.skip(f"this host has no Python {version}")
    subprocess.run([program, "-m", "venv", tmp_path / "venv"], check=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**inherited, "XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / "python", *words],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, exit_code.VOID), done.stdout + done.stderr
        return done.stdout

    def loadstone(*words: str) -> str:
        return run("-W", "error::DeprecationWarning", "-m", "loadstone", *words)

    run("-m", "pip", "install", "--quiet", f"loadstone[report,hosts] @ file://{wheel}")
    loadstone("bench", "put,get", "null", "-n", "1000", "-q", "-o", "load")
    (tmp_path / "hosts.yaml").write_text(
        'name: two\ntargets: {t: {driver: "null"}}\nhosts: {launch: local, count: 2}\n'
        "dataset: {objects: 100, size: 4KiB}\nload: {threads: 2, cores: 1}\nphases: [put]\n"
    )
    loadstone("run", "hosts.yaml", "-q", "-o", "hosts")
    loadstone("report", "hosts", "-f", "html", "-o", "page.html")
    assert len(read_run(tmp_path / "hosts").records) == 1
    assert (tmp_path / "page.html").stat().st_size > 100_000


def test_a_wheel_runs_load_and_the_demo_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    """First without extras, where all is answered but pages and charts; then with them."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (tmp_path / "no-programs").mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    bare = {"PATH": str(tmp_path / "no-programs"), "XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}

    def run(program: str, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / program, *words],
            cwd=tmp_path,
            env={**inherited, **bare},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode in codes, done.stdout
        return done.stdout

    def size_mib() -> float:
        files = (tmp_path / "venv").rglob("*")
        return sum(file.lstat().st_blocks * 512 for file in files if not file.is_symlink()) / 2**20

    run("pip", "install", f"loadstone @ file://{wheel}")
    installed = run("pip", "list", "--format", "freeze")
    assert "loadstone==" in installed
    assert not {"pyarrow", "scipy", "jinja2", "mini-racer"} & {
        line.partition("==")[0].lower() for line in installed.splitlines()
    }
    assert size_mib() < BASE_MIB
    output = run(
        "loadstone", "bench", "put,get", "null", "-n", "1000", "--blocks", "6", "-o", "load"
    )
    assert "Limited by" in output
    for form in ("terminal", "json", "csv", "md"):
        assert "null" in run("loadstone", "report", "load", "-f", form)
    # Bounds, as from the null driver, give no comparison.
    assert "load" in run("loadstone", "compare", "load", "load", codes=(0, exit_code.VOID))
    output = run("loadstone", "demo", "--objects", "500", "-o", "first")
    assert "loadstone[report]" in output

    run("pip", "install", f"loadstone[report] @ file://{wheel}")
    assert size_mib() < REPORT_MIB
    output = run("loadstone", "demo", "--objects", "500", "-o", "run")
    assert "Limited by" in output
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    # No program and no font of the host: loadstone brings its own.
    run("loadstone", "report", "run", "-f", "png", "-o", "charts")
    assert (tmp_path / "charts" / "throughput.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def base() -> str:
    """Make a base image of Debian with Python, since a registry may be out of reach."""
    missing = [name for name in ("buildah", "debootstrap") if which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"an image is built by root with buildah and debootstrap; missing: {missing}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        packages = "--include=python3,python3-venv"
        run_as_root("debootstrap", "--variant=minbase", packages, "bookworm", folder)
        container = run_as_root("buildah", "from", "scratch")
        run_as_root("buildah", "add", container, folder, "/")
    run_as_root("buildah", "commit", "--rm", container, "localhost/loadstone-test-base")
    return "localhost/loadstone-test-base"


@pytest.mark.long(cpu_s=120)
def test_an_image_of_the_wheel_runs_without_root_and_has_no_compiler(
    wheel: Path, base: str, tmp_path: Path
) -> None:
    wheels = tmp_path / "build" / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(wheel, wheels)
    # For Python 3.11, which Debian 12 has.
    download = ["pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"]
    requirement = f"loadstone[report] @ file://{wheel}"
    run_as_root(sys.executable, "-m", *download, f"--dest={wheels}", requirement)
    shutil.copy(ROOT / "Containerfile", tmp_path)
    image = "localhost/loadstone-test"
    arguments = ["--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1"]
    run_as_root("buildah", "build", *arguments, "--tag", image, str(tmp_path))
    container = run_as_root("buildah", "from", "--pull-never", image)
    try:
        lines = run_as_root("buildah", "run", container, "--", "sh", "-c", IN_THE_IMAGE).split("\n")
    finally:
        run_as_root("buildah", "rm", container)
        run_as_root("buildah", "rmi", image)
    user, compilers, files = (line.split()[1:] for line in lines)
    assert user == ["1000"]
    assert not compilers
    assert {"manifest.json", "trials"} <= set(files)


IN_THE_IMAGE = """
echo user: $(id -u)
echo compilers: $(command -v cc gcc cargo rustc pip)
loadstone bench put,get null -n 1000 -q -o first >/dev/null 2>&1
echo files: $(ls first)
"""


def run_as_root(*words: str) -> str:
    """Run a command that makes, builds or uses an image; return what it printed."""
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
