"""Objects that are filled with a user's file: written, read back and checked as any payload."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import trials
from tests.conformance.exemptions import DRIVERS
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

SAMPLE = b"".join(b"line %06d of a log that compresses well\n" % number for number in range(2000))
HEADER_BYTES, PAGE_BYTES = 64, 4096


def named(folder: Path, content: bytes = SAMPLE) -> dict[str, Any]:
    file = folder / "sample"
    file.write_bytes(SAMPLE)
    return {"path": str(file), "sha256": hashlib.sha256(content).hexdigest()}


def document(
    place: Place, dataset: Dataset, operation: str, payload: dict[str, Any]
) -> dict[str, Any]:
    trial = trials.document(place, dataset, operation)
    trial["dataset"]["payload"] = payload
    return trial


def test_objects_hold_stretches_of_the_file(place: Place, dataset: Dataset, tmp_path: Path) -> None:
    if place.fill != "put" or place.driver == "null":
        pytest.skip(f"{place.driver} puts no objects")
    dataset = Dataset(objects=4, size_bytes=10_000, prefix=dataset.prefix)
    payload = named(tmp_path)
    for operation in ("put", "get", "range_get"):
        if operation in DRIVERS[place.driver]["operations"]:
            result = trials.run(document(place, dataset, operation, payload))
            assert result.outcomes() == {"ok": 4}, result.summary["error_examples"]
    if isinstance(place.view, S3View):
        bucket, key = dataset.where(1)
        body = place.view.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        pages = [body[at : at + PAGE_BYTES] for at in range(0, len(body), PAGE_BYTES)]
        held = b"".join(page[HEADER_BYTES:] for page in pages)
        assert held in SAMPLE + SAMPLE
    trials.clean_up(place, dataset)


def test_a_file_that_is_another_than_was_planned_is_refused(tmp_path: Path) -> None:
    place = Place("null", {}, None)
    payload = named(tmp_path, SAMPLE + b"!")
    with pytest.raises(ValueError, match="changed"):
        trials.run(document(place, Dataset(), "put", payload))
