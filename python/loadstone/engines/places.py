"""Places of a benchmark's tables on a target: a directory or a bucket.

An existing directory or bucket without our mark is refused. Only files in the mark's list are
deleted, and the place itself once it is empty. Tables in an engine's own format are in one folder,
which belongs to loadstone as a whole.
"""

import errno
import hashlib
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from loadstone import _loadgen
from loadstone.engines.engine import Bucket
from loadstone.engines.tables import MARK, PIECE, Mark, TableFile, pieces, read_mark
from loadstone.engines.traffic import mount_of
from loadstone.errors import Kind, TargetError

OWN_FORMAT = "own-format"
"""The folder in which an engine keeps tables in its own format."""

_T = TypeVar("_T")


def _unwritten(path: Path, error: OSError) -> TargetError:
    kinds: dict[int | None, Kind] = {
        errno.ENOSPC: "no-space",
        errno.EDQUOT: "no-space",
        errno.EACCES: "denied",
        errno.EROFS: "denied",
    }
    return TargetError(f'cannot write "{path}": {error.strerror}', kind=kinds.get(error.errno))


class TablePlace(ABC):
    """One place on a target."""

    name: str
    directory: str | None = None
    bucket: Bucket | None = None
    database: str | None = None

    @abstractmethod
    def mark(self) -> Mark | None:
        """Return the mark; None if nothing exists; raise TargetError if the data is foreign."""

    @abstractmethod
    def begin(self, mark: Mark) -> None:
        """Create the place with a mark that lists its future contents."""

    @abstractmethod
    def write(self, name: str, source: Path) -> None:
        """Write one file; it is on the storage when this returns."""

    def holds(self, file: TableFile) -> bool:
        """Tell whether a file is complete and on the storage, by its hash.

        Places that cannot read back a file's own bytes return False.
        """
        return False

    @abstractmethod
    def complete(self, mark: Mark) -> None:
        """Replace the mark by one for complete tables."""

    @abstractmethod
    def remove(self, mark: Mark) -> list[str]:
        """Delete the files in the mark, and the place; return foreign files that remain."""

    def evict(self) -> None:  # noqa: B027 - where there is no cache, there is nothing to do
        """Remove the place's data from this host's page cache."""

    def filesystem(self) -> str | None:
        """Return the type of the underlying file system, if it is one."""
        return None

    def volume(self) -> str | None:
        """Return an identity of the storage, to detect a later change; None for a bucket."""
        return None


class DirectoryPlace(TablePlace):
    """A directory below the path of a target."""

    def __init__(self, parent: str, name: str) -> None:
        """Store the target's path, and the directory's name below it."""
        self._parent = Path(parent)
        self._path = self._parent / name
        self.name = str(self._path)
        self.directory = str(self._path)

    def mark(self) -> Mark | None:
        """Read the mark of a directory that is ours: owned by our user, and not a link."""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TargetError(f'cannot inspect "{self._path}": {error.strerror}') from error
        path = self._path / MARK
        if status.st_uid != os.geteuid() or not self._path.is_dir() or self._path.is_symlink():
            raise self._refused("it is not a directory of this user")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if not any(self._path.iterdir()):
                return None  # interrupted between the directory and its mark
            raise self._refused(f"it has no {MARK} ({error.strerror})") from error
        with os.fdopen(descriptor, encoding="utf-8") as file:
            return read_mark(file.read(), self.name)

    def volume(self) -> str | None:
        """Return the file system of the target's path."""
        try:
            return _loadgen.volume_of(self._parent)
        except OSError as error:
            return f"{self._parent}: {error.strerror}"

    def _refused(self, why: str) -> TargetError:
        return TargetError(
            f'"{self._path}" was not made by loadstone: {why}',
            "move it away, or choose another path",
            kind="not-ours",
        )

    def begin(self, mark: Mark) -> None:
        """Create the directory, private to this user."""
        if not self._parent.is_dir():
            raise TargetError(
                f'no directory "{self._parent}"',
                "make it, or mount what it should be",
                kind="target-absent",
            )
        with suppress(FileExistsError):
            self._path.mkdir(mode=0o700)
        # Tables that an engine did not complete cannot be resumed.
        shutil.rmtree(self._path / OWN_FORMAT, ignore_errors=True)
        self.complete(mark)

    def write(self, name: str, source: Path) -> None:
        """Write a file and sync it."""
        path = self._path / name
        path.parent.mkdir(exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                for piece in pieces(source):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritten(path, error) from error

    def holds(self, file: TableFile) -> bool:
        """Read a file again, and sync data that an interrupted run left to the kernel."""
        try:
            descriptor = os.open(self._path / file.name, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as there:
            status = os.fstat(there.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size != file.size_bytes:
                return False
            try:
                is_same = hashlib.file_digest(there, "sha256").hexdigest() == file.sha256
                os.fsync(there.fileno())
            except OSError:
                return False
        return is_same

    def complete(self, mark: Mark) -> None:
        """Write the mark next to the old one, and replace it."""
        fresh = self._path / f"{MARK}.new"
        try:
            with fresh.open("w", encoding="utf-8") as file:
                file.write(mark.text())
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(self._path / MARK)
        except OSError as error:
            raise _unwritten(fresh, error) from error

    def remove(self, mark: Mark) -> list[str]:
        """Delete the files of the mark and an engine's own tables."""
        shutil.rmtree(self._path / OWN_FORMAT, ignore_errors=True)
        for file in mark.files:
            (self._path / file.name).unlink(missing_ok=True)
        for folder in {Path(file.name).parent for file in mark.files} - {Path()}:
            with suppress(OSError):
                (self._path / folder).rmdir()
        left = sorted(path.name for path in self._path.iterdir() if path.name != MARK)
        if not left:
            (self._path / MARK).unlink(missing_ok=True)
            self._path.rmdir()
        return left

    def evict(self) -> None:
        """Sync each file, then ask the kernel to drop its cached pages."""
        for path in self._path.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def filesystem(self) -> str | None:
        """Return the type of the mount that contains the path."""
        with suppress(OSError):
            mount = mount_of(str(self._parent))
            return mount.kind if mount is not None else None
        return None


class BucketPlace(TablePlace):
    """A bucket of an S3 target."""

    def __init__(self, bucket: Bucket) -> None:
        """Store the access to the bucket."""
        from pyarrow import fs

        scheme, _, address = bucket.endpoint.partition("://")
        self.bucket = bucket
        self.name = f"{bucket.endpoint}/{bucket.name}"
        with _without_trailers():
            self._files = fs.S3FileSystem(
                access_key=bucket.access_key,
                secret_key=bucket.secret_key,
                session_token=bucket.session_token,
                region=bucket.region,
                scheme=scheme,
                endpoint_override=address.rstrip("/"),
                allow_bucket_creation=True,
                allow_bucket_deletion=True,
                connect_timeout=10,
                request_timeout=60,
            )

    def _asked(self, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except OSError as error:
            raise TargetError(f"{self.name}: {what}: {error}") from error

    def _names(self) -> list[str] | None:
        from pyarrow import fs

        assert self.bucket is not None, "it is made with one"
        name = self.bucket.name
        selector = fs.FileSelector(name, allow_not_found=True, recursive=True)
        known = self._asked("look for it", lambda: self._files.get_file_info(name))
        if known.type == fs.FileType.NotFound:
            return None
        entries = self._asked("list it", lambda: self._files.get_file_info(selector))
        prefix = f"{name}/"
        return [
            entry.path.removeprefix(prefix) for entry in entries if entry.type == fs.FileType.File
        ]

    def mark(self) -> Mark | None:
        """Read the mark's object."""
        names = self._names()
        if not names:
            return None
        if MARK not in names:
            raise TargetError(
                f"bucket {self.name} was not made by loadstone: it has objects and no {MARK}",
                "choose another target",
                kind="not-ours",
            )
        return read_mark(self._asked("read the mark", self._read_mark), self.name)

    def _path(self, name: str) -> str:
        assert self.bucket is not None, "it is made with one"
        return f"{self.bucket.name}/{name}"

    def _read_mark(self) -> str:
        with self._files.open_input_stream(self._path(MARK)) as stream:
            return str(stream.read().decode())

    def begin(self, mark: Mark) -> None:
        """Create the bucket, and write the mark first."""
        assert self.bucket is not None, "it is made with one"
        name = self.bucket.name
        self._asked("make it", lambda: self._files.create_dir(name, recursive=False))
        self.complete(mark)

    def write(self, name: str, source: Path) -> None:
        """Put one object; closing the stream completes it."""

        def put() -> None:
            with self._files.open_output_stream(self._path(name)) as stream:
                for piece in pieces(source):
                    stream.write(piece)

        self._asked(f"write {name}", put)

    def holds(self, file: TableFile) -> bool:
        """Read an object again, unless its size differs."""
        from pyarrow import fs

        path = self._path(file.name)
        [known] = self._asked(f"look for {file.name}", lambda: self._files.get_file_info([path]))
        if known.type != fs.FileType.File or known.size != file.size_bytes:
            return False

        def get() -> str:
            sha256 = hashlib.sha256()
            with self._files.open_input_stream(path) as stream:
                while piece := stream.read(PIECE):
                    sha256.update(piece)
            return sha256.hexdigest()

        return self._asked(f"read {file.name} again", get) == file.sha256

    def complete(self, mark: Mark) -> None:
        """Put the mark again."""

        def put() -> None:
            with self._files.open_output_stream(self._path(MARK)) as stream:
                stream.write(mark.text().encode())

        self._asked("write the mark", put)

    def remove(self, mark: Mark) -> list[str]:
        """Delete the objects of the mark, and the bucket if it contains nothing else."""
        assert self.bucket is not None, "it is made with one"
        there = self._names() or []
        ours = {file.name for file in mark.files}
        for name in sorted(ours & set(there)):
            self._asked(f"delete {name}", partial(self._files.delete_file, self._path(name)))
        left = sorted(set(self._names() or []) - {MARK})
        if not left:
            self._asked("delete the mark", lambda: self._files.delete_file(self._path(MARK)))
            bucket = self.bucket.name
            self._asked("delete it", lambda: self._files.delete_dir(bucket))
        return left


@contextmanager
def _without_trailers() -> Iterator[None]:
    """Make new clients send plain bodies, unless the user chose otherwise.

    By default the AWS SDK sends a checksum after each body, in chunks. versitygw leaves bytes of
    that on the connection, and parses them as the next request (HTTP 400).
    """
    name = "AWS_REQUEST_CHECKSUM_CALCULATION"
    if name in os.environ:
        yield
        return
    os.environ[name] = "when_required"
    try:
        yield
    finally:
        del os.environ[name]
