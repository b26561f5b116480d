"""The extension and the tests of the crates share the crates of others, compiled once.

Cargo compiles a crate again for each set of features. What a build of everything switches on, the
build of the extension alone has to switch on too.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_extension_builds_the_crates_of_others_with_the_features_of_all() -> None:
    """Compare the features of each crate that the extension needs."""
    of_all = _features("--workspace", "--edges=normal,build,dev")
    of_extension = _features("--package=loadstone-loadgen-py", "--edges=normal,build")
    assert of_extension
    assert of_extension - of_all == set()


def _features(*selected: str) -> set[str]:
    """Return a line for each crate in each set of its features."""
    command = ["cargo", "tree", "--locked", "--prefix=none", "--format={p} {f}", *selected]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.removesuffix(" (*)") for line in output.splitlines() if line}
