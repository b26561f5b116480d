"""A model of a disk under a folder: what is on it after a kill or a power cut at any moment.

`Disk` watches what a program does to a folder and keeps it as a log. `crashes` yields the folders
that a crash after each entry of this log can leave: whatever was not synced may be there, be gone,
or be there in part, each apart from the others. A name is synced with its folder, a content with
its file, as POSIX has it; no file system promises more to all programs.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = 0

Tree = Mapping[str, bytes | None]
"""Contents of a folder by path; None stands for a folder."""

IsKept = Callable[[int, "Entry"], bool]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One change, or one sync, of a node; a node is a file or a folder, whatever its name.

    A "name" gives a `child` a name in a folder; `child` is None where the name is taken away.
    """

    kind: str
    node: int
    name: str = ""
    child: int | None = None
    old_name: str = ""
    is_folder: bool = False
    offset: int = 0
    content: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A folder that a crash left, and which marks of the program came before.

    It is `reordered` where one change that was not synced came to the disk alone, or alone did not.
    """

    at: int
    how: str
    tree: Tree
    marks: frozenset[str]
    is_reordered: bool

    def put(self, folder: Path) -> None:
        """Make the folder."""
        folder.mkdir()
        for name, content in self.tree.items():
            path = folder / name
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)


class Disk:
    """Logs changes below a folder while the patches of `watch` are active."""

    def __init__(self, root: Path) -> None:
        self.log: list[Entry] = []
        # Files from before the program's start are on the disk.
        self.begun = 0
        self._root = str(root.resolve())
        self._lock = threading.RLock()
        self._nodes: dict[tuple[int, int], int] = {}
        self._named: dict[int, dict[str, int]] = {ROOT: {}}
        self._contents: dict[int, bytes] = {}
        self._made = 0
        self._nodes[_identity(self._root)] = ROOT
        self._look()
        self._sync_all()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Look at the folder around each call that changes or syncs files."""
        for name in ("open", "write", "pwrite", "ftruncate", "unlink", "mkdir", "rmdir", "close"):
            patch.setattr(os, name, self._around(getattr(os, name)))
        patch.setattr(os, "replace", self._renaming(os.replace))
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._syncing(getattr(os, name)))

    def mark(self, name: str) -> None:
        """Note that the program has come so far."""
        with self._lock:
            self._look()
            self.log.append(Entry(kind="mark", node=ROOT, name=name))

    def _around(self, call: Any) -> Any:
        def watched(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self._look()
                try:
                    return call(*arguments, **named)
                finally:
                    self._look()

        return watched

    def _syncing(self, call: Any) -> Any:
        def watched(descriptor: int) -> None:
            with self._lock:
                self._look()
                call(descriptor)
                facts = os.fstat(descriptor)
                node = self._nodes.get((facts.st_dev, facts.st_ino))
                if node is not None:
                    self.log.append(Entry(kind="sync", node=node))

        return watched

    def _renaming(self, call: Any) -> Any:
        def watched(source: Any, destination: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            with self._lock:
                self._look()
                call(source, destination, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                old, new = Path(source), Path(destination)
                assert src_dir_fd == dst_dir_fd, "a rename between folders is not modelled"
                facts = os.fstat(src_dir_fd)
                folder = self._nodes.get((facts.st_dev, facts.st_ino))
                if folder is None:
                    return
                names = self._named[folder]
                child = names.pop(old.name)
                names[new.name] = child
                self.log.append(
                    Entry(
                        kind="name", node=folder, name=new.name, child=child, old_name=old.name,
                        is_folder=child in self._named,
                    )
                )  # fmt: skip
                self._look()

        return watched

    def _look(self) -> None:
        identities: set[tuple[int, int]] = {_identity(self._root)}
        self._look_into(ROOT, self._root, identities)
        self._nodes = {key: node for key, node in self._nodes.items() if key in identities}

    def _look_into(self, folder: int, path: str, identities: set[tuple[int, int]]) -> None:
        with os.scandir(path) as entries:
            entry_of = {entry.name: entry for entry in entries}
        names = self._named[folder]
        for name in [name for name in names if name not in entry_of]:
            del names[name]
            self.log.append(Entry(kind="name", node=folder, name=name))
        for name, entry in sorted(entry_of.items()):
            key = _identity(entry.path)
            identities.add(key)
            node = self._nodes.get(key)
            is_folder = entry.is_dir(follow_symlinks=False)
            if node is None:
                self._made += 1
                node = self._nodes[key] = self._made
                if is_folder:
                    self._named[node] = {}
            if names.get(name) != node:
                names[name] = node
                self.log.append(
                    Entry(kind="name", node=folder, name=name, child=node, is_folder=is_folder)
                )
            if is_folder:
                self._look_into(node, entry.path, identities)
            else:
                self._compare(node, Path(entry.path).read_bytes())

    def _compare(self, node: int, now: bytes) -> None:
        before = self._contents.get(node, b"")
        if now == before:
            return
        self._contents[node] = now
        if now.startswith(before):
            entry = Entry(kind="write", node=node, offset=len(before), content=now[len(before) :])
        else:
            entry = Entry(kind="write", node=node, content=now)
        self.log.append(entry)

    def _sync_all(self) -> None:
        for node in (*self._named, *self._contents):
            self.log.append(Entry(kind="sync", node=node))
        self.begun = len(self.log)


def crashes(disk: Disk) -> list[Crash]:
    """Return each different folder that a crash can leave, with the last moment that can leave it.

    More was promised at the last moment than at those before it.
    """
    log = disk.log
    crash_of: dict[frozenset[tuple[str, bytes | None]], Crash] = {}
    for at in range(disk.begun + 1, len(log) + 1):
        marks = frozenset(entry.name for entry in log[:at] if entry.kind == "mark")
        for how, tree in _crashes_after(log[:at]):
            key = frozenset(tree.items())
            is_reordered = how.endswith(" alone") and (
                key not in crash_of or crash_of[key].is_reordered
            )
            crash_of[key] = Crash(at=at, how=how, tree=tree, marks=marks, is_reordered=is_reordered)
    return list(crash_of.values())


def _crashes_after(log: list[Entry]) -> Iterator[tuple[str, Tree]]:
    pending = _pending(log)
    yield "killed", _tree(log, lambda index, entry: True)
    if log[-1].kind == "write":
        half = log[-1].content[: len(log[-1].content) // 2]
        cut = Entry(kind="write", node=log[-1].node, offset=log[-1].offset, content=half)
        yield "killed inside the write", _tree([*log[:-1], cut], lambda index, entry: True)
    yield "all that was not synced lost", _tree(log, lambda index, entry: index not in pending)
    for kind in ("name", "write"):
        yield (
            f"only each {kind} kept",
            _tree(log, lambda index, entry, kind=kind: index not in pending or entry.kind == kind),
        )
    for entry_index in pending:
        yield (
            f"entry {entry_index} lost alone",
            _tree(log, lambda index, entry, entry_index=entry_index: index != entry_index),
        )
        yield (
            f"entry {entry_index} kept alone",
            _tree(
                log,
                lambda index, entry, entry_index=entry_index: (
                    index not in pending or index == entry_index
                ),
            ),
        )


def _pending(log: list[Entry]) -> set[int]:
    """Return the changes that no sync has followed yet."""
    pending: dict[int, int] = {}
    for index, entry in enumerate(log):
        if entry.kind == "sync":
            pending = {place: node for place, node in pending.items() if node != entry.node}
        elif entry.kind != "mark":
            pending[index] = entry.node
    return set(pending)


def _tree(log: list[Entry], is_kept: IsKept) -> Tree:
    names: dict[int, dict[str, int]] = {ROOT: {}}
    contents: dict[int, bytes] = {}
    for index, entry in enumerate(log):
        if entry.kind == "name" and entry.child is not None and entry.is_folder:
            names.setdefault(entry.child, {})
        if not is_kept(index, entry):
            continue
        if entry.kind == "write":
            before = contents.get(entry.node, b"")[: entry.offset]
            # Bytes before it that never came to the disk are a hole.
            contents[entry.node] = before.ljust(entry.offset, b"\0") + entry.content
        elif entry.kind == "name":
            _name(names.setdefault(entry.node, {}), entry)
    return dict(_walk(ROOT, "", names, contents))


def _name(folder: dict[str, int], entry: Entry) -> None:
    if entry.child is None:
        folder.pop(entry.name, None)
        return
    if folder.get(entry.old_name) == entry.child:
        del folder[entry.old_name]
    folder[entry.name] = entry.child


def _walk(
    node: int, path: str, names: dict[int, dict[str, int]], contents: dict[int, bytes]
) -> Iterator[tuple[str, bytes | None]]:
    for name, child in sorted(names[node].items()):
        whole = f"{path}{name}"
        if child in names:
            yield whole, None
            yield from _walk(child, whole + "/", names, contents)
        else:
            yield whole, contents.get(child, b"")


def _identity(path: str | Path) -> tuple[int, int]:
    facts = os.lstat(path)
    return facts.st_dev, facts.st_ino
