"""Properties of a release that need no build (`make release` tests all of it)."""

import base64
import hashlib
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs import licences
from tests.docs.portable_wheel import without_folder

ROOT = Path(__file__).resolve().parents[2]


def test_each_crate_that_is_linked_has_its_licence_in_the_list() -> None:
    linked = licences.linked()
    assert {"rustls", "arrow-array", "zstd-sys"} <= {package["name"] for package in linked}
    # Dependencies of tests and builds are not shipped.
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


def test_wheels_of_two_folders_are_the_same_and_pip_finds_their_files_whole(tmp_path: Path) -> None:
    wheels = []
    for name in ("one", "another"):
        folder = tmp_path / name
        sbom = f'{{"bom-ref": "path+file://{folder}/crates/loadgen-py#0.1.0"}}'.encode()
        wheel = tmp_path / f"{name}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, content in (
                ("x/__init__.py", b""),
                ("x.dist-info/sboms/x.cyclonedx.json", sbom),
                ("x.dist-info/RECORD", "".join(
                    f"{line}\n" for line in (
                        "x/__init__.py,,0",
                        f"x.dist-info/sboms/x.cyclonedx.json,sha256=of-{name},{len(sbom)}",
                        "x.dist-info/RECORD,,",
                    )).encode()),
            ):  # fmt: skip
                info = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
                info.external_attr = 0o644 << 16
                archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        without_folder(wheel, folder)
        wheels.append(wheel)
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        assert archive.testzip() is None
        content = archive.read("x.dist-info/sboms/x.cyclonedx.json")
        digest, size = re.findall(
            r"sbom.*sha256=(.*),(\d+)", archive.read("x.dist-info/RECORD").decode()
        )[0]
        assert archive.getinfo("x/__init__.py").external_attr >> 16 == 0o644
    assert int(size) == len(content)
    assert base64.urlsafe_b64decode(digest + "=") == hashlib.sha256(content).digest()
    assert str(tmp_path).encode() not in content
