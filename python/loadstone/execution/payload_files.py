"""Describes the files that objects are filled with: path and SHA-256."""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from loadstone import regular_file, units
from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.trial import NamedFileDocument, TrialDocument
from loadstone.errors import InputError

BYTES_MIN = 64 << 10
"""Compressors detect content that repeats at shorter distances."""
BYTES_MAX = 1 << 30


class PayloadFiles:
    """Describes each file of a campaign once. Paths are relative to the campaign's folder.

    For a resumed run, `planned` are its trials: their files must not have changed.
    """

    def __init__(self, campaign: Campaign, planned: Iterable[TrialDocument] = ()) -> None:
        files = (dataset_of(document).get("payload") for document in planned)
        self._known = {file["path"]: file for file in files if file}
        self._beside = Path(campaign.source.origin).parent
        self._described = functools.cache(_described)

    def __call__(self, file: str) -> NamedFileDocument:
        """Return a file's description for trial documents; raise InputError if it cannot be
        used.
        """
        described = self._described((self._beside / file).absolute())
        known = self._known.get(described["path"], described)
        if known != described:
            raise InputError(
                f'dataset.payload.file "{known["path"]}": it has changed since the run began: found'
                f" SHA-256 {described['sha256']}, the run names {known['sha256']}",
                "put the file back as it was, or begin another run",
            )
        return described


def _described(path: Path) -> NamedFileDocument:
    where = f'dataset.payload.file "{path}"'
    hint = "name a regular file of 64 KiB to 1 GiB, such as a sample of your own data"
    try:
        size_bytes = regular_file.check(path)
        if not BYTES_MIN <= size_bytes <= BYTES_MAX:
            size = units.format_bytes(size_bytes) if size_bytes else "nothing in it"
            raise InputError(f"{where}: found {size}, allowed 64 KiB to 1 GiB", hint)
        with open(path, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
    except OSError as error:
        raise InputError(f"{where}: {error.strerror}", hint) from error
    return {"path": str(path), "sha256": digest.hexdigest()}
