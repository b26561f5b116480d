"""Kernel files that are kept open and read from the start each time."""

import os
from pathlib import Path


class AbsentError(Exception):
    """This host does not have what a probe reads; the message says why."""


class KernelFile:
    """One file under /proc or /sys."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.pread(self._descriptor, 1, 0)
        except OSError as error:
            raise AbsentError(f"{path}: {error.strerror}") from error

    def read(self) -> str:
        """Return the current text."""
        parts = []
        offset = 0
        while part := os.pread(self._descriptor, 1 << 16, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts).decode(errors="replace")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def open_existing(paths: dict[str, Path]) -> dict[str, KernelFile]:
    """Open the files that exist; raise AbsentError if none does."""
    files = {}
    reasons = []
    for name, path in paths.items():
        try:
            files[name] = KernelFile(path)
        except AbsentError as reason:
            reasons.append(str(reason))
    if not files:
        raise AbsentError(reasons[0] if reasons else "nothing to read")
    return files
