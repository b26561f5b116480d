"""A clock since 1970 that cannot be set, and by how much the host's own was set meanwhile."""

import time

READINGS = 5


class SteadyClock:
    """The host's clock at the time of making, and from there on what the monotonic clock adds.

    Both follow the same corrections of their frequency, so they part only where the host's clock is
    set.
    """

    def __init__(self) -> None:
        self._ahead_ns = _ahead_ns()

    def unix_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return self._ahead_ns + time.monotonic_ns()

    def monotonic_ns(self, unix_ns: int) -> int:
        """Return what the monotonic clock shows at a time of this one."""
        return unix_ns - self._ahead_ns

    def step_ns(self) -> int:
        """Return by how much the host's clock was set since the making, forward if positive."""
        return _ahead_ns() - self._ahead_ns


def _ahead_ns() -> int:
    """Return by how much the host's clock is ahead of the monotonic one.

    Two clocks cannot be read at once, and a thread may be preempted in between: the closest
    readings count.
    """
    readings = []
    for _ in range(READINGS):
        before_ns = time.monotonic_ns()
        unix_ns = time.time_ns()
        width_ns = time.monotonic_ns() - before_ns
        readings.append((width_ns, unix_ns - before_ns - width_ns // 2))
    return min(readings)[1]
