"""Another user works at random at the same time: loadstone changes no foreign byte.

Each history is a seeded sequence of loadstone's own phases and of what another user does between
them and during them: copies marks, makes links, second names and pipes, swaps directories,
repartitions, formats and resizes, mounts over what loadstone uses and unmounts it, and gives its
names to other devices. Everything that the other user wrote is known, and compared after
each step. A phase of loadstone's succeeds, counts failures, or is refused with a target's error.
"""

import contextlib
import functools
import json
import os
import random
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import devices, trials
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

SHORT, LONG, SLICE = 15, 500, 50
STEPS = 12
MIB = 1 << 20
SOMEBODY = 4242
SECTOR = 512


class Neighbour:
    """Another user of a directory, with the files that they wrote in and outside of it."""

    def __init__(self, folder: Path, data: Dataset, chance: random.Random) -> None:
        """Begin with private files, outside of the target."""
        self.shared = folder / "shared"
        self.home = folder / "home"
        self.data, self.chance = data, chance
        self.home.mkdir()
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        for number in range(4):
            (self.home / f"object-{number}").write_bytes(self._words())
        # All files in their home, and the files that they put into shared places.
        self.put: dict[Path, bytes] = {}
        self.mounts = contextlib.ExitStack()
        # While another file system is mounted, nearly all phases are refused.
        self.mounts_at_all = os.geteuid() == 0 and chance.random() < 0.3
        # The directory below the mount.
        self._below: list[int] = []
        self._covered: dict[Path, bytes] = {}

    def mounts_over(self) -> None:
        """Mount an empty file system over the directory, which hides all files."""
        if self._below:
            return
        self._below.append(os.open(self.shared, os.O_PATH | os.O_DIRECTORY))
        self.mounts.enter_context(devices.mounted(self.shared))
        self.shared.chmod(0o1777)
        self._covered, self.put = self.put, {}

    def unmounts(self) -> None:
        """Unmount it; this deletes all data on it, including loadstone's."""
        if not self._below:
            return
        self.mounts.close()
        os.close(self._below.pop())
        self.put, self._covered = self._covered, {}

    close = unmounts

    def has_marks_of(self, run: str) -> bool:
        """Tell whether a directory of the run exists, visible or below a mount."""
        folders = [self.shared, *(Path(f"/proc/self/fd/{number}") for number in self._below)]
        marks = [
            folder / name / ".loadstone-mark"
            for folder in folders
            for name in self.data.bucket_names
        ]
        return any(
            mark.is_file()
            and not mark.is_symlink()
            and mark.stat().st_uid == os.geteuid()
            and run in mark.read_text()
            for mark in marks
        )

    def _words(self) -> bytes:
        return f"precious {self.chance.random()}\n".encode() * self.chance.randint(1, 300)

    def _bucket(self) -> Path:
        return self.shared / self.chance.choice(self.data.bucket_names)

    def _name(self) -> str:
        number = self.chance.randint(0, self.data.objects + 2)
        return self.chance.choice([f"object-{number}", f"object-{number}.copy", "theirs", "one"])

    def _give_away(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)

    def snapshot(self) -> dict[str, bytes]:
        """Return all bytes of the other user."""
        contents = {str(path): path.read_bytes() for path in self.home.iterdir()}
        # Only the users themselves may move their file in a shared place; loadstone must not
        # replace its content under any of its names.
        contents |= {str(path): path.read_bytes() for path in self.put if path.exists()}
        return contents

    def makes_a_bucket(self) -> None:
        """Make a directory that contains a file with an object's name."""
        bucket = self._bucket()
        if not os.path.lexists(bucket):
            bucket.mkdir()
            self._give_away(bucket)
            path = bucket / self._name()
            path.write_bytes(self._words())
            self._give_away(path)
            self.put[path] = path.read_bytes()

    def forges_a_bucket(self) -> None:
        """Make a directory with a copy of the run's mark, and a link to a private file."""
        bucket = self._bucket()
        if os.path.lexists(bucket) or os.geteuid() != 0:
            return
        bucket.mkdir()
        (bucket / ".loadstone-mark").write_text(
            json.dumps({"loadstone": 1, "run": self.data.run}) + "\n"
        )
        (bucket / "object-0").symlink_to(self.home / "object-0")
        self._give_away(bucket / ".loadstone-mark")
        self._give_away(bucket)

    def links_a_bucket(self) -> None:
        bucket = self._bucket()
        if not os.path.lexists(bucket):
            bucket.symlink_to(self.home)

    def swaps_a_bucket(self) -> None:
        """Replace a directory by a link to their home, or move it back."""
        bucket = self._bucket()
        if bucket.is_dir() and not bucket.is_symlink():
            aside = self.shared / f"aside-{uuid.UUID(int=self.chance.getrandbits(128)).hex}"
            bucket.rename(aside)
            self.put = {
                aside / path.relative_to(bucket) if path.is_relative_to(bucket) else path: content
                for path, content in self.put.items()
            }
            bucket.symlink_to(self.home)

    def plants(self) -> None:
        """Put a link, a hard link or a pipe under an object's name."""
        there = self._bucket() / self._name()
        if not there.parent.is_dir() or there.parent.is_symlink():
            return
        if os.path.lexists(there):
            # The previous content was loadstone's, or the user's, who removes it here.
            self.put.pop(there, None)
            if there.is_dir() and not there.is_symlink():
                return
            there.unlink()
        theirs = self.home / f"object-{self.chance.randint(0, 3)}"
        kind = self.chance.choice(["link", "hard link", "pipe", "dangling", "directory"])
        match kind:
            case "link":
                there.symlink_to(theirs)
            case "hard link" if not self._below:
                there.hardlink_to(theirs)
            case "pipe":
                os.mkfifo(there)
            case "dangling":
                there.symlink_to(self.home / "not-there")
            case _:
                there.mkdir()

    def puts_a_key(self) -> None:
        """Put a key beyond the dataset into the bucket of any run."""
        bucket = self._bucket()
        path = bucket / f"object-{self.data.objects + self.chance.randint(0, 9)}"
        if bucket.is_dir() and not bucket.is_symlink() and not os.path.lexists(path):
            path.write_bytes(self._words())
            self._give_away(path)
            self.put[path] = path.read_bytes()

    def unpacks_an_archive(self) -> None:
        """Unpack an archived bucket in its place or under another name: links are kept, inodes
        differ.
        """
        bucket, target = self._bucket(), self._bucket()
        if not bucket.is_dir() or bucket.is_symlink() or (target != bucket and target.exists()):
            return
        archive = self.home.parent / "archive.tar"
        subprocess.run(["tar", "-C", bucket, "-cf", archive, "."], check=True)
        if target == bucket:
            shutil.rmtree(bucket)
        elif os.path.lexists(target):
            target.unlink()
        target.mkdir()
        subprocess.run(["tar", "-C", target, "-xpf", archive], check=True)
        copies = {
            target / path.relative_to(bucket): content
            for path, content in self.put.items()
            if path.is_relative_to(bucket)
        }
        self.put |= copies

    def takes_links_away(self) -> None:
        """Remove the obstacles, so that loadstone can continue."""
        for path in [*self.shared.iterdir(), *self.shared.glob("*/*")]:
            if path.is_symlink() or path.is_fifo():
                path.unlink()

    def deeds(self) -> list[Callable[[], None]]:
        """Return all actions of the other user."""
        mounting = [self.mounts_over, self.unmounts, self.unmounts] if self.mounts_at_all else []
        return [
            *mounting,
            self.makes_a_bucket,
            self.forges_a_bucket,
            self.links_a_bucket,
            self.swaps_a_bucket,
            self.plants,
            self.plants,
            self.puts_a_key,
            self.unpacks_an_archive,
            self.takes_links_away,
        ]


@contextlib.contextmanager
def meanwhile(deed: Callable[[], None]) -> Iterator[None]:
    """Run actions of the other user during a phase, and ignore their errors."""

    def do() -> None:
        with contextlib.suppress(OSError):
            deed()

    thread = threading.Thread(target=do)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def phase(place: Place, data: Dataset, operation: str, **changes: object) -> str:
    """Run a phase; it ends, is refused with an error of the target, or leaves data behind."""
    try:
        match operation:
            case "prepare":
                trials.prepare(place, data, **changes)
            case "clean-up":
                summary = trials.clean_up(place, data, **changes).summary
                if summary["places_left"] or summary["failed"]:
                    return "left"
            case _:
                trials.run(trials.document(place, data, operation, **changes))
    except _loadgen.TargetError as error:
        assert str(error)
        return "refused"
    return "done"


def beside_files(folder: Path, seed: int) -> list[str]:
    """Run one history of driver `file`."""
    chance = random.Random(seed)
    data = Dataset(
        objects=6,
        buckets=2,
        size_bytes=1024,
        prefix=f"bench-{seed}-",
        run=uuid.UUID(int=chance.getrandbits(128)).hex,
    )
    neighbour = Neighbour(folder, data, chance)
    layout = chance.choice(["in_place", "rename"])
    is_foreign = chance.random() < 0.3
    settings = {"path": str(neighbour.shared), "layout": layout}
    place = Place("file", settings, None, is_foreign=is_foreign)
    operations = ["prepare", "prepare", "clean-up", "put", "get", "delete", "copy", "post"]
    operations += ["list", "head", "write", "append", "create_bucket", "delete_bucket"]

    def is_home(path: str) -> bool:
        return Path(path).parent == neighbour.home

    steps: list[str] = []
    with contextlib.closing(neighbour):
        for _ in range(STEPS):
            chance.choice(neighbour.deeds())()
            before = neighbour.snapshot()
            operation = chance.choice(operations)
            if chance.random() < 0.3:
                # The user's changes to their own files must not count as loadstone's changes.
                with meanwhile(neighbour.swaps_a_bucket):
                    steps.append(f"{operation}: {phase(place, data, operation)}")
                before = {path: words for path, words in before.items() if is_home(path)}
            else:
                steps.append(f"{operation}: {phase(place, data, operation)}")
            if steps[-1] == "clean-up: done":
                # An empty place has no marks that the user could remove.
                assert not neighbour.has_marks_of(data.run), (seed, steps)
            after = neighbour.snapshot()
            changed = {path for path in before if after.get(path) != before[path]}
            assert not changed, (seed, steps, changed)
            assert not (neighbour.home / "not-there").exists(), (seed, steps)
            assert {path.name for path in neighbour.home.iterdir()} == {
                f"object-{number}" for number in range(4)
            }, (seed, steps)
    return steps


IMAGE_OBJECTS = 3
DEVICE_BYTES = 8 * MIB


def beside_devices(folder: Path, seed: int) -> list[str]:
    """Run one history of driver `block`, on devices whose names another user swaps."""
    chance = random.Random(seed)
    data = Dataset(
        objects=IMAGE_OBJECTS,
        buckets=1,
        size_bytes=256 << 10,
        run=uuid.UUID(int=chance.getrandbits(128)).hex,
    )
    name = folder / "disk"
    is_foreign = chance.random() < 0.7
    settings = {"path": str(name), "direct": False}
    place = Place(
        "block", settings, None, fill="write", read="read", range_bytes=4096, is_foreign=is_foreign
    )
    steps: list[str] = []
    with contextlib.ExitStack() as stack:
        disks = [stack.enter_context(devices.loop_device(DEVICE_BYTES)) for _ in range(2)]
        taken: Path | None = None
        marked: Path | None = None
        for _ in range(STEPS):
            if chance.random() < 0.5:
                name.unlink(missing_ok=True)
                if chance.random() < 0.8:
                    name.symlink_to(chance.choice(disks))
            if chance.random() < 0.4:
                disk = chance.choice(disks)
                disk.write_bytes(chance.randbytes(4096) * (DEVICE_BYTES // 4096))
                # Bytes that the user writes are theirs, even over a mark of loadstone.
                marked = None if marked == disk else marked
            disk_now = name.resolve() if name.exists() else None
            before = {disk: disk.read_bytes() for disk in disks}
            operation = chance.choice(["prepare", "prepare", "write", "read", "delete", "clean-up"])
            if is_foreign:
                # allow_foreign for a device holds for the same device in the second round, too.
                data = replace(data, prefix=f"round-{1 + len(steps) * 2 // STEPS}-")
            ended = phase(place, data, operation)
            steps.append(f"{operation}: {ended}")
            changed = {disk for disk in disks if disk.read_bytes() != before[disk]}
            if changed and is_foreign and taken is None:
                taken = disk_now
            # Only the device to which the run first wrote is allowed.
            assert changed <= {taken}, (seed, steps)
            if operation in ("prepare", "write") and ended == "done":
                # loadstone created a file in place of a missing device; it is removed with the
                # name.
                marked = disk_now if disk_now in disks else None
            if operation == "clean-up" and ended == "done" and marked is not None:
                assert disk_now == marked, (seed, steps)
                marked = None
    return steps


def beside_blocks(folder: Path, seed: int) -> list[str]:
    """Run one history of driver `block`, on an image file."""
    chance = random.Random(seed)
    data = Dataset(
        objects=IMAGE_OBJECTS,
        buckets=1,
        size_bytes=256 << 10,
        run=uuid.UUID(int=chance.getrandbits(128)).hex,
    )
    image, theirs = folder / "image", folder / "theirs"
    theirs.write_bytes(b"precious" * 1024)
    is_foreign = chance.random() < 0.3
    place = Place(
        "block",
        {"path": str(image), "direct": False},
        None,
        fill="write",
        read="read",
        range_bytes=4096,
        is_foreign=is_foreign,
    )
    steps, is_theirs = [], False
    for _ in range(STEPS):
        deed = chance.choice(IMAGE_DEEDS)
        if chance.random() < 0.6 and deed(image, theirs, chance):
            is_theirs = True
            steps.append(deed.__name__)
        before = image.read_bytes() if image.is_file() else None
        was_link = image.is_symlink()
        operation = chance.choice(["prepare", "prepare", "write", "read", "delete", "clean-up"])
        ended = phase(place, data, operation)
        steps.append(f"{operation}: {ended}")
        assert theirs.read_bytes() == b"precious" * 1024, (seed, steps)
        assert image.is_symlink() == was_link, (seed, steps)
        if is_theirs and before is not None and not is_foreign:
            assert image.read_bytes() == before, (seed, steps)
        if is_foreign and before is not None and has_signature(before):
            assert image.read_bytes() == before, (seed, steps)
        if chance.random() < 0.25:
            image.unlink(missing_ok=True)
            is_theirs = False
            steps.append("removes the image")
    return steps


def has_signature(image: bytes) -> bool:
    """Tell whether an image contains ext4, swap or a partition table."""
    is_ext = image[0x438:0x43A] == b"\x53\xef"
    is_swap = image[4086:4096] == b"SWAPSPACE2"
    return is_ext or is_swap or image[512:520] == b"EFI PART"


def is_image(image: Path) -> bool:
    """Tell whether the path is a regular file and not a link."""
    return image.is_file() and not image.is_symlink() and image.stat().st_nlink == 1


def tool(*command: object) -> bool:
    """Run a program of the host, if it is installed."""
    if shutil.which(str(command[0])) is None:
        return False
    return subprocess.run([str(word) for word in command], capture_output=True).returncode == 0


def partitions(image: Path, _: Path, __: random.Random) -> bool:
    return is_image(image) and tool("sgdisk", "-o", "-n", "1:2048:0", image)


def partitions_and_formats(image: Path, _: Path, __: random.Random) -> bool:
    is_done = is_image(image) and tool("sgdisk", "-o", "-n", "1:2048:0", image)
    return is_done and tool("mke2fs", "-q", "-F", "-E", f"offset={MIB}", image, "512k")


def formats(image: Path, _: Path, __: random.Random) -> bool:
    return is_image(image) and tool("mke2fs", "-q", "-F", image)


def swaps(image: Path, _: Path, __: random.Random) -> bool:
    return is_image(image) and tool("mkswap", image)


def zaps_what_it_partitioned(image: Path, _: Path, __: random.Random) -> bool:
    is_done = is_image(image) and tool("sgdisk", "-o", "-n", "1:2048:0", image)
    return is_done and tool("sgdisk", "-z", image)


def writes_into_an_end(image: Path, _: Path, chance: random.Random) -> bool:
    if not is_image(image) or image.stat().st_size < 2 * MIB:
        return False
    size = image.stat().st_size
    at = chance.choice([0, size - MIB]) + chance.randrange(MIB // SECTOR) * SECTOR
    with image.open("r+b") as file:
        file.seek(at)
        file.write(bytes([chance.randint(1, 255)]) * SECTOR)
    return True


def lengthens(image: Path, _: Path, chance: random.Random) -> bool:
    """Add no foreign bytes: loadstone may use zeros behind a complete mark.

    That is how a growth of its own looks that was killed halfway.
    """
    if is_image(image):
        os.truncate(image, image.stat().st_size + chance.choice([4096, MIB]))
    return False


def appends(image: Path, _: Path, chance: random.Random) -> bool:
    if not is_image(image):
        return False
    os.truncate(image, image.stat().st_size + chance.choice([4096, MIB, 3 * MIB]))
    with image.open("r+b") as file:
        file.seek(-chance.randint(1, 4096), os.SEEK_END)
        file.write(bytes([chance.randint(1, 255)]))
    return True


def in_its_place(
    make: Callable[[Path, Path, random.Random], object],
) -> Callable[[Path, Path, random.Random], bool]:
    """Detach the image before the user creates another file in its place."""

    @functools.wraps(make)
    def deed(image: Path, theirs: Path, chance: random.Random) -> bool:
        image.unlink(missing_ok=True)
        make(image, theirs, chance)
        return True

    return deed


@in_its_place
def puts_a_link_there(image: Path, theirs: Path, _: random.Random) -> None:
    image.symlink_to(theirs)


@in_its_place
def puts_a_dangling_link_there(image: Path, theirs: Path, _: random.Random) -> None:
    image.symlink_to(theirs.with_name("not-there"))


@in_its_place
def puts_a_second_name_there(image: Path, theirs: Path, _: random.Random) -> None:
    image.hardlink_to(theirs)


@in_its_place
def puts_their_own_there(image: Path, _: Path, chance: random.Random) -> None:
    image.write_bytes(chance.randbytes(4096) * 1024)


def copies_the_first_mib(image: Path, _: Path, chance: random.Random) -> bool:
    """Make an image of their own, with a copy of half a mark."""
    if not is_image(image):
        return False
    head = image.read_bytes()[:MIB]
    image.unlink()
    image.write_bytes(head + chance.randbytes(4096) * 1024)
    return True


def copies_the_whole_image(image: Path, _: Path, __: random.Random) -> bool:
    """Restore their backup, which has our mark, under our name."""
    if not is_image(image):
        return False
    copy = image.with_name("copy")
    shutil.copyfile(image, copy)
    copy.replace(image)
    return True


IMAGE_DEEDS = [
    copies_the_whole_image,
    partitions,
    partitions_and_formats,
    formats,
    swaps,
    zaps_what_it_partitioned,
    writes_into_an_end,
    lengthens,
    appends,
    puts_a_link_there,
    puts_a_dangling_link_there,
    puts_a_second_name_there,
    puts_their_own_there,
    copies_the_first_mib,
]

HISTORIES = {"file": beside_files, "block": beside_blocks, "devices": beside_devices}


# They take 4 s of CPU time, and wait much longer for the disk.
IN_TURN = pytest.mark.long(cpu_s=20)


def seeds_of(driver: str, seeds: range, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(driver, seeds, marks=marks, id=f"{driver}-{seeds.start}-{seeds.stop - 1}")


@pytest.mark.parametrize(
    ("driver", "seeds"),
    [
        *(seeds_of(driver, range(SHORT)) for driver in HISTORIES),
        *(
            seeds_of(driver, range(begin, begin + SLICE), IN_TURN)
            for driver in HISTORIES
            for begin in range(0, LONG, SLICE)
        ),
    ],
)
def test_foreign_bytes_never_change(driver: str, seeds: range, tmp_path: Path) -> None:
    ends: dict[str, int] = {}
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        # All drivers' histories of a seed use the same run.
        trials.forget_volumes()
        for end in HISTORIES[driver](folder, seed):
            ends[end] = ends.get(end, 0) + 1
        shutil.rmtree(folder)
    print(driver, seeds, dict(sorted(ends.items())))
    # Histories in which loadstone never succeeded, or was never refused, would prove nothing.
    assert ends.get("prepare: done", 0) > len(seeds) // 5
    assert ends.get("prepare: refused", 0) > len(seeds) // 4
