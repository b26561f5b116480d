"""The file of a history: the calls of one trial, as `crates/history/src/call.rs` writes them."""

import os
from pathlib import Path

from loadstone.results.files import durable

HISTORIES = "history"
SUFFIX = ".calls"


def name_of(trial: str) -> str:
    """Return the name of a trial's history inside its run folder."""
    return f"{HISTORIES}/{trial}{SUFFIX}"


class HistoryWriter:
    """Writes the calls of one attempt at a trial; those of an earlier attempt are dropped."""

    def __init__(self, folder: Path, trial: str) -> None:
        """Start with an empty file."""
        self.name = name_of(trial)
        self.path = folder / self.name
        durable.make_folder_in(folder, HISTORIES)
        with durable.writing(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self._file = os.fdopen(durable.open_file(folder, self.name, flags), "wb")
        durable.sync_name(folder, self.name)

    def write(self, calls: bytes) -> None:
        """Append calls."""
        with durable.writing(self.path):
            self._file.write(calls)

    def finish(self) -> None:
        """Finish the history; it is on disk when this returns."""
        if not self._file.closed:
            with durable.writing(self.path):
                self._file.flush()
                os.fdatasync(self._file.fileno())
            self._file.close()

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()
