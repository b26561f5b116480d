"""Another client of an object store works beside loadstone, at random: what it wrote stays.

The histories of `test_another_user.py`, where places are buckets. Somebody makes buckets under our
names, empty, with keys of our dataset, with the mark of another run or a copy of ours; puts keys
into any run's bucket, before phases and during them; takes our marks and objects away. Each byte
and bucket of theirs is looked at after each step.

One thing is no part of it, as the reference of targets says that nothing is known there: keys of
the dataset in a bucket that carries this run's mark.
"""

import json
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import swiftclient
from botocore.exceptions import BotoCoreError, ClientError

from loadstone import _loadgen
from tests.conformance.conftest import marks_of
from tests.conformance.rados_view import RadosView
from tests.conformance.targets import TARGETS, Place, Target
from tests.conformance.test_another_user import LONG, SHORT, SLICE, STEPS, meanwhile, phase
from tests.conformance.trials import Dataset
from tests.conformance.views import SwiftView, View

MARK = ".loadstone-mark"
MARK_HEADER = "x-container-meta-loadstone"
REFUSED = (ClientError, BotoCoreError, swiftclient.ClientException, RuntimeError)
HISTORIES = (
    "embedded-s3", "embedded-swift-tempauth", "ceph-pool-replicated", "ceph-pool-ec",
)  # fmt: skip
OPERATIONS = (
    "prepare", "prepare", "prepare", "clean-up", "put", "get", "delete", "bulk_delete", "copy",
    "post", "list", "head", "append", "write", "create_bucket", "delete_bucket",
)  # fmt: skip


class Client:
    """Somebody else who writes to the store, and all that they wrote there."""

    def __init__(self, view: View, data: Dataset, chance: random.Random) -> None:
        """Begin with a bucket beside those of the dataset."""
        self.view, self.data, self.chance = view, data, chance
        self.put: dict[tuple[str, str], bytes] = {}
        self.buckets: set[str] = set()
        self._make(f"theirs-{data.prefix}0", "object-0", "precious")

    def changed(self) -> list[str]:
        """Return the names of foreign objects that have changed."""
        there = self.view.buckets()
        return [bucket for bucket in self.buckets if bucket not in there] + [
            f"{bucket}/{key}"
            for (bucket, key), content in self.put.items()
            if bucket not in there
            or key not in self.view.objects(bucket)
            or self.view.read(bucket, key) != content
        ]

    def makes_a_bucket(self) -> None:
        numbers = self.chance.sample(range(self.data.objects + 2), 2)
        self._make(self._bucket(), *(f"object-{number}" for number in numbers))

    def makes_an_empty_bucket(self) -> None:
        self._make(self._bucket())

    def makes_a_bucket_with_the_mark_of_another_run(self) -> None:
        bucket = self._bucket()
        if not self._make(bucket, "object-0", "object-1"):
            return
        mark = json.dumps({"loadstone": 1, "run": uuid.UUID(int=self.chance.getrandbits(128)).hex})
        if isinstance(self.view, SwiftView):
            self.view.client.post_container(bucket, {MARK_HEADER: mark})
        else:
            self._write(bucket, MARK, mark.encode())

    def makes_a_bucket_with_a_copy_of_our_mark(self) -> None:
        """Put an object with a copied mark, as a backup of another bucket contains it."""
        source, bucket = self._bucket(), self._bucket()
        if source in self.buckets or source not in self.view.buckets():
            return
        if isinstance(self.view, SwiftView):
            mark = self.view.client.head_container(source).get(MARK_HEADER, "")
        elif MARK in self.view.objects(source):
            mark = self.view.read(source, MARK).decode()
        else:
            return
        if not self._make(bucket, "object-0", "object-1"):
            return
        if isinstance(self.view, SwiftView):
            self.view.client.post_container(bucket, {MARK_HEADER: mark})
        else:
            self._write(bucket, MARK, mark.encode())

    def puts_a_key_beyond_the_dataset(self) -> None:
        """Into any run's bucket."""
        bucket = self._bucket()
        number = self.data.objects + self.chance.randint(0, 9)
        key = self.chance.choice([f"object-{number}", "object", "theirs", "object-1-backup"])
        if bucket in self.view.buckets():
            self._write(bucket, key, self.chance.randbytes(100))

    def puts_a_key_of_the_dataset(self) -> None:
        """Into a bucket of theirs, where it may take the place of one of ours."""
        bucket = self._bucket()
        if bucket in self.buckets:
            self._write(bucket, f"object-{self.chance.randrange(6)}", self.chance.randbytes(100))

    def takes_an_object_of_ours_away(self) -> None:
        bucket, key = self._bucket(), f"object-{self.chance.randrange(6)}"
        if (bucket, key) not in self.put and bucket in self.view.buckets():
            self.view.delete(bucket, key)

    def takes_a_mark_away(self) -> None:
        bucket = self._bucket()
        if bucket in self.buckets or bucket not in self.view.buckets():
            return
        if isinstance(self.view, SwiftView):
            self.view.client.post_container(bucket, {MARK_HEADER: ""})
        else:
            self.view.delete(bucket, MARK)

    def drops_a_bucket_of_theirs(self) -> None:
        bucket = self._bucket()
        if bucket in self.buckets:
            self._drop(bucket)

    def clears_all_of_the_dataset_away(self) -> None:
        """Remove the obstacles, so that loadstone can continue."""
        for bucket in self.view.buckets() & set(self.data.bucket_names):
            self._drop(bucket)

    def deeds(self) -> list[Callable[[], None]]:
        """All that they do."""
        return [
            self.makes_a_bucket,
            self.makes_an_empty_bucket,
            self.makes_a_bucket_with_the_mark_of_another_run,
            self.makes_a_bucket_with_a_copy_of_our_mark,
            self.makes_a_bucket_with_a_copy_of_our_mark,
            self.puts_a_key_beyond_the_dataset,
            self.puts_a_key_beyond_the_dataset,
            self.puts_a_key_of_the_dataset,
            self.puts_a_key_of_the_dataset,
            self.takes_an_object_of_ours_away,
            self.takes_a_mark_away,
            self.drops_a_bucket_of_theirs,
            self.clears_all_of_the_dataset_away,
        ]

    def _drop(self, bucket: str) -> None:
        self.view.drop_bucket(bucket)
        self.buckets.discard(bucket)
        self.put = {place: words for place, words in self.put.items() if place[0] != bucket}

    def _bucket(self) -> str:
        return self.chance.choice(self.data.bucket_names)

    def _make(self, bucket: str, *keys: str) -> bool:
        if bucket in self.view.buckets():
            return False
        self.view.make_bucket(bucket)
        # A namespace is there only as long as something is in it.
        if keys or not isinstance(self.view, RadosView):
            self.buckets.add(bucket)
        for key in keys:
            self._write(bucket, key, self.chance.randbytes(self.chance.randint(0, 3000)))
        return True

    def _write(self, bucket: str, key: str, content: bytes) -> None:
        self.view.write(bucket, key, content)
        self.put[bucket, key] = content


def beside_objects(place: Place, seed: int) -> list[str]:
    """One history of a driver of an object store."""
    assert place.view is not None
    chance = random.Random(seed)
    data = Dataset(
        objects=6,
        buckets=2,
        size_bytes=1024,
        prefix=f"bench-{uuid.UUID(int=chance.getrandbits(128)).hex[:8]}-",
        run=uuid.UUID(int=chance.getrandbits(128)).hex,
    )
    client = Client(place.view, data, chance)
    is_foreign = chance.random() < 0.4
    can = next(row["operations"] for row in _loadgen.drivers() if row["name"] == place.driver)
    operations = [name for name in OPERATIONS if name in can or name in ("prepare", "clean-up")]
    steps: list[str] = []
    for _ in range(STEPS):
        deed = chance.choice(client.deeds())
        steps.append(deed.__name__)
        try:
            deed()
        except REFUSED:
            steps.append("the store refused them")
        operation = chance.choice(operations)
        if chance.random() < 0.3:
            with meanwhile(tolerant(client.puts_a_key_beyond_the_dataset)):
                steps.append(
                    f"{operation}: {phase(place, data, operation, allow_foreign=is_foreign)}"
                )
        else:
            steps.append(f"{operation}: {phase(place, data, operation, allow_foreign=is_foreign)}")
        changed = client.changed()
        assert not changed, (seed, is_foreign, steps, changed)
    for bucket in place.view.buckets():
        if data.prefix in bucket:
            place.view.drop_bucket(bucket)
    return steps


def tolerant(deed: Callable[[], None]) -> Callable[[], None]:
    """Let a deed meet a bucket that goes away meanwhile."""

    def do() -> None:
        try:
            deed()
        except REFUSED:
            return

    return do


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    target: Target = request.param
    with target.start(request) as place:
        for name, value in place.environment.items():
            monkeypatch.setenv(name, value)
        yield place


def cells() -> Iterator[Any]:
    for target in TARGETS:
        if target.name not in HISTORIES:
            continue
        marks = marks_of(target)
        yield pytest.param(target, range(SHORT), marks=marks, id=f"{target.name}-0-{SHORT - 1}")
        for begin in range(0, LONG, SLICE):
            seeds = range(begin, begin + SLICE)
            in_turn = [*marks, pytest.mark.long(cpu_s=20)]
            name = f"{target.name}-{begin}-{seeds[-1]}"
            yield pytest.param(target, seeds, marks=in_turn, id=name)


@pytest.mark.parametrize(("store", "seeds"), list(cells()), indirect=["store"])
def test_nothing_changes_that_another_client_wrote(store: Place, seeds: range) -> None:
    ends: dict[str, int] = {}
    for seed in seeds:
        for end in beside_objects(store, seed):
            ends[end] = ends.get(end, 0) + 1
    print(store.driver, seeds, dict(sorted(ends.items())))
    # Histories in which loadstone never got on, or was never refused, would show nothing.
    assert ends.get("prepare: done", 0) > len(seeds) // 4
    assert ends.get("prepare: refused", 0) > len(seeds) // 4
