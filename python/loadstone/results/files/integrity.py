"""Whether the files of a run are those that loadstone wrote: each has its SHA-256 in another.

A trial's record holds the digests of its tables, and the manifest of a run that has ended holds
those of the records and of what else stands beside them. The manifest holds its own, which is that
of all else that it says. Older runs have none: nothing is said of them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from loadstone import regular_file
from loadstone.documents.manifest import FileDigest, Manifest
from loadstone.errors import ResultError


def digest_of(path: Path) -> FileDigest:
    """Return the size and the digest of a file."""
    try:
        regular_file.check(path)
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return {"bytes": stream.tell(), "sha256": digest}
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror}') from error


def digests_of(folder: Path, paths: Iterable[Path]) -> dict[str, FileDigest]:
    """Return the digests of files of a run, by their names inside its folder."""
    return {str(path.relative_to(folder)): digest_of(path) for path in sorted(paths)}


def altered(folder: Path, digests: Mapping[str, FileDigest]) -> Iterator[str]:
    """Yield the files of a run that are not as they were when their digests were taken."""
    for name, wanted in digests.items():
        path = folder / name
        is_inside = path.resolve().is_relative_to(folder.resolve())
        if not is_inside or not path.exists() or digest_of(path) != wanted:
            yield name


def sealed(manifest: Manifest) -> Manifest:
    """Return a manifest with the digest of all else that it says, at its end."""
    return {**_unsealed(manifest), "manifest_sha256": _said_by(manifest)}


def is_as_sealed(manifest: Manifest) -> bool:
    """Tell whether a manifest says what it said when it was written; one without digest may."""
    digest = manifest.get("manifest_sha256")
    return digest is None or digest == _said_by(manifest)


def _unsealed(manifest: Manifest) -> Manifest:
    left = manifest.copy()
    left.pop("manifest_sha256", None)
    return left


def _said_by(manifest: Manifest) -> str:
    # By what it says, not by its bytes: to be indented anew changes nothing.
    said = json.loads(json.dumps(_unsealed(manifest)))
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
