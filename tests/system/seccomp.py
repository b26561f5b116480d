"""Runs a command as on a host that forbids a system call, by a seccomp filter.

python -m tests.system.seccomp NUMBER COMMAND...
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
MODE_FILTER = 2
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


class Program(ctypes.Structure):
    """The kernel's struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_char_p))


def forbid(number: int) -> None:
    """Make the kernel refuse one system call to this process and its children."""
    instructions = (
        # The number of the call is the first word of the filter's input.
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, number),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    )
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    program = Program(len(instructions), code)
    system = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if system.prctl(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    forbid(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
