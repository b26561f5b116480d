"""Objects that the client encrypts: what is stored opens with another implementation."""

from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import envelopes, trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

SEGMENT_BYTES = 64 << 10
CIPHERS = ("aes-256-gcm", "aes-256-cbc")
ENCRYPTING = {row["name"] for row in _loadgen.drivers() if row["encrypts"]}

pytestmark = needs("view")


@pytest.fixture(autouse=True)
def _driver_encrypts(place: Place) -> None:
    if place.driver not in ENCRYPTING:
        pytest.skip(f"driver {place.driver} does not encrypt")


def encrypted(
    place: Place, dataset: Dataset, operation: str, cipher: str, **changes: Any
) -> dict[str, Any]:
    """Write a trial on encrypted objects."""
    trial = trials.document(place, dataset, operation, **changes)
    trial["dataset"] |= {"encryption": cipher}
    return trial


@pytest.mark.parametrize("cipher", CIPHERS)
def test_objects_are_read_back_with_their_size(place: Place, dataset: Dataset, cipher: str) -> None:
    """All sizes around the edges of segments come back verified, and are stored as declared."""
    sizes = [0, 1, 16, 17, 75, 76, 77, 143, 144, 145, 4096, 65535, 65536, 65537, 200_000]
    law = {"kind": "weighted", "choices": [[size, 1.0] for size in sizes]}
    dataset = Dataset(objects=60, prefix=dataset.prefix, run=dataset.run)
    put = encrypted(place, dataset, "put", cipher, phase="prepare")
    get = encrypted(place, dataset, "get", cipher)
    for trial in (put, get):
        trial["dataset"]["size"] = law
    written, read = trials.run(put), trials.run(get)
    assert written.outcomes() == {"ok": 60}, written.summary["error_examples"]
    assert read.outcomes() == {"ok": 60}, read.summary["error_examples"]
    assert read.total("bytes") == written.total("bytes") == read.summary["verified_bytes"]
    unverified = trials.run(get | {"verify": 0.0})
    assert unverified.outcomes() == {"ok": 60}, unverified.summary["error_examples"]
    assert unverified.summary["verified_bytes"] == 0
    assert place.view is not None
    stored = [
        size
        for bucket in dataset.bucket_names
        for key, size in place.view.objects(bucket).items()
        if key.startswith("object-")
    ]
    assert sum(stored) == written.total("bytes")
    trials.clean_up(place, dataset)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_parts_make_the_same_object_as_one_request(
    place: Place, dataset: Dataset, cipher: str
) -> None:
    """An upload in parts reads back whole: segments know nothing of parts."""
    part_bytes = place.smallest_part_bytes
    dataset = Dataset(
        objects=2, size_bytes=2 * part_bytes + 12_345, prefix=dataset.prefix, run=dataset.run
    )
    parts = encrypted(place, dataset, "multipart_put", cipher, phase="prepare")
    parts["options"] |= {"part_bytes": part_bytes}
    written = trials.run(parts)
    assert written.outcomes() == {"ok": 2}, written.summary["error_examples"]
    read = trials.run(encrypted(place, dataset, "get", cipher))
    assert read.outcomes() == {"ok": 2}, read.summary["error_examples"]
    trials.clean_up(place, dataset)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_another_seed_reads_only_corrupt_objects(
    place: Place, dataset: Dataset, cipher: str
) -> None:
    """The key comes from run and seed: another one does not open, verified or not."""
    trials.run(encrypted(place, dataset, "put", cipher, phase="prepare"))
    for verify in (0.0, 1.0):
        wrong = encrypted(place, dataset, "get", cipher, seed=8, verify=verify)
        assert trials.run(wrong).outcomes() == {"corrupt": dataset.objects}
    trials.clean_up(place, dataset)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_longer_object_is_overlong_and_a_shorter_one_truncated(
    place: Place, dataset: Dataset, cipher: str
) -> None:
    """A store that cuts objects or adds to them is found out, verified or not."""
    trials.run(encrypted(place, dataset, "put", cipher, phase="prepare"))
    assert place.view is not None
    for number in range(dataset.objects):
        where = dataset.where(number)
        stored = place.view.read(*where)
        place.view.write(*where, stored + b"x" if number % 2 else stored[:-1])
    for verify in (0.0, 1.0):
        read = trials.run(encrypted(place, dataset, "get", cipher, verify=verify))
        half = dataset.objects // 2
        assert read.outcomes() == {"overlong": half, "truncated": half}
    trials.clean_up(place, dataset)


# Form and reader's number, wrapped key, IV or nonce, ciphertext; from the end a tag or MAC.
@pytest.mark.parametrize("at", [0, 5, 20, 82, 200, -1])
@pytest.mark.parametrize("cipher", CIPHERS)
def test_objects_that_do_not_unwrap_or_authenticate_are_corrupt(
    place: Place, dataset: Dataset, cipher: str, at: int
) -> None:
    """One flipped bit of envelope, ciphertext or MAC is an outcome, even of reads unverified."""
    dataset = Dataset(objects=2, size_bytes=4096, prefix=dataset.prefix, run=dataset.run)
    trials.run(encrypted(place, dataset, "put", cipher, phase="prepare"))
    assert place.view is not None
    for number in range(dataset.objects):
        where = dataset.where(number)
        stored = bytearray(place.view.read(*where))
        stored[at] ^= 1
        place.view.write(*where, bytes(stored))
    for verify in (0.0, 1.0):
        read = trials.run(encrypted(place, dataset, "get", cipher, verify=verify))
        assert read.outcomes() == {"corrupt": 2}, read.summary["error_examples"]
    trials.clean_up(place, dataset)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_an_older_version_is_stale(place: Place, dataset: Dataset, cipher: str) -> None:
    """Properties of the plaintext are judged in the same way as without encryption."""
    trials.run(encrypted(place, dataset, "put", cipher, phase="prepare"))
    newer = encrypted(place, dataset, "get", cipher)
    newer["dataset"] |= {"version": 2}
    assert trials.run(newer).outcomes() == {"stale": dataset.objects}
    trials.clean_up(place, dataset)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_stored_object_opens_with_another_implementation(
    place: Place, dataset: Dataset, cipher: str
) -> None:
    """Envelope, nonces, tags and padding are where the reference says, around the payload."""
    size = SEGMENT_BYTES + 4099
    dataset = Dataset(objects=1, size_bytes=size, prefix=dataset.prefix, run=dataset.run)
    put = encrypted(place, dataset, "put", cipher, phase="prepare")
    trials.run(put)
    assert place.view is not None
    stored = place.view.read(*dataset.where(0))
    plain = envelopes.opened(stored, cipher, envelopes.Keys(dataset.run, seed=7).of_run())
    overhead = 48 + 2 * 28 if cipher == "aes-256-gcm" else 80 + 2 * 64 + size % 16
    assert len(plain) == size - overhead
    assert plain[:4] == b"LDS\x01"
    assert plain[4:20] == bytes.fromhex(dataset.run)
    assert int.from_bytes(plain[44:52], "little") == len(plain)
    trials.clean_up(place, dataset)
