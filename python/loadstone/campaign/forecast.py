"""Forecasts the remaining time of a run from its trials so far."""

from collections.abc import Sequence

from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import TrialDocument

_Kind = tuple[str, tuple[str, ...], str]


class Forecast:
    """Adds up the rests and the trials to come; knows nothing before it has seen rates.

    A trial that ends by the clock takes its time. One that ends by requests is taken to be as
    fast as the last one of the same target, operations and load, else of the same operations on
    any target; without either there is no forecast, but for what is not measured: a preparation or
    clean-up of unknown speed is taken to be over at once.
    """

    def __init__(self, trials: Sequence[PlannedTrial]) -> None:
        self._left = {planned.id: planned for planned in trials}
        self._rates: dict[_Kind, float] = {}
        self._rates_anywhere: dict[tuple[str, ...], float] = {}

    def extend(self, trials: Sequence[PlannedTrial]) -> None:
        """Take in the trials of a start that was planned just now."""
        self._left |= {planned.id: planned for planned in trials}

    def drop(self, document: TrialDocument) -> None:
        """Note that a trial is no longer to come: it has begun, or was skipped."""
        search = document.get("search") or {}
        self._left.pop(str(search.get("of", document["id"])), None)

    def observe(self, document: TrialDocument, requests: int, elapsed_ns: int) -> None:
        """Note how fast a trial goes."""
        if requests > 0 and elapsed_ns > 0:
            rate = requests * 1e9 / elapsed_ns
            self._rates[_kind(document)] = rate
            self._rates_anywhere[_operations(document)] = rate

    def left_ns(self) -> int | None:
        """Return the time that the trials to come will take, rests and all."""
        total_ns = 0
        for planned in self._left.values():
            if planned.is_search:
                # How many trials it takes is not known beforehand.
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
