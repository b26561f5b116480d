"""The licences of what a wheel contains, with their texts: `python -m tests.docs.licences FILE`.

The crates are those that the extension links for any Linux; build scripts and macros are left out
as far as cargo tells them apart. The standard library of Rust comes with its own two licences.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENDORED = ROOT / "python" / "loadstone" / "report" / "pages" / "vendor"
TARGET = "x86_64-unknown-linux-gnu"
NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "UNLICENSE*")


def linked() -> list[dict[str, str]]:
    """Return the crates of others that the extension links, by name and version."""
    tree = _cargo(
        "tree", "--package=loadstone-loadgen-py", "--edges=normal", f"--target={TARGET}",
        "--prefix=none", "--format={p}",
    )  # fmt: skip
    named = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    packages = json.loads(_cargo("metadata", "--format-version=1"))["packages"]
    return [
        package
        for package in sorted(packages, key=lambda package: (package["name"], package["version"]))
        if package["source"] and (package["name"], f"v{package['version']}") in named
    ]


def texts_of(folder: Path) -> Iterator[str]:
    """Yield the texts of the licences in a folder."""
    for pattern in NAMES:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                yield path.read_text(errors="replace").strip()


def document() -> str:
    """Return the list, and each text once with what it belongs to."""
    lines = ["What loadstone's wheel contains of others, and under which licences.", ""]
    holders: dict[str, list[str]] = {}
    for package in linked():
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license']}")
        for text in texts_of(Path(package["manifest_path"]).parent):
            holders.setdefault(text, []).append(name)
    lines.append("Rust's standard library: MIT OR Apache-2.0")
    for path in (VENDORED / "LICENSES.txt", VENDORED / "fonts" / "OFL.txt"):
        name = str(path.relative_to(ROOT / "python"))
        lines.append(f"pages and charts: {name}")
        holders[path.read_text().strip()] = [name]
    for text, names in holders.items():
        lines += ["", "=" * 100, *names, "=" * 100, "", text]
    return "\n".join(lines) + "\n"


def _cargo(*words: str) -> str:
    command = ["cargo", *words, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document())
