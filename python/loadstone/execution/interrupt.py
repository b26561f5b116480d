"""Ctrl-C and similar signals: the first ends and keeps the trial, the second ends the process."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED = 130


class Interrupt:
    """Tells a run to stop, whatever it is doing at the moment.

    Signals are taken by a thread of their own: the main thread may be inside the load generator,
    where no handler of Python's would run.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._asked = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_asked(self) -> bool:
        """Whether the run is to stop."""
        return self._asked.is_set()

    def on_ask(self, stop: Callable[[], None]) -> None:
        """Set how the present work is ended; end it at once if a stop was requested before."""
        with self._lock:
            self._stop = stop
            if self.is_asked:
                stop()

    def wait(self, seconds: float) -> bool:
        """Wait; return whether a stop was requested meanwhile."""
        return self._asked.wait(seconds)

    def ask(self) -> None:
        """Ask the run to stop."""
        with self._lock:
            self._asked.set()
            if self._stop is not None:
                self._stop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Take the signals for the time of a run, where signals can be taken at all.

        A signal that was turned off when we started, as nohup does, stays off.
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
        # The kernel's byte is the signal's number; the end of the pipe is the end of the run.
        while byte := os.read(reader, 1):
            if byte[0] not in numbers:
                continue
            if self.is_asked:
                # Everything up to the last second is in the stream already, and the folder counts
                # as interrupted: nothing is lost but what the load generator still held.
                os._exit(EXIT_INTERRUPTED)
            self.ask()


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Stand in for the default, which would raise in the middle of anything."""
