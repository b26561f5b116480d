"""Driver `block` overwrites what carries its run's whole mark, and nothing that another user has.

The mark is the first and the last MiB. What is done to a device or an image between two phases of a
run is done here with the tools that people use for it.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.errors import Kind
from tests.conformance import trials
from tests.conformance.devices import detach_loop, loop_device, mounted
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

MIB = 1 << 20
OLD_MARK = b"loadstone overwrites this file or device\n"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Name an image file that is not there yet."""
    return tmp_path / "blocks"


@pytest.fixture
def device() -> Iterator[Path]:
    """Give a blank block device."""
    with loop_device() as path:
        yield path


def dataset() -> Dataset:
    """A dataset of a few MiB, of one run."""
    return Dataset(objects=12, buckets=1, size_bytes=MIB)


def place_at(path: Path, *, is_foreign: bool = False) -> Place:
    """Describe an image or device to the driver."""
    settings = {"path": str(path), "direct": False}
    return Place("block", settings, None, fill="write", read="read", is_foreign=is_foreign)


def tool(*command: object) -> None:
    """Run a program of util-linux and the like, if the host has it."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    made = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def refused(path: Path, data: Dataset, *, is_foreign: bool = False, kind: Kind = "not-ours") -> str:
    """Fill a place that must be refused, and tell why it was; not a byte of it changes."""
    before = path.read_bytes()
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place_at(path, is_foreign=is_foreign), data)
    assert path.read_bytes() == before
    assert caught.value.kind == kind
    return str(caught.value)


def partitioned(path: Path) -> None:
    tool("sgdisk", "-o", "-n", "1:2048:0", path)


def formatted(path: Path) -> None:
    tool("mkfs.ext4", "-q", "-F", path)


def a_label_at_the_end(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-512, os.SEEK_END)
        file.write(b"somebody's label")


def zeroes_inside_the_mark(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(64 << 10)
        file.write(bytes(4096))


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more" * 1024)


def shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def another_name(path: Path) -> None:
    os.link(path, path.with_name("theirs"))


def filled(path: Path) -> bytes:
    """Fill a device with what somebody needs, and return it."""
    path.write_bytes(os.urandom(MIB) * (path.stat().st_size // MIB or 64))
    return path.read_bytes()


def test_a_name_that_went_to_another_device_is_refused_though_foreign_ones_are_allowed(
    tmp_path: Path, device: Path
) -> None:
    data, name = dataset(), tmp_path / "disk"
    place = place_at(name, is_foreign=True)
    filled(device)
    name.symlink_to(device)
    for _ in range(2):
        trials.prepare(place, data)
        assert trials.clean_up(place, data).summary["places_left"] == []
    with loop_device() as other:
        theirs = filled(other)
        name.unlink()
        name.symlink_to(other)
        refused(name, data, is_foreign=True)
        trials.clean_up(place, data)
        assert other.read_bytes() == theirs
        # Another run begins with what is there now.
        trials.prepare(place, dataset())
        assert other.read_bytes() != theirs
    name.unlink()
    name.symlink_to(device)
    trials.prepare(place, data)


def test_a_device_that_is_away_is_left_and_not_gone(tmp_path: Path, device: Path) -> None:
    data, name = dataset(), tmp_path / "disk"
    place = place_at(name, is_foreign=True)
    name.symlink_to(device)
    trials.prepare(place, data)
    name.unlink()
    lefts = trials.clean_up(place, data).summary["places_left"]
    assert [left["kind"] for left in lefts] == ["not_there"]
    name.symlink_to(device)
    assert trials.clean_up(place, data).summary["places_left"] == []


def test_an_image_on_a_file_system_that_is_away_is_left_and_not_gone(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    data, place = dataset(), place_at(folder / "blocks")
    trials.prepare(place, data)
    with mounted(folder):
        lefts = trials.clean_up(place, data).summary["places_left"]
        assert [left["kind"] for left in lefts] == ["not_there"]
        with pytest.raises(_loadgen.TargetError):
            trials.prepare(place, data)
        assert not list(folder.iterdir())
    assert trials.clean_up(place, data).summary["places_left"] == []
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["/dev/absent-of-loadstone", "/dev/absent/deep", "/proc/absent"])
def test_a_mistyped_device_is_not_made(name: str) -> None:
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place_at(Path(name), is_foreign=True), dataset())
    assert caught.value.kind == "target-absent"
    assert not Path(name).exists()


CHANGES: list[Callable[[Path], None]] = [
    partitioned,
    formatted,
    a_label_at_the_end,
    zeroes_inside_the_mark,
    longer,
    shorter,
    another_name,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_image_that_somebody_changed_is_neither_overwritten_nor_deleted(
    image: Path, change: Callable[[Path], None]
) -> None:
    data = dataset()
    trials.prepare(place_at(image), data)
    trials.prepare(place_at(image), data)
    change(image)
    refused(image, data)
    before = image.read_bytes()
    (left,) = trials.clean_up(place_at(image), data).summary["places_left"]
    assert left["kind"] == ("foreign" if change is another_name else "other_objects")
    assert image.read_bytes() == before


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_image_whose_growth_was_cut_is_still_the_run_s(image: Path, goes_on: bool) -> None:
    """A kill between the growth and the new mark leaves nothing but zeroes behind the old one."""
    data = dataset()
    trials.prepare(place_at(image), data)
    longer = Dataset(objects=20, buckets=1, size_bytes=MIB, run=data.run, prefix=data.prefix)
    os.truncate(image, image.stat().st_size + 3 * MIB + 512)
    if goes_on:
        trials.prepare(place_at(image), longer)
        read = trials.run(trials.document(place_at(image), longer, "read"))
        assert set(read.outcomes()) == {"ok"}
    trials.clean_up(place_at(image), longer)
    assert not image.exists()


def test_a_copy_of_an_image_is_neither_overwritten_nor_deleted(image: Path) -> None:
    """It carries the whole mark; a restored backup is such a copy."""
    data, copy = dataset(), image.with_name("copy")
    trials.prepare(place_at(image), data)
    shutil.copyfile(image, copy)
    trials.prepare(place_at(image), data)
    for is_there in (False, True):
        if is_there:
            copy.replace(image)
            copy = image
        refused(copy, data, kind="copied")
        (left,) = trials.clean_up(place_at(copy), data).summary["places_left"]
        assert left["kind"] == "other_objects"
        assert copy.exists()
    # allow_foreign holds for the image that the run began with, and for no other of its name.
    refused(image, data, is_foreign=True)
    trials.forget_volumes()
    trials.prepare(place_at(image, is_foreign=True), data)


def test_an_image_may_be_renamed(image: Path) -> None:
    data, moved = dataset(), image.with_name("moved")
    trials.prepare(place_at(image), data)
    image.rename(moved)
    trials.prepare(place_at(moved), data)
    trials.clean_up(place_at(moved), data)
    assert not moved.exists()


def test_a_copy_of_a_whole_device_is_neither_overwritten_nor_unmarked(device: Path) -> None:
    data = dataset()
    trials.prepare(place_at(device, is_foreign=True), data)
    with loop_device() as other:
        tool("dd", f"if={device}", f"of={other}", "bs=1M", "conv=fsync", "status=none")
        refused(other, data, kind="copied")
        (left,) = trials.clean_up(place_at(other), data).summary["places_left"]
        assert left["kind"] == "other_objects"
        assert other.read_bytes() == device.read_bytes()
        # Another run's leave for the device is leave for the copy on it, then marked as itself.
        refused(other, data, is_foreign=True)
        trials.forget_volumes()
        trials.prepare(place_at(other, is_foreign=True), data)
        trials.prepare(place_at(other), data)
        trials.clean_up(place_at(other), data)
    trials.forget_volumes()
    trials.prepare(place_at(device), data)


def test_a_repartitioned_device_with_a_file_system_is_left_alone(device: Path) -> None:
    data, allowed = dataset(), place_at(device, is_foreign=True)
    trials.prepare(allowed, data)
    tool("sgdisk", "-o", "-n", "1:2048:0", device)
    tool("mkfs.ext4", "-q", "-F", "-E", f"offset={MIB}", device, 8 * 1024)
    assert "gpt" in refused(device, data)
    assert "gpt" in refused(device, data, is_foreign=True)
    before = device.read_bytes()
    trials.clean_up(place_at(device), data)
    assert device.read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [("mkfs.ext4", "-q", "-F"), ("mkswap",), ("sgdisk", "-o"), ("pvcreate",)],
    ids=lambda command: command[0],
)
def test_consent_for_a_device_does_not_cover_its_contents(
    device: Path, command: tuple[str, ...]
) -> None:
    tool(*command, device)
    assert "wipefs" in refused(device, dataset(), is_foreign=True)
    tool("wipefs", "-q", "-a", device)
    trials.prepare(place_at(device, is_foreign=True), dataset())


def test_a_mounted_device_is_refused_though_it_is_allowed(device: Path, tmp_path: Path) -> None:
    tool("mkfs.ext4", "-q", "-F", device)
    tool("mount", device, tmp_path)
    try:
        with pytest.raises(_loadgen.TargetError) as caught:
            trials.prepare(place_at(device, is_foreign=True), dataset())
        assert caught.value.kind == "in-use"
    finally:
        tool("umount", tmp_path)


def test_an_image_that_a_loop_device_shows_is_refused(image: Path) -> None:
    data = dataset()
    trials.prepare(place_at(image), data)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
    loop = made.stdout.strip()
    try:
        assert loop.removeprefix("/dev/") in refused(image, data, kind="in-use")
    finally:
        detach_loop(loop)
    trials.prepare(place_at(image), data)


def test_a_mark_of_another_run_is_refused_by_its_name_until_it_is_named(image: Path) -> None:
    first, second = dataset(), dataset()
    trials.prepare(place_at(image), first)
    for is_foreign in (False, True):
        message = refused(image, second, is_foreign=is_foreign, kind="of-another-run")
        assert first.run in message
    (left,) = trials.clean_up(place_at(image), second).summary["places_left"]
    assert (left["kind"], first.run in left["reason"]) == ("other_run", True)
    assert image.exists()
    named = {"ownership": {"runs": [first.run]}}
    trials.prepare(place_at(image), second, **named)
    trials.clean_up(place_at(image), second, **named)
    assert not image.exists()


def test_kept_data_of_another_run_stays_on_an_allowed_device(
    device: Path,
) -> None:
    first, second = dataset(), dataset()
    trials.prepare(place_at(device, is_foreign=True), first)
    message = refused(device, second, is_foreign=True, kind="of-another-run")
    assert first.run in message
    trials.clean_up(place_at(device, is_foreign=True), first)
    trials.prepare(place_at(device, is_foreign=True), second)


def test_the_mark_of_an_earlier_version_is_none(image: Path) -> None:
    image.write_bytes(OLD_MARK.ljust(20 * MIB, b"\0"))
    assert "earlier version" in refused(image, dataset())
    trials.clean_up(place_at(image), dataset())
    assert image.exists()


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_link_to_a_file_is_refused_and_stays(image: Path, is_dangling: bool) -> None:
    theirs = image.with_name("theirs")
    if not is_dangling:
        theirs.write_bytes(b"precious")
    image.symlink_to(theirs)
    for is_foreign in (False, True):
        for do in (trials.prepare, trials.clean_up):
            with pytest.raises(_loadgen.TargetError) as caught:
                do(place_at(image, is_foreign=is_foreign), dataset())
            assert caught.value.kind == "not-ours"
    assert image.is_symlink()
    assert theirs.exists() != is_dangling


def test_a_link_to_a_device_is_followed(device: Path, tmp_path: Path) -> None:
    """Those of udev are such links."""
    link = tmp_path / "by-id"
    link.symlink_to(device)
    data = dataset()
    trials.prepare(place_at(link, is_foreign=True), data)
    trials.clean_up(place_at(link), data)


def test_nothing_of_a_file_is_left_that_could_not_be_made(image: Path) -> None:
    """Without space for the file, neither it nor its draft is left."""
    huge = Dataset(objects=1 << 40, buckets=1, size_bytes=4096)
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place_at(image), huge)
    # By the file system: there is no room for it, or no file of it is so large.
    assert caught.value.kind in {"no-space", "unsupported"}
    assert not list(image.parent.iterdir())


def test_a_dataset_that_no_number_can_count_is_refused(image: Path) -> None:
    """The length would wrap around to a small one, and blocks to the start of the file."""
    data = Dataset(objects=(1 << 52) + 12, buckets=1, size_bytes=4096)
    image.write_bytes(bytes(4 * MIB))
    refused(image, data, is_foreign=True, kind="unsupported")


def test_a_run_without_a_mark_of_its_own_takes_no_file_that_is_there(image: Path) -> None:
    image.write_bytes(uuid.uuid4().bytes)
    refused(image, dataset())
