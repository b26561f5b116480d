"""Aggregates single requests into per-second rows with histograms, in one pass."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone.formats.imported import SECOND_NS, Row

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram

OPEN_SECONDS = 10
"""Number of seconds before the newest whose histograms stay open."""


@dataclass(slots=True)
class _Second:
    requests: int = 0
    objects: int = 0
    bytes: int = 0
    service: "Histogram | None" = None
    first_byte: "Histogram | None" = None


@dataclass(slots=True)
class Completions:
    """Collects requests by operation, outcome and second of completion.

    Tools write requests nearly in the order of their ends, so seconds well before the newest are
    closed and encoded. A later request of such a second adds another row, which is summed with it.
    """

    origin_ns: int
    """A time before the first request's start; seconds count from it."""

    rows: list[Row] = field(default_factory=list)
    first_start_ns: int | None = None
    last_end_ns: int | None = None
    _open: dict[tuple[str, str, int], _Second] = field(default_factory=dict)
    _newest: int = -1

    def add(
        self,
        operation: str,
        outcome: str,
        *,
        end_ns: int,
        elapsed_ns: int,
        first_byte_ns: int | None = None,
        bytes_moved: int = 0,
        objects: int = 1,
    ) -> None:
        """Count one request; only successful ones move bytes and objects."""
        from loadstone._loadgen import Histogram

        start_ns = end_ns - elapsed_ns
        self.first_start_ns = min(start_ns, self.first_start_ns or start_ns)
        self.last_end_ns = max(end_ns, self.last_end_ns or end_ns)
        second = (end_ns - self.origin_ns) // SECOND_NS
        if second > self._newest:
            self._newest = second
            self._close_before(second - OPEN_SECONDS)
        cell = self._open.setdefault((operation, outcome, second), _Second())
        cell.requests += 1
        if cell.service is None:
            cell.service = Histogram()
        cell.service.record(max(1, elapsed_ns))
        if outcome == "ok":
            cell.objects += objects
            cell.bytes += bytes_moved
            if first_byte_ns is not None:
                if cell.first_byte is None:
                    cell.first_byte = Histogram()
                cell.first_byte.record(max(1, first_byte_ns))

    @property
    def window_ns(self) -> tuple[int, int]:
        """From the first start to the last end, relative to the origin."""
        assert self.first_start_ns is not None, "asked once there is a request"
        assert self.last_end_ns is not None, "asked once there is a request"
        return self.first_start_ns - self.origin_ns, self.last_end_ns - self.origin_ns

    def close(self) -> tuple[Row, ...]:
        """Return all rows in the order of their seconds."""
        self._close_before(self._newest + 1)
        return tuple(sorted(self.rows, key=lambda row: (row.second, row.operation, row.outcome)))

    def _close_before(self, second: int) -> None:
        for key in [key for key in self._open if key[2] < second]:
            cell = self._open.pop(key)
            operation, outcome, when = key
            self.rows.append(
                Row(
                    operation=operation,
                    outcome=outcome,
                    second=when,
                    requests=cell.requests,
                    objects=cell.objects,
                    bytes=cell.bytes,
                    service=cell.service.encode() if cell.service else None,
                    first_byte=cell.first_byte.encode() if cell.first_byte else None,
                )
            )
