"""rbd-fuse confuses the handles of images that were just made: no other image may be written to."""

from pathlib import Path

import pytest

from tests.conformance import trials
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

pytestmark = [pytest.mark.real]

IMAGE_BYTES = 8 << 20


def test_a_new_image_is_marked_and_another_image_keeps_its_bytes(rbd_images: Path) -> None:
    """Somebody's image that was opened first stands in slot 0, where a fresh handle points."""
    theirs = rbd_images / "somebody"
    theirs.touch()
    with theirs.open("r+b") as image:
        image.truncate(IMAGE_BYTES)
        image.write(b"theirs" * 1000)
    before = theirs.read_bytes()
    settings = {"path": str(rbd_images / "ours"), "direct": False}
    place = Place("block", settings, None, fill="write", read="read", range_bytes=4096)
    dataset = Dataset(objects=8, buckets=1, size_bytes=96 * 4096)
    try:
        trials.prepare(place, dataset)
        result = trials.run(trials.document(place, dataset, "read"))
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
        assert theirs.read_bytes() == before
        trials.clean_up(place, dataset)
        assert not Path(settings["path"]).exists()
        assert theirs.read_bytes() == before
    finally:
        theirs.unlink()
