"""The runs of a folder, each with an id that is safe in a URL."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.results.layout import LOCK, MANIFEST, plain, read_manifest

RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run folder: the facts of its manifest, or the reason why it is unreadable."""

    id: str
    path: Path
    folder: str
    started: str = ""
    campaign: str = ""
    state: str = ""
    trials: int = 0
    problem: str = ""

    @property
    def is_live(self) -> bool:
        """Tell whether it is currently running."""
        return self.state == RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The few facts of a manifest that a list shows, since a whole one may have 150 MiB."""

    state: str
    started: str
    campaign: str
    trials: int


class RunList:
    """Finds the runs of one folder; a manifest is read again only if its file has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._known: dict[Path, tuple[tuple[int, int, int], _Facts]] = {}

    def read(self) -> list[ListedRun]:
        """Return the runs, newest first; unreadable ones come last."""
        locked = _locked_inodes()
        runs = [self._listed(path, locked) for path in self._paths()]
        readable = sorted(
            (run for run in runs if not run.problem), key=lambda run: run.started, reverse=True
        )
        return readable + [run for run in runs if run.problem]

    def find(self, identity: str) -> ListedRun | None:
        """Return the run with an id. The id is looked up in the list, never used as a path."""
        locked = _locked_inodes()
        for path in self._paths():
            if _identity(path) == identity:
                return self._listed(path, locked)
        return None

    def _paths(self) -> list[Path]:
        if (self.folder / MANIFEST).is_file():
            return [self.folder]
        folders = sorted(path.parent for path in self.folder.glob(f"*/{MANIFEST}"))
        # Links out of the folder are left out: they could show other files.
        return [folder for folder in folders if folder.resolve().is_relative_to(self.folder)]

    def _listed(self, path: Path, locked: set[int]) -> ListedRun:
        shown = plain(os.fsencode(path.name).decode(errors="replace"))
        try:
            facts = self._facts(path)
        except LoadstoneError as error:
            text = plain(error.message.encode(errors="replace").decode())
            return ListedRun(id=_identity(path), path=path, folder=shown, problem=text)
        except OSError as error:
            reason = error.strerror or "it cannot be read"
            return ListedRun(id=_identity(path), path=path, folder=shown, problem=reason)
        state = facts.state
        if _inode(path / LOCK) in locked:
            state = RUNNING
        elif state == RUNNING:
            state = "cut off"
        return ListedRun(
            id=_identity(path),
            path=path,
            folder=shown,
            started=facts.started,
            campaign=facts.campaign,
            state=state,
            trials=facts.trials,
        )

    def _facts(self, path: Path) -> _Facts:
        file = (path / MANIFEST).stat()
        mark = (file.st_mtime_ns, file.st_size, file.st_ino)
        known = self._known.get(path)
        if known is None or known[0] != mark:
            whole = read_manifest(path)
            campaign = whole.get("campaign")
            name = campaign.get("name") if isinstance(campaign, dict) else None
            facts = _Facts(
                state=plain(str(whole["state"])),
                started=plain(str(whole.get("started") or "")),
                campaign=plain(str(name or whole["name"])),
                trials=sum(trial["measured"] for trial in whole["plan"]),
            )
            known = self._known[path] = (mark, facts)
        return known[1]


def _identity(path: Path) -> str:
    """Return a folder's id for URLs, whatever its name is."""
    return hashlib.sha256(os.fsencode(path.name)).hexdigest()[:20]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1


def _locked_inodes() -> set[int]:
    """Return the files that some process holds locked, as the kernel lists them.

    Trying to take the lock would briefly hold it, so that a run that starts then would be refused.
    """
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    locked_inodes = set()
    for line in lines:
        words = line.split()
        if "FLOCK" in words:
            place = next((word for word in words if word.count(":") == 2), "")
            if place.rpartition(":")[2].isdigit():
                locked_inodes.add(int(place.rpartition(":")[2]))
    return locked_inodes
