"""`python -m loadstone`, and the `loadstone` command."""

import atexit
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130
"""As `loadstone.cli.exit_code` has it, which is not imported yet when Ctrl-C comes early."""


def main() -> None:
    """Run the command line and exit with its code; Ctrl-C ends it with 130 from here on.

    Python's own handler raises in the middle of whatever is imported, and a process that it ends
    dies of the signal instead. It is in use only while a command runs, which knows what to leave
    behind.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # Ctrl-C was turned off when we started, as a shell does in the background.
        _run()
    signal.signal(signal.SIGINT, _quit)
    # What is registered first runs last: no thread and no other callback is left then, and the
    # interpreter, which takes its handlers away before it ends, would be killed.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        _run()
    except KeyboardInterrupt:
        _quit(signal.SIGINT, None)


def _run() -> NoReturn:
    # Imports and tables make many objects that stay: to look through them at every 700th, and once
    # more at the end, costs a fifth of a short command's time.
    gc.set_threshold(200_000, 20, 50)
    atexit.register(gc.freeze)
    from loadstone import cli

    # What it imports takes a while on a busy host.
    command = cli.command_for(sys.argv[1:])
    is_ours = signal.getsignal(signal.SIGINT) is _quit
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = command(sys.argv[1:])
    if is_ours:
        signal.signal(signal.SIGINT, _quit)
    sys.exit(code)


def _quit(number: int, frame: FrameType | None) -> NoReturn:
    """End at once: no command runs yet, or it has ended."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
