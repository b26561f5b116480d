"""Block devices that tests may overwrite: named by the environment, or made of a file."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Devices and directories of this host that are tried besides, each a path: those of clients that
# only some kernels have. Whatever such a device holds is overwritten.
DEVICES, DIRECTORIES = "LOADSTONE_TEST_DEVICES", "LOADSTONE_TEST_DIRECTORIES"

LOOP = "loop"
LOOP_BYTES = 64 << 20


def named(variable: str) -> list[str]:
    """Return the paths that one of the variables names."""
    return os.environ.get(variable, "").split()


def row(kind: str, path: str) -> str:
    """Return what the table of targets calls a device or directory that is named."""
    return f"{kind}-{Path(path).name}"


@contextlib.contextmanager
def mounted(path: Path) -> Iterator[None]:
    """Mount an empty file system of its own over a directory."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", path]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"nothing can be mounted here: {getattr(error, 'stderr', '') or error}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@contextlib.contextmanager
def loop_device(size_bytes: int = LOOP_BYTES) -> Iterator[Path]:
    """Make a file a block device."""
    with tempfile.NamedTemporaryFile(prefix="loadstone-") as file:
        file.truncate(size_bytes)
        command = ["losetup", "--find", "--show", "--direct-io=off", file.name]
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            output = getattr(error, "stderr", "") or str(error)
            pytest.skip(f"no loop device can be made here: {output.strip()}")
        path = made.stdout.strip()
        try:
            yield Path(path)
        finally:
            detach_loop(path)


def detach_loop(device: str) -> None:
    """Detach a loop device, and return when the kernel has let go of its file.

    `losetup --detach` of a device that another process has open only marks it: the device shows
    the file until that process closes it.
    """
    subprocess.run(["losetup", "--detach", device], check=True)
    backing_file = Path("/sys/block", Path(device).name, "loop/backing_file")
    while backing_file.exists():
        time.sleep(0.05)
