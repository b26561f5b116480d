"""The tables of the benchmark: generated once on this host, then written to each target.

The generator gives the same bytes everywhere, so hashes identify tables. On a target they are in a
separate place, with a mark that lists every file. A place without our mark is foreign, and is
neither written to nor deleted.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from loadstone.errors import TargetError
from loadstone.results.layout import in_home

TABLES: Sequence[str] = (
    "customer",
    "lineitem",
    "nation",
    "orders",
    "part",
    "partsupp",
    "region",
    "supplier",
)

BYTES_PER_SCALE = 400_000_000
"""Size of the tables as Parquet at scale 1 in bytes, rounded up: 345 MB were measured."""

_FRACTION_AT_SCALE_1 = 0.0001
"""A constant of Q11, which decreases with the scale (TPC-H specification, 2.4.11.3)."""


def text_of(query: str, scale: float) -> str:
    """Return a query's text at a scale."""
    file = resources.files("loadstone.engines").joinpath("tpch", f"{query.lower()}.sql")
    text = file.read_text(encoding="utf-8").strip().rstrip(";")
    return text.replace("0.0001000000", f"{_FRACTION_AT_SCALE_1 / scale:.12f}")


MARK = "loadstone-data.json"
MARK_FORMAT = 1
PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table."""

    table: str
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The contents of a place, and the run that wrote it; not `is_complete` during the write."""

    run: str
    benchmark: str
    scale: float
    format: str
    partitions: int
    is_complete: bool
    files: tuple[TableFile, ...]

    def holds(self, other: "Mark") -> bool:
        """Tell whether this place has all tables of another one."""
        same = (self.benchmark, self.scale, self.format, self.partitions, self.files)
        theirs = (other.benchmark, other.scale, other.format, other.partitions, other.files)
        return self.is_complete and same == theirs

    def text(self) -> str:
        """Return the mark in its file format."""
        return json.dumps({"loadstone_data": MARK_FORMAT, **asdict(self)}, indent=1) + "\n"


def read_mark(text: str, place: str) -> Mark:
    """Parse a mark's file; raise TargetError if loadstone did not write it."""
    try:
        fields = json.loads(text)
        if fields.pop("loadstone_data") != MARK_FORMAT:
            raise ValueError("of another format")
        files = tuple(TableFile(**file) for file in fields.pop("files"))
        mark = Mark(**fields, files=files)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TargetError(
            f'"{place}": its {MARK} cannot be read: {error}',
            "loadstone changes nothing there; move it away, or choose another path",
        ) from error
    if any(not is_ours(file.name) for file in mark.files):
        raise TargetError(f'"{place}": its {MARK} names files outside of it')
    return mark


def is_ours(name: str) -> bool:
    """Tell whether `generate` could have made this file name, so that it stays within its place."""
    parts = name.split("/")
    return len(parts) <= 2 and parts[0].partition(".")[0] in TABLES and ".." not in parts


def files_by_table(files: Sequence[TableFile]) -> dict[str, list[str]]:
    """Return the names of each table's files, in order."""
    files_of_table: dict[str, list[str]] = {}
    for table_file in sorted(files, key=lambda file: file.name):
        files_of_table.setdefault(table_file.table, []).append(table_file.name)
    return files_of_table


def cache_folder() -> Path:
    """Return the default folder of generated tables."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else in_home(".cache")) / "loadstone" / "tables"


def folder_name(benchmark: str, scale: float, partitions: int) -> str:
    """Return the name of the folder for generated tables."""
    return f"{benchmark}-{scale:g}-{partitions}".replace(".", "_")


def needed_bytes(scale: float) -> int:
    """Return the size of one set of tables as Parquet in bytes, rounded up."""
    return round(scale * BYTES_PER_SCALE) + (4 << 20)


def generate(
    cache: Path, benchmark: str, scale: float, partitions: int, tick: Callable[[], bool]
) -> tuple[Path, tuple[TableFile, ...]]:
    """Return the folder of the tables, generating them if absent, and its files with hashes.

    `tick` is called while the generator runs, and stops it by returning False. A folder whose files
    differ from its list is refused; an incomplete one is generated again.
    """
    folder = cache / folder_name(benchmark, scale, partitions)
    listing = folder / MARK
    if listing.exists():
        files = read_mark(listing.read_text(encoding="utf-8"), str(folder)).files
        for file in files:
            path = folder / file.name
            if not path.is_file() or path.stat().st_size != file.size_bytes:
                raise TargetError(
                    f'"{path}" is not the file that "{listing}" lists',
                    f'remove "{folder}"; the tables are then made again',
                )
        return folder, files
    half = folder.with_name(f"{folder.name}.making")
    if half.exists():
        shutil.rmtree(half)
    half.mkdir(parents=True, mode=0o700)
    _run_generator(half, scale, partitions, tick)
    files = tuple(_listed(half))
    mark = Mark(
        run="", benchmark=benchmark, scale=scale, format="parquet", partitions=partitions,
        is_complete=True, files=files,
    )  # fmt: skip
    (half / MARK).write_text(mark.text(), encoding="utf-8")
    half.rename(folder)
    return folder, files


def _run_generator(folder: Path, scale: float, partitions: int, tick: Callable[[], bool]) -> None:
    # The program is next to the interpreter, which need not be on PATH.
    program = shutil.which("tpchgen-cli", path=Path(sys.executable).parent) or shutil.which(
        "tpchgen-cli"
    )
    if program is None:
        raise TargetError(
            "tpchgen-cli, which generates the tables, is not installed",
            "pip install 'loadstone[duckdb]'",
        )
    command = [program, "parquet", "-s", f"{scale:g}", "-o", str(folder)]
    if partitions > 1:
        command += ["--parts", str(partitions)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.returncode is None:
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                if not tick():
                    process.kill()
                    process.wait()
                    raise TargetError("stopped while the tables were made") from None
        printed = process.stderr.read().decode(errors="replace") if process.stderr else ""
    if process.returncode != 0:
        raise TargetError(
            f"{' '.join(command)}: exit code {process.returncode}: {printed.strip()[-500:]}"
        )


def _listed(folder: Path) -> Iterator[TableFile]:
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        table = name.split("/")[0].partition(".")[0]
        yield TableFile(
            table=table, name=name, size_bytes=path.stat().st_size, sha256=hash_of(path)
        )


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces of 1 MiB."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
