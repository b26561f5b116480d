"""Whether the files of a run are those that loadstone wrote: each has its SHA-256 in another.

A trial's record holds the digests of its tables, and the manifest of a run that has ended holds
those of the records and of what else stands beside them. Runs of before have none, and are read as
ever.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loadstone import regular_file
from loadstone.errors import ResultError

FILES = "files"


def digest_of(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a file."""
    try:
        regular_file.check(path)
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return {"bytes": stream.tell(), "sha256": digest}
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror}') from error


def digests_of(folder: Path, paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return the digests of files of a run, by their names inside its folder."""
    return {str(path.relative_to(folder)): digest_of(path) for path in sorted(paths)}


def altered(folder: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files, of those whose digests a document holds, that are not as they were."""
    for name, wanted in (document.get(FILES) or {}).items():
        path = folder / name
        is_inside = path.resolve().is_relative_to(folder.resolve())
        if not is_inside or not path.exists() or digest_of(path) != wanted:
            yield name
