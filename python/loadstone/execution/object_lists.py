"""Makes the lists of objects that others wrote, by listing their store once or from a file.

A list is a Parquet file, named by its SHA-256, with the columns of `_loadgen.LIST`.
"""

import contextlib
import csv
import datetime
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from loadstone import _loadgen, regular_file
from loadstone.campaign.planning.existing import UNKNOWN_BYTES_MAX
from loadstone.campaign.schema.dataset import Existing
from loadstone.documents.manifest import ListFacts, ObjectListDocument
from loadstone.documents.trial import TargetDocument, TrialDocument
from loadstone.errors import InputError
from loadstone.execution.refusals import Raised, target_error

FOLDER = "lists"
"""The lists' folder in a run folder."""

ROWS_AT_ONCE = 8192
PIECE_BYTES = 1 << 20
LINE_CHARACTERS_MAX = 1 << 16
TIMEOUT_NS = 60_000_000_000

Watch = Callable[[str, int], None]
"""Receives the place being listed and the number of objects so far."""


class ListMaker:
    """Makes the lists of a plan, each once, in the subfolder `lists` of a folder.

    Relative paths of a campaign's files start at the campaign's folder. `known` are the lists that
    a resumed run already has.
    """

    def __init__(
        self, base: Path, *, beside: Path, watch: Watch, known: Sequence[ObjectListDocument] = ()
    ) -> None:
        self._folder = base / FOLDER
        self._beside = beside
        self._watch = watch
        self._known = {
            (
                object_list["target"],
                object_list["bucket"],
                object_list["prefix"],
                object_list["source"],
            ): object_list
            for object_list in known
        }

    @property
    def folder(self) -> Path:
        """The folder of the files, created with the first list."""
        return self._folder

    @property
    def documents(self) -> list[ObjectListDocument]:
        """Descriptions of the lists for the manifest."""
        return list(self._known.values())

    def __call__(self, target: TargetDocument, existing: Existing) -> ObjectListDocument:
        """Make the file of a list, and return its description for the planner."""
        key = (target["name"], existing.bucket, existing.prefix, existing.list_file)
        if key not in self._known:
            self._known[key] = self._made(target, existing)
        return self._known[key]

    def _made(self, target: TargetDocument, existing: Existing) -> ObjectListDocument:
        self._folder.mkdir(parents=True, exist_ok=True)
        is_cut = False
        with _HashedFile(self._folder) as file:
            if existing.list_file is not None:
                _take_file(self._beside / existing.list_file, existing.prefix, file)
            else:
                is_cut = self._list(target, existing, file)
            path = file.keep()
        try:
            facts: ListFacts = json.loads(_loadgen.list_facts(path))
        except ValueError as error:
            why = str(error).rpartition('": ')[2]
            where = f'file "{existing.list_file}"'
            if existing.list_file is None:
                where = f'target "{target["name"]}": "{existing.bucket}/{existing.prefix}"'
            raise InputError(
                f"{where}: cannot list existing objects: {why}",
                "name a bucket and a prefix that hold objects, or a file that lists some",
            ) from error
        return {
            "target": target["name"],
            "bucket": existing.bucket,
            "prefix": existing.prefix,
            "source": existing.list_file,
            "listed": datetime.datetime.now(datetime.UTC).isoformat(),
            "is_cut": is_cut,
            "path": f"{FOLDER}/{path.name}",
            "sha256": path.stem,
            **facts,
        }

    def _list(self, target: TargetDocument, existing: Existing, file: "_HashedFile") -> bool:
        where, count = f"{existing.bucket}/{existing.prefix}", 0
        encoder = _loadgen.ParquetEncoder(_loadgen.LIST)

        def take(rows: _loadgen.Table) -> None:
            nonlocal count
            file.write(encoder.encode(rows))
            count += len(rows)
            self._watch(where, count)

        document = json.dumps(_listing(target, existing))
        try:
            is_cut = _loadgen.list_objects(document, existing.objects_max, take)
        except Raised as error:
            raise target_error(target["name"], error) from error
        file.write(encoder.end())
        return is_cut


def _listing(target: TargetDocument, existing: Existing) -> TrialDocument:
    """Return the minimal trial document of a listing."""
    return {
        "format": 1,
        "id": "list",
        "run": "0" * 32,
        "seed": 0,
        "phase": "list",
        "measured": False,
        "target": target,
        "dataset": {
            "bucket_prefix": existing.bucket,
            "buckets": 1,
            "objects": 1,
            "object_prefix": existing.prefix,
            "size": {"kind": "fixed", "bytes": 0},
            # A listing reads no file; the key marks the bucket's name as complete.
            "existing": {"path": "", "sha256": ""},
        },
        "mix": [{"operation": "list", "weight": 1.0}],
        "load": {"kind": "closed", "clients": 1},
        "stop": {"requests": 1, "duration_ns": None},
        "timeout_ns": TIMEOUT_NS,
    }


class _HashedFile:
    """A file that is hashed while it is written, and then named by its SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / ".partial"
        self._digest = hashlib.sha256()

    def __enter__(self) -> "_HashedFile":
        self._file = self._path.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, content: bytes) -> None:
        self._digest.update(content)
        self._file.write(content)

    def keep(self) -> Path:
        """Finish the file and return its path."""
        self._file.close()
        return self._path.replace(self._folder / f"{self._digest.hexdigest()}.parquet")


def _take_file(source: Path, prefix: str, file: _HashedFile) -> None:
    """Copy a user's list: Parquet files unchanged, other formats converted."""
    try:
        regular_file.check(source)
        if source.suffix == ".parquet" and not prefix:
            with source.open("rb") as stream:
                while piece := stream.read(PIECE_BYTES):
                    file.write(piece)
            return
        encoder = _loadgen.ParquetEncoder(_loadgen.LIST)
        rows = (row for row in _rows_of(source) if row[0].startswith(prefix))
        while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
            file.write(encoder.encode(_loadgen.LIST.of_columns([*zip(*batch, strict=True)])))
        file.write(encoder.end())
    except OSError as error:
        raise InputError(
            f'read the list of objects "{source}": {error.strerror}',
            "a file with a key on each line, a CSV with a header, or Parquet",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f'read the list of objects "{source}": it is not valid UTF-8', "save it as UTF-8"
        ) from error


Row = tuple[str, int | None, str | None]


def _rows_of(source: Path) -> Iterator[Row]:
    """Yield key, size and ETag of each object in a text or CSV file."""
    if source.suffix == ".parquet":
        raise InputError(
            f'a prefix does not apply to the Parquet file "{source}"',
            "filter the Parquet file, or leave out the prefix",
        )
    with source.open(encoding="utf-8", newline="") as stream:
        lines = _lines(stream, source)
        if source.suffix == ".csv":
            yield from _rows_of_csv(lines, source)
        else:
            for line in lines:
                if key := line.rstrip("\r\n"):
                    yield key, None, None


def _lines(stream: io.TextIOBase, source: Path) -> Iterator[str]:
    """Yield lines of limited length, so that none can exhaust the memory."""
    while line := stream.readline(LINE_CHARACTERS_MAX):
        if len(line) == LINE_CHARACTERS_MAX:
            raise InputError(
                f'"{source}" has a line of {len(line):,} characters or more',
                "each line names one object; no store takes a key so long",
            )
        yield line


def _rows_of_csv(lines: Iterator[str], source: Path) -> Iterator[Row]:
    reader = csv.DictReader(lines)
    if "key" not in (reader.fieldnames or ()):
        raise InputError(
            f'found no column key in the first line of "{source}"',
            "a header such as key,size,etag; in a .txt file each line is a key",
        )
    try:
        for row in reader:
            if not row["key"]:
                raise InputError(
                    f'found no key in line {reader.line_num} of "{source}"',
                    "each line needs as many fields as the header, and a key",
                )
            size = _size(row.get("size"), source, reader.line_num)
            yield row["key"], size, row.get("etag") or None
    except csv.Error as error:
        raise InputError(
            f'line {reader.line_num} of "{source}": {error}', "check that each quote is closed"
        ) from error


def _size(text: str | None, source: Path, line: int) -> int | None:
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if 0 <= (size := int(text)) < UNKNOWN_BYTES_MAX:
            return size
    raise InputError(
        f'found size "{text}" in line {line} of "{source}"', "sizes are whole numbers of bytes"
    )
