"""Payloads whose SHA-256 is part of the signature: these stores refuse what has another."""

from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

# Several requests are hashed at once: one number of objects is no multiple of four.
OBJECTS = 23


@pytest.fixture(autouse=True)
def _driver_signs(place: Place) -> None:
    driver = {row["name"]: row for row in _loadgen.drivers()}[place.driver]
    if "payload_signing" not in {setting["name"] for setting in driver["settings"]}:
        pytest.skip(f"{place.driver} signs no payload")


def signed(place: Place, dataset: Dataset, operation: str, **changes: Any) -> dict[str, Any]:
    """Write a trial whose payloads are signed."""
    document = trials.document(place, dataset, operation, **changes)
    document["target"]["settings"] = {**place.settings, "payload_signing": "signed"}
    # One thread is asked for all objects, in their order.
    document["cores"] = 1
    return document


def test_signed_objects_are_taken_and_read_back(place: Place) -> None:
    """Payloads of any length are signed correctly, in order or not."""
    for size_bytes in (0, 5000, 300_001):
        dataset = Dataset(objects=OBJECTS, size_bytes=size_bytes)
        trials.run(signed(place, dataset, "put", phase="prepare"))
        for operation, order in (("put", "sequential"), ("put", "uniform"), ("get", "sequential")):
            document = signed(place, dataset, operation)
            document["keys"]["order"] = order
            result = trials.run(document)
            assert result.outcomes() == {"ok": OBJECTS}, result.summary["error_examples"]
        trials.clean_up(place, dataset)


def test_objects_of_many_sizes_are_signed(place: Place) -> None:
    """Bodies of different lengths are not hashed at once, and are signed all the same."""
    dataset = Dataset(objects=OBJECTS)
    law = {"kind": "weighted", "choices": [[0, 1.0], [63, 1.0], [4096, 4.0], [100_000, 1.0]]}
    for operation in ("put", "get"):
        document = signed(place, dataset, operation)
        if operation == "put":
            document["phase"] = "prepare"
        document["dataset"]["size"] = law
        result = trials.run(document)
        assert result.outcomes() == {"ok": OBJECTS}, result.summary["error_examples"]
    trials.clean_up(place, dataset)


def test_parts_are_signed(place: Place) -> None:
    """Nine parts of 5 MiB and a shorter one, hashed four at a time where that goes."""
    driver = {row["name"]: row for row in _loadgen.drivers()}[place.driver]
    if "multipart_put" not in driver["operations"]:
        pytest.skip(f"{place.driver} has no uploads in parts")
    part_bytes = 5 << 20
    dataset = Dataset(objects=1, buckets=1, size_bytes=9 * part_bytes + 77)
    trials.run(signed(place, dataset, "put", phase="prepare"))
    upload = signed(place, dataset, "multipart_put")
    upload["options"]["part_bytes"] = part_bytes
    result = trials.run(upload)
    assert result.outcomes() == {"ok": 1}, result.summary["error_examples"]
    read = trials.run(signed(place, dataset, "get"))
    assert read.outcomes() == {"ok": 1}, read.summary["error_examples"]
    trials.clean_up(place, dataset)
