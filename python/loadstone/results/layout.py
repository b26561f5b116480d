"""The layout of a run folder, its manifest, and the files that its trials name."""

import copy
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from loadstone import _loadgen, regular_file
from loadstone.campaign.schema.target import carries_credential
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import FileDigest
from loadstone.documents.trial import LedgerDocument, NamedFileDocument, TrialDocument
from loadstone.errors import ResultError
from loadstone.results.documents import check_manifest
from loadstone.results.files import durable

MANIFEST_FORMAT = 1

MANIFEST = "manifest.json"
LOCK = ".lock"
TRIALS = "trials"
PROBES = "probes"
OPERATIONS = "operations"
ACTIONS = "actions"
ANSWER = "gate.json"
RECORD_SUFFIX = ".json"
PARTIAL_SUFFIX = ".partial.json"

JSON_BYTES_MAX = 256 * regular_file.MIB
"""The manifest of a hundred thousand trials has about 150 MiB."""

HIDDEN = "***"
_HEADERS = "headers"
_SECRET_LENGTH_MIN = 4
_HEADER_IN_TEXT = re.compile(
    r"""((?:^|[\s{,."'])([A-Za-z][\w-]*)["']?(?:[ \t]*:[ \t]+|=))"""
    r"""("[^"\n]*"|'[^'\n]*'|[^\s{][^,}\n]*)""",
    re.MULTILINE,
)
"""Matches a key with a literal value in YAML or --set; references to secrets are maps."""

_MANIFEST_KEYS = {"state": str, "name": str, "run": str, "seed": int, "plan": list}


NO_HOME = Path("/nonexistent")
"""The home directory of users without one, as in Debian."""


def in_home(path: str) -> Path:
    """Return a path in the user's home directory; users in containers may have none."""
    try:
        return Path.home() / path
    except RuntimeError:
        return NO_HOME / path


def state_folder() -> Path:
    """Return the folder for files that outlive a run: in XDG_STATE_HOME, or ~/.local/state."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else in_home(".local/state")) / "loadstone"


def read_manifest(folder: Path) -> Manifest:
    """Read and check a run's manifest alone."""
    path = folder / MANIFEST
    if not folder.exists():
        raise ResultError(f'no run at "{folder}": there is no such folder', kind="no-run")
    if not folder.is_dir():
        raise ResultError(
            f'"{folder}" is not a run: a run is a folder with a {MANIFEST}', kind="no-run"
        )
    if not path.exists():
        raise ResultError(
            f'"{folder}" is not a run: it has no {MANIFEST}',
            "give the folder that loadstone run or loadstone bench wrote",
            kind="no-run",
        )
    document = read_json(path)
    check_format(path, document, "format", MANIFEST_FORMAT)
    for key, kind in _MANIFEST_KEYS.items():
        if not isinstance(document.get(key), kind):
            raise ResultError(f'"{path}" has a missing or invalid "{key}"')
    manifest = check_manifest(path, document)
    for position, trial in enumerate(manifest["plan"]):
        if "id" not in trial:
            raise ResultError(f'"{path}": entry {position + 1} of its plan is not a trial')
    return manifest


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object unchanged; use `read_plain` to display it."""
    document, _ = _read(path)
    return document


def read_plain(path: Path) -> dict[str, Any]:
    """Read one JSON object for display, without control characters."""
    document, content = _read(path)
    # In ASCII JSON all control characters except DEL are escaped; a NUL indicates UTF-16.
    unfit = (b"\\", b"\x7f", b"\0", _HEADERS.encode())
    is_plain = content.isascii() and not any(part in content for part in unfit)
    return document if is_plain else cast(dict[str, Any], plain(document))


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        content = regular_file.read(path, JSON_BYTES_MAX)
        document = json.loads(content)
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror}') from error
    except (ValueError, RecursionError) as error:
        raise ResultError(f'"{path}" is cut off, or not JSON: {error}') from error
    if not isinstance(document, dict):
        raise ResultError(f'"{path}" does not contain a JSON object')
    return document, content


def plain(value: Any) -> Any:
    """Return a document for display, without control characters and credentials in headers.

    It may come from a stranger, and early versions recorded the headers of targets. Its names must
    not be used on a target, because an escaped key is a different key.
    """
    match value:
        case str():
            text = value if value.isprintable() else _loadgen.plain(value)
            return _without_credentials(text) if _HEADERS in text else text
        case dict():
            shown = {plain(key): plain(part) for key, part in value.items()}
            if isinstance(headers := shown.get(_HEADERS), dict):
                hidden = {
                    name: HIDDEN for name in headers if not _loadgen.is_harmless_header(str(name))
                }
                shown[_HEADERS] = headers | hidden
            return shown
        case list():
            return [plain(part) for part in value]
    return value


def plain_manifest(manifest: Manifest) -> Manifest:
    """Return a manifest for display; its campaign's text shows no value of a header of unknown use.

    The record itself keeps the values, because a resumed run and a clean-up need them.
    """
    shown: Manifest = plain(manifest)
    targets = (manifest.get("campaign") or {}).get("targets")
    settings: list[object] = [*targets.values()] if isinstance(targets, dict) else []
    settings += [(trial.get("target") or {}).get("settings") for trial in manifest["plan"]]
    hidden = {
        str(value)
        for target in settings
        if isinstance(target, dict) and isinstance(headers := target.get(_HEADERS), dict)
        for name, value in headers.items()
        if not _loadgen.is_harmless_header(str(name)) and len(str(value)) >= _SECRET_LENGTH_MIN
    }
    for value in sorted(hidden, key=len, reverse=True):
        if text := shown.get("campaign_file"):
            shown["campaign_file"] = text.replace(value, HIDDEN)
        if text := shown.get("command"):
            shown["command"] = text.replace(value, HIDDEN)
    return shown


def _without_credentials(campaign: str) -> str:
    """Return the text of a campaign or a command without credentials in headers."""
    return _HEADER_IN_TEXT.sub(
        lambda line: f"{line[1]}{HIDDEN}" if carries_credential(line[2]) else line[0], campaign
    )


def check_format(path: Path, document: Mapping[str, Any], key: str, newest: int) -> None:
    """Refuse a document without a format version, or with a newer one."""
    format_number = document.get(key)
    if not isinstance(format_number, int) or isinstance(format_number, bool) or format_number < 1:
        raise ResultError(f'"{path}" lacks "{key}"; loadstone did not write it')
    if format_number > newest:
        raise ResultError(
            f'"{path}" has {key.replace("_", " ")} {format_number};'
            f" this loadstone reads up to {newest}",
            "install the loadstone that wrote it, or a later one",
        )


NODES = "nodes"
OUTPUT_BYTES_MAX = 1 << 20
"""The JSON of fio has about 20 KiB, that of iperf3 10 KiB per stream."""


class NodeOutputs:
    """Holds the outputs of probes until there is a run folder."""

    def __init__(self) -> None:
        """Start with no outputs."""
        self._probes = 0
        self._outputs: dict[str, bytes] = {}

    def take(self, printed: Mapping[str, str]) -> list[str]:
        """Store the outputs of one probe by step; return the names of their files."""
        if not printed:
            return []
        self._probes += 1
        names = []
        for step, text in printed.items():
            name = f"{NODES}/N{self._probes:03}-{step}.txt"
            self._outputs[name] = _bounded(text.encode())
            names.append(name)
        return names

    def write(self, run: Path) -> None:
        """Write the outputs into a run folder."""
        if not self._outputs:
            return
        durable.make_folder_in(run, NODES)
        for name, content in self._outputs.items():
            durable.write_file(run, name, content)


def _bounded(content: bytes) -> bytes:
    if len(content) <= OUTPUT_BYTES_MAX:
        return content
    note = f"\n(the first {OUTPUT_BYTES_MAX} of {len(content)} bytes)\n"
    return content[:OUTPUT_BYTES_MAX] + note.encode()


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
    """Return the digests of files of a run by their relative names."""
    return {str(path.relative_to(folder)): digest_of(path) for path in sorted(paths)}


def altered(folder: Path, digests: Mapping[str, FileDigest]) -> Iterator[str]:
    """Yield the files of a run that do not match their digests."""
    for name, wanted in digests.items():
        path = folder / name
        is_inside = path.resolve().is_relative_to(folder.resolve())
        if not is_inside or not path.exists() or not _is_as(path, wanted):
            yield name


def _is_as(path: Path, wanted: FileDigest) -> bool:
    # The size first: a replaced file may be too long to hash.
    return path.stat().st_size == wanted.get("bytes") and digest_of(path) == wanted


def sealed(manifest: Manifest) -> Manifest:
    """Return a manifest with a digest of its other keys."""
    return {**_unsealed(manifest), "manifest_sha256": _digest_of(manifest)}


def is_as_sealed(manifest: Manifest) -> bool:
    """Tell whether a manifest matches its digest, or has none."""
    digest = manifest.get("manifest_sha256")
    return digest is None or digest == _digest_of(manifest)


def _unsealed(manifest: Manifest) -> Manifest:
    left = manifest.copy()
    left.pop("manifest_sha256", None)
    return left


def _digest_of(manifest: Manifest) -> str:
    # The parsed content is hashed, so that indentation does not matter.
    content = json.loads(json.dumps(_unsealed(manifest)))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def named_in(document: TrialDocument) -> Sequence[NamedFileDocument | LedgerDocument]:
    """Return the files that a trial names, with path and SHA-256 as in the document."""
    if owed := document.get("owed"):
        return owed["ledgers"]
    script, dataset = document.get("script") or {}, document.get("dataset") or {}
    files = (
        script.get("subjects"), script.get("requests"), dataset.get("existing"),
        dataset.get("payload"),
    )  # fmt: skip
    return [file for file in files if file]


def located(document: TrialDocument, folder: Path) -> TrialDocument:
    """Return a document with absolute paths of its files, for the load generator.

    Documents give paths relative to the run folder; payload files lie outside of it.
    """
    if not named_in(document):
        return document
    located_here = copy.deepcopy(document)
    for file in named_in(located_here):
        file["path"] = str((folder / file["path"]).absolute())
    return located_here
