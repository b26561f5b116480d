"""`python -m loadstone`, and the `loadstone` command."""

import atexit
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130
"""Equal to `loadstone.cli.exit_code`'s, which is not imported yet if Ctrl-C comes early."""


def main() -> None:
    """Run the command line and exit with its code; Ctrl-C exits with 130 from here on.

    Python's default handler would raise in the middle of imports, and end the process by a signal.
    It is only used while a command runs, which can clean up.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # Ctrl-C was ignored at start-up, as in a shell's background jobs.
        _run()
    signal.signal(signal.SIGINT, _quit)
    # The first registered function runs last, when no thread and no other callback is left. Without
    # it a Ctrl-C would kill the interpreter, which removes its handlers before it exits.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        _run()
    except KeyboardInterrupt:
        _quit(signal.SIGINT, None)


def _run() -> NoReturn:
    # Imports and tables create many permanent objects: traversing them at the default thresholds,
    # and again at exit, takes a fifth of a short command's time.
    gc.set_threshold(200_000, 20, 50)
    atexit.register(gc.freeze)
    from loadstone import cli

    # Its imports take a while on a busy host.
    command = cli.command_for(sys.argv[1:])
    is_ours = signal.getsignal(signal.SIGINT) is _quit
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = command(sys.argv[1:])
    if is_ours:
        signal.signal(signal.SIGINT, _quit)
    # If a KeyboardInterrupt has left an `exec` of a string, such as a dataclass's during an import,
    # CPython kills the process at its exit, even if it was handled. The next `exec` clears that.
    exec("")
    sys.exit(code)


def _quit(number: int, frame: FrameType | None) -> NoReturn:
    """Exit at once: no command is running."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
