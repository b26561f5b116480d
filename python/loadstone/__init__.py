"""Measures storage: object stores, file systems, block devices, networks, and SQL on storage."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadstone.opened_run import OpenedRun

__version__ = "0.1.0"
__all__ = ["__version__", "open_run"]


def open_run(path: str | Path) -> "OpenedRun":
    """Open a run folder: its results and findings as objects, its tables as Arrow tables.

    Raises `loadstone.errors.ResultError`, which names the wrong file.
    """
    # Imported late: `loadstone --help` does not need it.
    from loadstone.opened_run import OpenedRun

    return OpenedRun(path)
