"""Processes that end with who started them, however that ended."""

import ctypes
import signal

_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, signal.SIGKILL)
