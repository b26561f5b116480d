"""Checksums that go with objects: kept by the store, given back, and checked on read."""

from typing import Any

import pytest

from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

# Multipart uploads by their parts are S3's alone.
pytestmark = needs("view", "create_upload")


def with_settings(place: Place, **settings: Any) -> dict[str, Any]:
    target = {"name": "target", "driver": place.driver, "settings": {**place.settings, **settings}}
    return {"target": target}


@pytest.mark.parametrize("checksum", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_a_checksum_is_kept_and_checked_on_read(
    place: Place, dataset: Dataset, checksum: str
) -> None:
    changes = with_settings(place, checksum=checksum, check_stored_checksum=True)
    trials.prepare(place, dataset, **changes)
    read = trials.run(trials.document(place, dataset, "get", **changes))
    if read.outcomes() == {"unsupported": dataset.objects}:
        pytest.skip(f"this store keeps no {checksum}")
    assert read.outcomes() == {"ok": dataset.objects}, read.summary["error_examples"]
    assert dict(read.summary["features"])["verified_by"] == f"{checksum}: {dataset.objects}"
    assert isinstance(place.view, S3View)
    bucket, key = dataset.where(0)
    head = place.view.client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    assert head[f"Checksum{checksum.upper()}"]
    trials.clean_up(place, dataset)


@pytest.mark.parametrize(
    ("checksum", "kind"),
    [("crc64nvme", "full_object"), ("crc32", "full_object"), ("sha256", "composite")],
)
def test_an_object_in_parts_has_a_checksum_of_the_type_that_is_asked_for(
    place: Place, dataset: Dataset, checksum: str, kind: str
) -> None:
    size = place.smallest_part_bytes + 1000
    dataset = Dataset(objects=1, buckets=1, size_bytes=size, prefix=dataset.prefix)
    changes = with_settings(
        place, checksum=checksum, checksum_type=kind, check_stored_checksum=True
    )
    trial = trials.document(place, dataset, "multipart_put", phase="prepare", **changes)
    trial["options"]["part_bytes"] = place.smallest_part_bytes
    written = trials.run(trial)
    if written.outcomes() != {"ok": 1}:
        pytest.skip(f"this store refuses it: {written.summary['error_examples']}")
    read = trials.run(trials.document(place, dataset, "get", **changes))
    if read.outcomes() == {"unsupported": 1}:
        pytest.skip("this store keeps no checksum of an object in parts")
    assert read.outcomes() == {"ok": 1}, read.summary["error_examples"]
    # A checksum of the parts' checksums does not cover the bytes.
    method = checksum if kind == "full_object" else "length alone"
    assert dict(read.summary["features"])["verified_by"] == f"{method}: 1"
    trials.clean_up(place, dataset)
