"""Safety tests that a driver is exempt from, with reasons.

A test names the capabilities that it needs: `@needs("view", "claims")`. Operations, "secrets" and
"http" are read from the driver's row; in addition every driver has all of `CAPABILITIES`, except
those with a reason in `LACKS`. So every test covers a new driver, and fails until it passes or its
reason is added here.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from loadstone import _loadgen

CAPABILITIES = {
    "view": "the tests can look into the target behind loadstone's back",
    "claims": "whose a place is, is decided by a mark or a claim in it",
    "bare_places": "a place can be there and hold nothing",
    "writers": "an object in another's place names the run that wrote it",
    "hidden_uploads": "the target keeps uploads in parts that no listing of objects shows",
}

LACKS: Mapping[str, Mapping[str, str]] = {
    "null": {"view": "nothing keeps what is written"},
    "block": {
        "view": "an object is a range of the device: test_blocks.py, test_block_ownership.py"
    },
    "file": {
        "claims": "whose a directory is, is its user's: test_file_ownership.py",
        "writers": "a file names its user, no run: test_another_user.py",
        "hidden_uploads": "a part is a range of its file",
    },
    "swift": {"hidden_uploads": "segments are objects, which listings show"},
    "rados": {
        "bare_places": "a namespace without an object is not there",
        "hidden_uploads": "there are no uploads in parts",
    },
}

DRIVERS: Mapping[str, Mapping[str, Any]] = {row["name"]: row for row in _loadgen.drivers()}
OPERATIONS = frozenset(row["name"] for row in _loadgen.operations())


def needs(*capabilities: str) -> pytest.MarkDecorator:
    """Try a test only on drivers with these capabilities."""
    return pytest.mark.needs(*capabilities)


def has(driver: str, capability: str) -> bool:
    """Tell whether a driver has a capability."""
    row = DRIVERS[driver]
    if capability == "secrets":
        return any(setting["secret"] for setting in row["settings"])
    if capability == "http":
        return row["facts"]["address"]["kind"] == "urls"
    if capability in OPERATIONS:
        return capability in row["operations"]
    if capability not in CAPABILITIES:
        raise KeyError(capability)
    return capability not in LACKS.get(driver, {})
