"""Describes the files that objects are filled with: where each is, and its SHA-256."""

import functools
import hashlib
from pathlib import Path

from loadstone import regular_file, units
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.trial import NamedFileDocument
from loadstone.errors import InputError

BYTES_MIN = 64 << 10
"""What repeats sooner, compressors find."""
BYTES_MAX = 1 << 30


class PayloadFiles:
    """Describes each file of a campaign once. Their paths are relative to the campaign's folder."""

    def __init__(self, campaign: Campaign) -> None:
        self._beside = Path(campaign.source.origin).parent
        self._described = functools.cache(_described)

    def __call__(self, file: str) -> NamedFileDocument:
        """Return a file as a trial document names it; raise InputError if it is of no use."""
        return self._described((self._beside / file).absolute())


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
