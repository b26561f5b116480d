"""Checksums of parts: S3 takes them only for an upload that was begun with their algorithm."""

import pytest

from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

pytestmark = needs("view")


@pytest.mark.parametrize(
    ("checksum", "shown"), [("crc32c", "ChecksumCRC32C"), ("crc64nvme", "ChecksumCRC64NVME")]
)
def test_an_object_in_parts_has_the_checksum_of_its_parts(
    place: Place, checksum: str, shown: str
) -> None:
    if not isinstance(place.view, S3View):
        pytest.skip(f"driver {place.driver} sends no checksums")
    dataset = Dataset(objects=1, buckets=1, size_bytes=place.smallest_part_bytes + 1000)
    settings = {**place.settings, "checksum": checksum}
    target = {"name": "target", "driver": place.driver, "settings": settings}
    trial = trials.document(place, dataset, "multipart_put", target=target)
    trial["options"] |= {"part_bytes": place.smallest_part_bytes, "part_concurrency": 2}
    trials.prepare(place, dataset)
    bucket, key = dataset.where(0)
    client, algorithm = place.view.client, checksum.upper()
    begun = client.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm=algorithm)
    client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=begun["UploadId"])
    result = trials.run(trial)
    assert result.outcomes() == {"ok": 1}, result.summary["error_examples"]
    headers = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    trials.clean_up(place, dataset)
    if "ChecksumAlgorithm" not in begun:
        pytest.skip("this store keeps no checksum of an object in parts")
    assert shown in headers
