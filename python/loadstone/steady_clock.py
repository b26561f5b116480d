"""A Unix clock that is not affected by clock steps, and the sum of the host clock's steps."""

import time

READINGS = 5


class SteadyClock:
    """The host's clock at its creation, advanced by the monotonic clock.

    Both clocks have the same frequency corrections, so they diverge only when the host's clock is
    stepped.
    """

    def __init__(self) -> None:
        self._ahead_ns = _ahead_ns()

    def unix_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return self._ahead_ns + time.monotonic_ns()

    def monotonic_ns(self, unix_ns: int) -> int:
        """Return the monotonic clock's reading at a time of this clock."""
        return unix_ns - self._ahead_ns

    def step_ns(self) -> int:
        """Return the steps of the host's clock since the creation, positive if forward."""
        return _ahead_ns() - self._ahead_ns


def _ahead_ns() -> int:
    """Return the difference of the host's clock and the monotonic one.

    Two clocks cannot be read at once, and the thread may be preempted in between, so the closest
    pair of readings is used.
    """
    readings = []
    for _ in range(READINGS):
        before_ns = time.monotonic_ns()
        unix_ns = time.time_ns()
        width_ns = time.monotonic_ns() - before_ns
        readings.append((width_ns, unix_ns - before_ns - width_ns // 2))
    return min(readings)[1]
