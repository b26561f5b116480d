"""Forecasts the remaining time of a run from its trials so far."""

from collections.abc import Sequence

from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import TrialDocument

_Kind = tuple[str, tuple[str, ...], str]


class Forecast:
    """Adds up the pauses and the expected durations of the remaining trials.

    A trial with a duration takes that duration. A trial with a number of requests is assumed to be
    as fast as the last one of the same target, operations and load, else of the same operations on
    any target. Without either there is no forecast, except that preparations and clean-ups of
    unknown speed count as instantaneous.
    """

    def __init__(self, trials: Sequence[PlannedTrial]) -> None:
        self._left = {planned.id: planned for planned in trials}
        self._rates: dict[_Kind, float] = {}
        self._rates_anywhere: dict[tuple[str, ...], float] = {}

    def extend(self, trials: Sequence[PlannedTrial]) -> None:
        """Add the trials of a newly planned start."""
        self._left |= {planned.id: planned for planned in trials}

    def drop(self, document: TrialDocument) -> None:
        """Remove a trial that has begun or was skipped from the forecast."""
        search = document.get("search") or {}
        self._left.pop(str(search.get("of", document["id"])), None)

    def observe(self, document: TrialDocument, requests: int, elapsed_ns: int) -> None:
        """Record the speed of a running trial: `requests` in `elapsed_ns`."""
        if requests > 0 and elapsed_ns > 0:
            rate = requests * 1e9 / elapsed_ns
            self._rates[_kind(document)] = rate
            self._rates_anywhere[_operations(document)] = rate

    def left_ns(self) -> int | None:
        """Return the remaining time including pauses, in nanoseconds; None if it cannot be
        forecast.
        """
        total_ns = 0
        for planned in self._left.values():
            if planned.is_search:
                # The number of trials in a search is not known beforehand.
                return None
            trial_ns = self._trial_ns(planned.document)
            if trial_ns is None:
                return None
            total_ns += trial_ns + planned.pause_before_ns
        return total_ns

    def _trial_ns(self, document: TrialDocument) -> int | None:
        stop, iterations = document["stop"], document.get("iterations") or 1
        ends: list[float] = []
        duration_ns, requests = stop.get("duration_ns"), stop.get("requests")
        if duration_ns is not None:
            outside_ns = document.get("warm_up_ns", 0) + document.get("cool_down_ns", 0)
            ends.append((duration_ns + outside_ns) * iterations)
        rate = self._rates.get(_kind(document)) or self._rates_anywhere.get(_operations(document))
        if requests is not None and rate is not None:
            ends.append(requests * iterations * 1e9 / rate)
        if not ends and not document["measured"]:
            return 0
        return round(min(ends)) if ends else None


def _kind(document: TrialDocument) -> _Kind:
    volume = f"{document.get('load')} {(document.get('dataset') or {}).get('size')}"
    return str(document["target"]["name"]), _operations(document), volume


def _operations(document: TrialDocument) -> tuple[str, ...]:
    return tuple(sorted(operations_of(document)))
