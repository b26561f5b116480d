"""Estimates the offset of a host's clock from the controller's, by timed round trips."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.documents.summary import LoadHost

QUESTIONS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One exchange: controller times of question and answer, and the host's time between them."""

    sent_ns: int
    answered_ns: int
    host_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Time between question and answer, in nanoseconds."""
        return self.answered_ns - self.sent_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The host's clock minus the controller's. The true value is within `bound_ns` of
    `offset_ns`.
    """

    offset_ns: int
    bound_ns: int
    round_trip_ns: int

    def document(self) -> LoadHost:
        """Return the clock as records store it."""
        return {
            "clock_offset_ns": self.offset_ns,
            "clock_bound_ns": self.bound_ns,
            "round_trip_ns": self.round_trip_ns,
        }


def estimate(exchanges: Sequence[Exchange]) -> Clock:
    """Return the estimate of the fastest exchange, because the others were delayed on their way.

    The host read its clock at some moment between sending and answer. The middle is assumed, so the
    error is at most half of the round trip, whichever direction took longer.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip_ns)
    middle_ns = best.sent_ns + best.round_trip_ns // 2
    return Clock(
        offset_ns=best.host_ns - middle_ns,
        bound_ns=-(-best.round_trip_ns // 2),
        round_trip_ns=best.round_trip_ns,
    )
