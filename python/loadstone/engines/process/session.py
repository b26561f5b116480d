"""What the processes of this session use: an engine may have started some.

Processor time, bytes from and to devices, and what the kernel tells of their memory.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loadstone.engines.engine import EngineUse

_REREAD = ("workingset_refault_file", "workingset_refault_anon")
"""What the kernel calls pages that it had dropped not long before they were wanted again."""

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_FORGET_PEAK = "5"
"""What clear_refs takes to begin the peak anew (proc(5))."""


@dataclass(frozen=True, slots=True)
class Use:
    """Totals up to one moment."""

    cpu_ns: int
    read_bytes: int
    written_bytes: int
    major_faults: int
    stall_ns: int | None
    reread_bytes: int


def begin(server: int | None) -> Use:
    """Return what was used so far; peaks of memory count from now on.

    `server` is a process that reads for this session (`mounts.py`): its bytes from devices count.
    """
    processes = list(_processes())
    for number in processes:
        with suppress(OSError), open(f"/proc/{number}/clear_refs", "w") as file:
            file.write(_FORGET_PEAK)
    return _use(processes, server)


def end(before: Use, server: int | None) -> EngineUse:
    """Return what was used since, and how many processors may be used."""
    processes = list(_processes())
    after = _use(processes, server)
    read_bytes = after.read_bytes - before.read_bytes
    is_known = before.stall_ns is not None and after.stall_ns is not None
    return EngineUse(
        cpu_ns=after.cpu_ns - before.cpu_ns,
        read_bytes=read_bytes,
        reread_bytes=min(after.reread_bytes - before.reread_bytes, read_bytes),
        spilled_bytes=after.written_bytes - before.written_bytes,
        major_faults=after.major_faults - before.major_faults,
        memory_stall_ns=(after.stall_ns or 0) - (before.stall_ns or 0) if is_known else None,
        memory_peak_bytes=sum(map(_peak_bytes, processes)),
        cores=len(os.sched_getaffinity(0)),
    )


def _use(processes: Iterable[str], server: int | None) -> Use:
    cpu_ns = written = faults = 0
    read = _device_bytes(str(server))[0] if server is not None else 0
    for number in processes:
        with suppress(OSError, ValueError, IndexError):
            fields = _text(f"/proc/{number}/stat").rpartition(")")[2].split()
            faults += int(fields[9])
            if int(number) == os.getpid():
                cpu_ns += time.process_time_ns()
            else:
                cpu_ns += (int(fields[11]) + int(fields[12])) * _TICK_NS
        own_read, own_written = _device_bytes(number)
        read, written = read + own_read, written + own_written
    return Use(cpu_ns, read, written, faults, _stall_ns(), _reread_bytes())


def _device_bytes(number: str) -> tuple[int, int]:
    """Return what a process has had read from devices, and written to them."""
    with suppress(OSError, ValueError):
        told = dict(line.split(": ") for line in _text(f"/proc/{number}/io").splitlines())
        return int(told["read_bytes"]), int(told["write_bytes"])
    return 0, 0


def _processes() -> Iterator[str]:
    """Yield the numbers of this session's processes."""
    own = os.getsid(0)
    for number in os.listdir("/proc"):
        if number.isdigit():
            with suppress(OSError):
                if os.getsid(int(number)) == own:
                    yield number


def _peak_bytes(number: str) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(_text(f"/proc/{number}/status").partition("VmHWM:")[2].split()[0]) * 1024
    return 0


def _reread_bytes() -> int:
    """Return what this host read that it had dropped before for want of memory."""
    with suppress(OSError, ValueError):
        told = dict(line.split(" ") for line in _text("/proc/vmstat").splitlines())
        return sum(int(told.get(name, 0)) for name in _REREAD) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _stall_ns() -> int | None:
    """Return for how long any work stood still for memory (PSI); None where nothing tells."""
    with suppress(OSError, ValueError, IndexError):
        # "some avg10=0.00 avg60=0.00 avg300=0.00 total=207863", in microseconds.
        return int(_text(_pressure_file()).split("total=")[1].split()[0]) * 1000
    return None


@cache
def _pressure_file() -> str:
    """Return the file of this process' own control group (version 2), or else the host's."""
    with suppress(OSError):
        for line in _text("/proc/self/cgroup").splitlines():
            own = Path("/sys/fs/cgroup") / line.removeprefix("0::/") / "memory.pressure"
            if line.startswith("0::/") and own.exists():
                return str(own)
    return "/proc/pressure/memory"


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()
