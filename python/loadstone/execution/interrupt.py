"""Handles Ctrl-C and similar signals: the first stops the trial, the second the process."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED = 130


class Interrupt:
    """Stops a run, whatever it is doing at the moment.

    Signals are handled in a separate thread: the main thread may be inside the load generator,
    where Python's signal handlers do not run.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._asked = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_asked(self) -> bool:
        """Whether a stop was requested."""
        return self._asked.is_set()

    def on_ask(self, stop: Callable[[], None]) -> None:
        """Set the function that stops the current work; call it now if a stop was already
        requested.
        """
        with self._lock:
            self._stop = stop
            if self.is_asked:
                stop()

    def wait(self, seconds: float) -> bool:
        """Wait; return whether a stop was requested meanwhile."""
        return self._asked.wait(seconds)

    def ask(self) -> None:
        """Request that the run stops."""
        with self._lock:
            self._asked.set()
            if self._stop is not None:
                self._stop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Handle the signals during a run, if signals can be handled here at all.

        Signals that were ignored at start-up, as with nohup, stay ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = [signal.signal(number, _do_nothing) for number in numbers]
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        watcher = threading.Thread(
            target=self._watch, args=(reader, frozenset(numbers)), name="signals", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_before)
            os.close(writer)
            watcher.join()
            os.close(reader)
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _watch(self, reader: int, numbers: frozenset[signal.Signals]) -> None:
        # The kernel writes the signal's number; end of file means that the run has ended.
        while byte := os.read(reader, 1):
            if byte[0] not in numbers:
                continue
            if self.is_asked:
                # Everything up to the last second has been written, and the folder counts as
                # interrupted: only data that the load generator still held is lost.
                os._exit(EXIT_INTERRUPTED)
            self.ask()


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Replace the default handler, which would raise an exception at an arbitrary point."""
