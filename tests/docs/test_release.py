"""What a release is made of, as far as it shows without a build (`make release` is the whole)."""

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.docs import licences

ROOT = Path(__file__).resolve().parents[2]


def test_each_crate_that_is_linked_has_its_licence_in_the_list() -> None:
    linked = licences.linked()
    assert {"rustls", "arrow-array", "zstd-sys"} <= {package["name"] for package in linked}
    # What only tests and builds need is not shipped.
    assert not {"schemars", "criterion", "bindgen", "cc"} & {package["name"] for package in linked}
    assert all(package["license"] for package in linked)
    lines = set(licences.document().splitlines())
    assert {f"{crate['name']} {crate['version']}: {crate['license']}" for crate in linked} <= lines


def test_an_sdist_has_all_that_a_build_needs_and_nothing_that_was_built(tmp_path: Path) -> None:
    maturin = ROOT / ".venv" / "bin" / "maturin"
    if not maturin.exists():
        pytest.skip("no maturin in .venv: it was set up by hand")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("loadstone-*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"LICENSE", "README.md", "Cargo.lock", "pyproject.toml"} <= names
    assert not [name for name in names if re.search(r"\.(so|pyc|data)$", name)]
    # Cargo finds every crate of the workspace that the extension is built from.
    command = ["cargo", "tree", "--offline", "--package=loadstone-loadgen-py", "--edges=normal"]
    tree = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert {"loadstone-store", "loadstone-record"} <= set(re.findall(r"loadstone-\w+", tree))
    version = f"\nVersion: {folder.name.removeprefix('loadstone-')}\n"
    assert version in (folder / "PKG-INFO").read_text()
