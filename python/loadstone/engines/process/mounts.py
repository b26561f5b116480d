"""File systems in user space: the program that serves a mount, which reads what clients ask for.

What a client of such a mount reads is counted for that program, over its own connections and from
its own devices.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_DEVICE = "/dev/fuse"


def server_of(directory: str) -> int | None:
    """Return the number of the process that serves a directory's mount; None of all others.

    Also None where this user may not look at that process.
    """
    try:
        number = os.minor(os.stat(directory).st_dev)
        point = _mount_point(directory)
    except OSError:
        return None
    if point is None:
        return None
    for process, descriptor in _with_device():
        told = _connection(process, descriptor)
        if told == number or (told is None and _is_named(process, point)):
            return process
    return None


def _mount_point(directory: str) -> str | None:
    """Return where a directory's file system is mounted, if it is one in user space."""
    path = os.path.realpath(directory)
    found: tuple[str, str] | None = None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # Of mounts on one directory the last one counts.
        if is_above and (found is None or len(point) >= len(found[0])):
            found = point, kind
    return found[0] if found and found[1].startswith("fuse") else None


def _with_device() -> Iterator[tuple[int, str]]:
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                if os.readlink(f"/proc/{process}/fd/{descriptor}") == _DEVICE:
                    yield int(process), descriptor


def _connection(process: int, descriptor: str) -> int | None:
    """Return the number of the mount that a descriptor serves; older kernels do not tell it."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/fdinfo/{descriptor}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "fuse_connection":
                return int(value)
    return None


def _is_named(process: int, point: str) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return point.encode() in words
    return False
