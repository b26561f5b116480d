"""The record of one ceiling: its document, its measurements, and the unchanged outputs.

RUN/ceilings/C001.json    a finished ceiling, written last
RUN/ceilings/C001-1.txt   the output of its first command, and so on
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement, LeftBehind
from loadstone.errors import ResultError
from loadstone.results.documents import CeilingRecordDocument, check_ceiling
from loadstone.results.files import durable
from loadstone.results.layout import check_format, read_plain

CEILINGS = "ceilings"
CEILING_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingRecord:
    """One measured ceiling, with rates in bytes per second.

    `left_behind` are the failed commands of its clean-up, with the reasons.
    """

    ceiling: CeilingDocument
    measurements: Sequence[CeilingMeasurement]
    started_unix_ns: int
    ended_unix_ns: int
    path: Path
    left_behind: Sequence[LeftBehind] = ()

    @property
    def id(self) -> str:
        """Return the ceiling's number in its plan, such as "C002"."""
        return str(self.ceiling["id"])


class CeilingWriter:
    """Writes the outputs of one ceiling as they arrive, and its record at the end."""

    def __init__(self, folder: Path, document: CeilingDocument) -> None:
        """Start a record, and remove the files of an interrupted attempt."""
        self._folder = folder
        self._document = document
        self._outputs = 0
        durable.make_folder_in(folder, CEILINGS)
        with durable.writing(folder / CEILINGS):
            for path in (folder / CEILINGS).glob(f"{document['id']}*"):
                durable.remove_file(folder, f"{CEILINGS}/{path.name}")

    def write_output(self, content: bytes) -> Path:
        """Write the output of a program; return the file."""
        self._outputs += 1
        name = f"{CEILINGS}/{self._document['id']}-{self._outputs}.txt"
        durable.write_file(self._folder, name, content)
        return self._folder / name

    def finish(
        self,
        measurements: Sequence[CeilingMeasurement],
        started_unix_ns: int,
        ended_unix_ns: int,
        left_behind: Sequence[LeftBehind],
    ) -> None:
        """Write the record; the ceiling is then finished."""
        record: CeilingRecordDocument = {
            "ceiling_format": CEILING_FORMAT,
            "ceiling": self._document,
            "started_unix_ns": started_unix_ns,
            "ended_unix_ns": ended_unix_ns,
            "measurements": list(measurements),
            "left_behind": list(left_behind),
        }
        durable.write_json(self._folder, f"{CEILINGS}/{self._document['id']}.json", record)


def finished_ceilings(folder: Path) -> frozenset[str]:
    """Return the ids of finished ceilings."""
    return frozenset(path.stem for path in (folder / CEILINGS).glob("*.json"))


def read_ceilings(folder: Path) -> tuple[CeilingRecord, ...]:
    """Read the ceilings of a run, in the order of their plan."""
    records = []
    for path in sorted((folder / CEILINGS).glob("*.json")):
        document = read_plain(path)
        check_format(path, document, "ceiling_format", CEILING_FORMAT)
        for key, kind in (("ceiling", dict), ("measurements", list)):
            if not isinstance(document.get(key), kind):
                raise ResultError(f'"{path}" has a missing or invalid "{key}"')
        record = check_ceiling(path, document)
        records.append(
            CeilingRecord(
                ceiling=record["ceiling"],
                measurements=record["measurements"],
                started_unix_ns=record.get("started_unix_ns", 0),
                ended_unix_ns=record.get("ended_unix_ns", 0),
                path=path,
                left_behind=tuple(record.get("left_behind") or ()),
            )
        )
    return tuple(records)
