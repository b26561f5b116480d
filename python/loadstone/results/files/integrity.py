"""Whether the files of a run are those that loadstone wrote: each has its SHA-256 in another.

A trial's record holds the digests of its tables, and the manifest of a run that has ended holds
those of the records and of what else stands beside them. The manifest holds its own, which is that
of all else that it says. Older runs have none: nothing is said of them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loadstone import regular_file
from loadstone.errors import ResultError

FILES = "files"
OWN = "manifest_sha256"


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


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the digest of all else that it says, at its end."""
    return {**_unsealed(manifest), OWN: _said_by(manifest)}


def is_as_sealed(manifest: Mapping[str, Any]) -> bool:
    """Tell whether a manifest says what it said when it was written; one without digest may."""
    return OWN not in manifest or manifest[OWN] == _said_by(manifest)


def _unsealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key != OWN}


def _said_by(manifest: Mapping[str, Any]) -> str:
    # By what it says, not by its bytes: to be indented anew changes nothing.
    said = json.loads(json.dumps(_unsealed(manifest)))
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
