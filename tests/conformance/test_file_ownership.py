"""Driver `file` writes to directories that its run marked, and through nothing planted there."""

import errno
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.errors import Kind
from tests.conformance import trials
from tests.conformance.devices import mounted
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

MARK = ".loadstone-mark"
SOMEBODY = 4242
PRECIOUS = b"precious"


def place_at(folder: Path, *, is_foreign: bool = False, **settings: object) -> Place:
    """Describe a directory to the driver."""
    return Place("file", {"path": str(folder), **settings}, None, is_foreign=is_foreign)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give an empty directory."""
    made = tmp_path / "shared"
    made.mkdir()
    return made


def forged(folder: Path, data: Dataset) -> list[Path]:
    """Make the dataset's buckets as loadstone would, with a mark of the dataset's run."""
    buckets = [folder / name for name in data.bucket_names]
    for bucket in buckets:
        bucket.mkdir(mode=0o755)
        mark = bucket / MARK
        mark.write_text(json.dumps({"loadstone": 1, "run": data.run}) + "\n")
        mark.chmod(0o644)
    return buckets


def refused(place: Place, data: Dataset, *, kind: Kind = "not-ours", **changes: object) -> str:
    """Write a dataset that must be refused, and tell why it was."""
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, data, **changes)
    assert caught.value.kind == kind
    return str(caught.value)


def link(target: Path, there: Path) -> None:
    there.symlink_to(target)


def hard_link(target: Path, there: Path) -> None:
    there.hardlink_to(target)


def pipe(_: Path, there: Path) -> None:
    os.mkfifo(there)


PLANTS: list[Callable[[Path, Path], None]] = [link, hard_link, pipe]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("layout", ["in_place", "rename"])
@pytest.mark.parametrize("operation", ["put", "write", "append", "copy", "post", "get", "delete"])
def test_links_planted_under_an_object_name_are_not_followed(
    folder: Path, plant: Callable[[Path, Path], None], layout: str, operation: str
) -> None:
    """The bucket is sound; a link, a second name or a pipe stands where the object should."""
    data, place = Dataset(), place_at(folder, layout=layout)
    trials.prepare(place, data)
    theirs = folder / "theirs"
    theirs.write_bytes(PRECIOUS)
    bucket, key = data.where(3)
    planted = folder / bucket / (f"{key}.copy" if operation == "copy" else key)
    planted.unlink(missing_ok=True)
    plant(theirs, planted)
    before = os.stat(theirs)
    trial = trials.document(place, data, operation)
    trial["options"]["range_bytes"] = data.size_bytes
    result = trials.run(trial)
    assert theirs.read_bytes() == PRECIOUS
    assert os.listxattr(theirs) == []
    assert theirs.stat().st_mtime_ns == before.st_mtime_ns
    if layout == "in_place" and operation in ("put", "write", "append", "copy"):
        assert sum(result.outcomes().values()) - result.outcomes().get("ok", 0) == 1
    trials.clean_up(place, data)
    assert theirs.read_bytes() == PRECIOUS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
@pytest.mark.parametrize("theirs", ["directory", "mark"])
def test_a_forged_mark_of_another_user_is_refused(folder: Path, theirs: str) -> None:
    data, etc = Dataset(), folder / "etc"
    etc.write_bytes(PRECIOUS)
    for bucket in forged(folder, data):
        os.chown(bucket if theirs == "directory" else bucket / MARK, SOMEBODY, SOMEBODY)
    bucket, key = data.where(0)
    (folder / bucket / key).symlink_to(etc)
    assert data.bucket_names[0] in refused(place_at(folder), data)
    assert trials.clean_up(place_at(folder), data).summary["buckets_left"]
    assert etc.read_bytes() == PRECIOUS
    assert (folder / bucket / key).is_symlink()


@pytest.mark.parametrize("wide", ["directory", "mark"])
def test_a_bucket_that_others_may_write_to_is_refused(folder: Path, wide: str) -> None:
    data = Dataset()
    for bucket in forged(folder, data):
        (bucket if wide == "directory" else bucket / MARK).chmod(0o777)
    assert data.bucket_names[0] in refused(place_at(folder), data)


def test_a_mark_is_a_regular_file_with_one_name(folder: Path) -> None:
    for spoil in (link, hard_link):
        data = Dataset()
        for bucket in forged(folder, data):
            aside = folder / f"aside-{uuid.uuid4().hex}"
            (bucket / MARK).rename(aside)
            spoil(aside, bucket / MARK)
        assert data.bucket_names[0] in refused(place_at(folder), data)


def test_a_bucket_that_is_a_link_is_refused_even_if_allowed(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "object-0").write_bytes(PRECIOUS)
    data = Dataset()
    (folder / data.bucket_names[0]).symlink_to(theirs)
    for is_foreign in (False, True):
        refused(place_at(folder, is_foreign=is_foreign), data)
        trials.clean_up(place_at(folder, is_foreign=is_foreign), data)
    assert [path.name for path in theirs.iterdir()] == ["object-0"]


def nested(place: Place, data: Dataset, operation: str, **changes: object) -> dict[str, object]:
    """Write a trial whose keys lie in directories of their own."""
    trial = trials.document(place, data, operation, **changes)
    trial["dataset"]["object_prefix"] = "one/two/key-"
    return trial


@pytest.mark.parametrize("operation", ["put", "get", "head", "list", "delete", "copy"])
def test_a_directory_of_the_prefix_that_becomes_a_link_is_not_followed(
    folder: Path, tmp_path: Path, operation: str
) -> None:
    data, place = Dataset(buckets=1), place_at(folder)
    trials.run(nested(place, data, "put"))
    inner = folder / data.bucket_names[0] / "one"
    theirs = tmp_path / "theirs"
    inner.rename(theirs)
    inner.symlink_to(theirs)
    before = {path.name: path.read_bytes() for path in (theirs / "two").iterdir()}
    result = trials.run(nested(place, data, operation))
    assert "ok" not in result.outcomes()
    trials.run(nested(place, data, "delete", phase="clean-up"))
    assert {path.name: path.read_bytes() for path in (theirs / "two").iterdir()} == before


def test_keys_in_directories_are_written_read_and_swept(folder: Path) -> None:
    data, place = Dataset(), place_at(folder)
    for operation in ("put", "get", "head", "list", "copy", "put", "delete", "put"):
        result = trials.run(nested(place, data, operation))
        assert set(result.outcomes()) == {"ok"}, result.summary["error_examples"]
    trials.run(nested(place, data, "delete", phase="clean-up"))
    assert not list(folder.iterdir())


def test_a_directory_of_another_run_is_refused_by_its_name_until_it_is_named(folder: Path) -> None:
    first = Dataset()
    trials.prepare(place_at(folder), first)
    second = Dataset(prefix=first.prefix)
    for is_foreign in (False, True):
        place = place_at(folder, is_foreign=is_foreign)
        assert first.run in refused(place, second, kind="of-another-run")
    lefts = trials.clean_up(place_at(folder), second).summary["places_left"]
    assert [(left["kind"], first.run in left["reason"]) for left in lefts] == [
        ("other_run", True)
    ] * 2
    named = {"ownership": {"runs": [first.run]}}
    trials.prepare(place_at(folder), second, **named)
    trials.clean_up(place_at(folder), second, **named)
    assert not list(folder.iterdir())


def test_only_a_directory_that_the_journal_holds_and_that_is_empty_is_adopted(folder: Path) -> None:
    data = Dataset(buckets=1)
    bucket = folder / data.bucket_names[0]
    bucket.mkdir()
    adopting = {"ownership": {"adopt": data.bucket_names}}
    refused(place_at(folder), data)
    (bucket / "theirs").write_bytes(PRECIOUS)
    refused(place_at(folder), data, **adopting)
    (bucket / "theirs").unlink()
    trials.prepare(place_at(folder), data, **adopting)
    trials.clean_up(place_at(folder), data)
    assert not bucket.exists()


def test_data_on_an_unmounted_file_system_is_left_and_not_gone(folder: Path) -> None:
    for is_foreign in (False, True):
        data, place = Dataset(), place_at(folder, is_foreign=is_foreign)
        (folder / data.bucket_names[0]).mkdir(mode=0o700) if is_foreign else None
        trials.prepare(place, data)
        with mounted(folder):
            for _ in range(2):
                lefts = trials.clean_up(place, data).summary["places_left"]
                assert [left["kind"] for left in lefts] == ["not_there"] * data.buckets
            with pytest.raises(_loadgen.TargetError) as caught:
                trials.prepare(place, data)
            assert caught.value.kind == "target-absent"
            assert not list(folder.iterdir())
        summary = trials.clean_up(place, data).summary
        assert (summary["places_left"], summary["objects_swept"]) == ([], data.objects)
        # A place missing on the run's own file system counts as removed.
        assert trials.clean_up(place, data).summary["places_left"] == []


@pytest.mark.parametrize("path", ["/dev", "/proc", "/sys"])
def test_no_directory_is_made_among_the_kernels(path: str) -> None:
    data = Dataset()
    with pytest.raises(_loadgen.TargetError):
        trials.prepare(place_at(Path(path)), data)
    assert not [name for name in data.bucket_names if Path(path, name).exists()]


@pytest.mark.parametrize("operation", ["put", "create_bucket"])
def test_directories_are_journalled_before_they_are_created(folder: Path, operation: str) -> None:
    """All at once; when the journal fails nothing is made, and what is there is not reported."""
    data = Dataset(buckets=4)
    text = json.dumps(trials.document(place_at(folder), data, operation))
    with pytest.raises(OSError, match="names: 4") as caught:
        _loadgen.run_trial(text, trials.refuse_the_intent)
    assert caught.value.errno == errno.ENOSPC
    assert not list(folder.iterdir())
    assert trials.intents_of(text) == [data.bucket_names]
    assert all((folder / name / MARK).exists() for name in data.bucket_names)
    assert trials.intents_of(text) == []


def test_unmarked_places_after_a_kill_are_removed_by_their_own_run_only(folder: Path) -> None:
    """Directories that the journal holds, and what bears the run's name in the root."""
    data, place = Dataset(), place_at(folder)
    for name in data.bucket_names:
        (folder / name).mkdir()
    ours = folder / f".loadstone-tmp-{data.run}-1"
    theirs = folder / f".loadstone-tmp-{uuid.uuid4().hex}-1"
    for temporary in (ours, theirs):
        temporary.mkdir()
        (temporary / MARK).write_bytes(b"")
    lefts = trials.clean_up(place, data).summary["places_left"]
    assert [left["kind"] for left in lefts] == ["foreign"] * 2
    for is_first in (True, False):
        swept = trials.clean_up(place, data, ownership={"adopt": data.bucket_names}).summary
        gone = data.bucket_names if is_first else []
        absent = [] if is_first else data.bucket_names
        assert (swept["buckets_deleted"], swept["buckets_absent"]) == (gone, absent)
    assert list(folder.iterdir()) == [theirs]


def test_creating_as_load_goes_on_with_what_a_kill_left_bare(folder: Path) -> None:
    data = Dataset(objects=2)
    (folder / data.bucket_names[1]).mkdir()
    ownership = {"ownership": {"adopt": data.bucket_names}}
    trial = trials.document(place_at(folder), data, "create_bucket", **ownership)
    assert trials.run(trial).outcomes() == {"ok": 2}
    assert all((folder / name / MARK).exists() for name in data.bucket_names)


def test_clean_up_takes_exactly_what_the_run_may_have_written(folder: Path) -> None:
    """Higher numbers, other spellings and names that only resemble objects stay."""
    data, place = Dataset(objects=5, buckets=1), place_at(folder)
    trials.prepare(place, data)
    trials.run(trials.document(place, data, "copy"))
    bucket = folder / data.bucket_names[0]
    names = {"object-5", "object-05", "object-5.copy", "object-4.copy.copy", "object-", "object-4x"}
    names |= {".loadstone-tmp-theirs", f".loadstone-tmp-{uuid.uuid4().hex}-1-1"}
    for name in names:
        (bucket / name).write_bytes(PRECIOUS)
    (bucket / f".loadstone-tmp-{data.run}-1-1").write_bytes(b"what a kill left")
    (bucket / "object-70").write_bytes(b"of a mix")
    (bucket / "object-3").unlink()
    (bucket / "object-3").mkdir()
    names.add("object-3")
    ownership = {"ownership": {"written": [[60, 80]]}}
    (left,) = trials.clean_up(place, data, **ownership).summary["places_left"]
    assert (left["kind"], left["objects"]) == ("other_objects", len(names))
    assert {path.name for path in bucket.iterdir()} == names | {MARK}


def test_a_foreign_directory_is_written_beside_and_never_over(folder: Path) -> None:
    data, place = Dataset(buckets=1), place_at(folder, is_foreign=True)
    bucket = folder / data.bucket_names[0]
    bucket.mkdir()
    (bucket / "object-3").write_bytes(PRECIOUS)
    assert "object-3" in refused(place, data)
    (bucket / "object-3").rename(bucket / "theirs")
    trials.prepare(place, data)
    trials.prepare(place, data)
    another = Dataset(buckets=1, prefix=data.prefix)
    assert data.run in refused(place, another, kind="of-another-run")
    lefts = trials.clean_up(place, another).summary["places_left"]
    assert [left["kind"] for left in lefts] == ["other_run"]
    assert (bucket / "object-3").exists()
    # Nothing of the run is left in what stays: neither after it was cleaned nor when it is again.
    for _ in range(2):
        swept = trials.clean_up(place, data).summary
        assert (swept["places_left"], swept["buckets_foreign"]) == ([], data.bucket_names)
        assert swept["buckets_deleted"] == []
    assert {path.name for path in bucket.iterdir()} == {"theirs"}


def test_a_clean_up_that_never_wrote_deletes_nothing_of_that_form(folder: Path) -> None:
    """The load of a clean-up asks for the same proof as its sweep."""
    data = Dataset(buckets=1)
    bucket = folder / data.bucket_names[0]
    bucket.mkdir()
    (bucket / "object-0").write_bytes(PRECIOUS)
    for is_foreign in (False, True):
        trials.clean_up(place_at(folder, is_foreign=is_foreign), data)
        assert (bucket / "object-0").read_bytes() == PRECIOUS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_another_users_file_in_a_foreign_directory_is_left_alone(folder: Path) -> None:
    """It came after the names were found free."""
    data, place = Dataset(buckets=1), place_at(folder, is_foreign=True)
    bucket = folder / data.bucket_names[0]
    bucket.mkdir()
    bucket.chmod(0o777)
    trials.prepare(place, data)
    theirs = bucket / "object-3"
    theirs.unlink()
    theirs.write_bytes(PRECIOUS)
    os.chown(theirs, SOMEBODY, SOMEBODY)
    for operation in ("put", "delete", "write", "post", "copy"):
        trials.run(trials.document(place, data, operation))
        assert theirs.read_bytes() == PRECIOUS
    trials.clean_up(place, data)
    assert theirs.read_bytes() == PRECIOUS
