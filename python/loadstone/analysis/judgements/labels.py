"""Labels: short warnings beside a number; the functions that decide which ones it bears.

A label never changes a number. Labels of the record are kept. Their words are in the table of
rules.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from loadstone import units
from loadstone.analysis.cells.little import (
    has_too_many_in_flight,
    is_held_back,
    little_beyond_chance,
)
from loadstone.analysis.grouping import grouped
from loadstone.analysis.instrument.client_limits import (
    CACHED_SOME,
    OCCUPIED_SOME,
    cached_share,
    occupied_share,
)
from loadstone.analysis.instrument.headroom import (
    HICCUP_SHARE,
    START_ERROR_NS_MAX,
    behind,
    hosts_of,
    lost,
    start_error_ns,
)
from loadstone.analysis.instrument.stalls import stall_of
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.validity import LITTLE_TOLERANCE, is_achieved, is_on_time
from loadstone.analysis.limits.facts import INSTRUMENT_CAUTION, INSTRUMENT_MAX
from loadstone.analysis.limits.target_state import HEALTHY, clusters, is_good, last_hooks
from loadstone.analysis.measured.part import SECOND_NS, Part
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.rules import Rule, find_rule, view
from loadstone.campaign.drivers import facts_of
from loadstone.campaign.operations import READS
from loadstone.campaign.schema.hook import POINTS
from loadstone.documents.mix import operations_of
from loadstone.documents.outcomes import ABSENT, CLIENT_FAILURES, LOST_RACE, UNWRITTEN
from loadstone.probes.ceph import is_moving
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone.analysis.cells.cell import Cell

CONTRADICTORY = "CONTRADICTORY"

LABELS: Mapping[str, Rule] = view("label")

VOIDING = frozenset(name for name, rule in LABELS.items() if rule.effect == "invalid")
"""Labels under which a number must not be used as a result."""

LEFT_OUT = frozenset(name for name, rule in LABELS.items() if rule.is_left_out)
"""Labels of faults of the client or the record: a minority of such trials is left out."""

SHORT_S = 60
SHORT_REQUESTS = 1000
FEW_PER_CLIENT = 10
LOG_INS_MAX = 3
LOG_INS_PER_HOUR = 6
LOG_INS_SHARE = 0.01
OUTAGE_SHARE = 0.05
"""As STALLED_SHARE, for a client that stalled."""
OUTAGE_TIMES = 10
"""A pause is an outage from this many usual requests on: clients in step pause for about one."""
OUTAGE_REQUESTS_PER_S = 10
"""Fewer leave seconds without any by chance: at ten a second, one in 20,000."""
CHANCE = 3.0
"""Standard deviations by which the number of arrivals may differ from the number wanted."""


def is_unsettled(record: Record) -> bool:
    hosts = [record.summary, *(record.summary.get("hosts") or ())]
    states = [state for host in hosts if (state := host.get("host_state"))]
    return any(
        residue["before_load"] > residue["settled_max"]
        for state in states
        for residue in state["residues"]
    )


def label_trial(record: Record) -> tuple[str, ...]:
    """Return the labels of one trial, computed once for all results that it is part of."""
    labels = _LABELLED.get(record)
    if labels is None:
        labels = tuple(
            dict.fromkeys(
                [*record.labels, *(label for label, bears in TRIAL_LABELS.items() if bears(record))]
            )
        )
        _LABELLED[record] = labels
    return labels


_LABELLED: WeakKeyDictionary[Record, tuple[str, ...]] = WeakKeyDictionary()


def label_cell(cell: "Cell", parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the labels of a cell: those of its trials, and its own."""
    labels = [label for part in parts for label in label_trial(part.record)]
    return tuple(
        dict.fromkeys(
            [*labels, *(label for label, bears in RESULT_LABELS.items() if bears(cell, parts))]
        )
    )


def find_labels(cells: Sequence["Cell"]) -> Iterator[Finding]:
    """Return one finding for each label among results."""
    for label in dict.fromkeys(label for cell in cells for label in cell.labels):
        cases = tuple(cell.name for cell in cells if label in cell.labels)
        text = f"{find_rule(label).says} ({len(cases)} of {len(cells)} results)"
        yield Finding(label, text, cases=cases)


def _is_stopped(record: Record, *, on_loss: bool) -> bool:
    is_on_loss = bool(record.summary.get("stopped_on_loss"))
    return record.summary.get("state") == "stopped" and is_on_loss is on_loss


def _is_stalled(record: Record, *, so_long: bool) -> bool:
    """Tell whether the client stalled: so long that the trial is invalid, or shortly."""
    stall = stall_of(record) if record.trial.get("measured") else None
    return stall is not None and stall.is_invalid is so_long


def logs_in_often(record: Record) -> bool:
    """LOG_INS: log-ins took a share of the measured time."""
    count, took_ns = record.summary.get("log_ins") or 0, record.summary.get("log_ins_ns") or 0
    iterations = record.summary.get("iterations") or ()
    lasted_ns = max((times["end_ns"] for times in iterations), default=0)
    hours = lasted_ns / (3600 * SECOND_NS)
    is_often = count > LOG_INS_MAX + LOG_INS_PER_HOUR * hours
    return bool(is_often or (count and took_ns > LOG_INS_SHARE * lasted_ns))


def is_unchecked(record: Record) -> bool:
    """UNCHECKED: the bytes that were read were not verified."""
    trial = record.trial
    reads = READS.intersection(operations_of(trial))
    return trial.get("verify") == 0 and bool(reads) and facts_of(trial["target"]["driver"]).keeps


def has_empty_trial(cell: "Cell", _: Sequence[Part]) -> bool:
    """EMPTY: a trial without one good request has no rate, and its result no mean of all trials."""
    return bool(cell.good) and any(not trial.requests_per_s for trial in cell.trial_rates)


def has_few_requests(cell: "Cell", parts: Sequence[Part]) -> bool:
    """FEW: a time limit cuts the first and the last request of each client, and there are few."""
    clients = cell.load.get("clients") or 0 if cell.load.get("kind") == "closed" else 0
    is_cut = any((part.record.trial.get("stop") or {}).get("duration_ns") for part in parts)
    answered = sum(part.mix.answered for part in parts)
    return is_cut and 0 < answered < FEW_PER_CLIENT * clients * len(parts)


def had_outage(cell: "Cell", parts: Sequence[Part]) -> bool:
    """OUTAGE, unless a hook beside the load may have caused it, or the client could not send."""
    usual_ns = cell.headline.quantiles["p50"] if cell.headline is not None else None
    return usual_ns is not None and any(
        outage_share(part, usual_ns / SECOND_NS) > OUTAGE_SHARE
        for part in parts
        if part.errors.keys() - CLIENT_FAILURES
        and all(entry["at"] in POINTS for entry in part.record.hooks)
    )


def outage_share(part: Part, usual_s: float) -> float:
    """Return the share of a part's seconds that lie in pauses far longer than a usual request."""
    answered = part.rates > 0
    if not answered.any() or float(np.median(part.rates[answered])) < OUTAGE_REQUESTS_PER_S:
        return 0.0
    edges = np.flatnonzero(np.diff(np.concatenate(([True], answered, [True])).astype(np.int8)))
    pauses_s = edges[1::2] - edges[::2]
    return float(pauses_s[pauses_s > OUTAGE_TIMES * usual_s].sum() / answered.size)


def is_short(cell: "Cell", _: Sequence[Part]) -> bool:
    return cell.duration_s / len(cell.trials) < SHORT_S or cell.good < SHORT_REQUESTS


def breaks_little(_: "Cell", parts: Sequence[Part]) -> bool:
    """LITTLE: more requests in flight than there were clients, in a trial or in all together."""
    trials = grouped(parts, lambda part: part.record.id)
    return any(has_too_many_in_flight(of_trial) for of_trial in (parts, *trials.values()))


def is_idle(cell: "Cell", parts: Sequence[Part]) -> bool:
    """IDLE: clients spent time outside requests, and were not told to."""
    rate = sum(part.mix.answered for part in parts) / cell.duration_s
    if all(is_held_back(part.record, rate, is_idle=True) for part in parts):
        return False
    return little_beyond_chance(cell.little, cell.requests, cell.load) < 1 - LITTLE_TOLERANCE


def is_overloaded(cell: "Cell", parts: Sequence[Part]) -> bool:
    wanted = cell.load.get("rate_per_s")
    if cell.load.get("kind") != "open" or wanted is None or wanted <= 0:
        return False
    achieved = sum(part.mix.answered for part in parts) / cell.duration_s
    is_poisson = cell.load.get("arrivals", "poisson") == "poisson"
    offered = _offered_per_s(wanted, is_poisson, parts)
    return not is_achieved(offered_per_s=offered, achieved_per_s=achieved)


def has_lag(cell: "Cell", parts: Sequence[Part]) -> bool:
    """LAG, unless requests left late only because all clients waited for the target."""
    shares = [occupied_share(part.record) for part in parts]
    is_idle = all(share is not None and share < OCCUPIED_SOME for share in shares)
    if is_idle and is_overloaded(cell, parts):
        return False
    on_time = is_on_time(
        lag_p99_ns=cell.lag.quantiles["p99"] if cell.lag else None,
        service_p99_ns=cell.service.quantiles["p99"] if cell.service else None,
    )
    return cell.load.get("kind") == "open" and on_time is False


def is_at_ceiling(cell: "Cell", _: Sequence[Part]) -> bool:
    return cell.instrument is not None and cell.instrument.share >= INSTRUMENT_MAX


def is_near_ceiling(cell: "Cell", parts: Sequence[Part]) -> bool:
    is_near = cell.instrument is not None and cell.instrument.share >= INSTRUMENT_CAUTION
    return is_near and not is_at_ceiling(cell, parts)


def is_noisy(cell: "Cell", _: Sequence[Part]) -> bool:
    """NOISY, by sleeps that ended late."""
    shown_ns = cell.headline.quantiles["p99"] if cell.headline is not None else None
    hiccup_ns = cell.jitter.hiccup_ns_p99_9
    return bool(shown_ns and hiccup_ns is not None and hiccup_ns > HICCUP_SHARE * shown_ns)


def _offered_per_s(wanted_per_s: float, is_poisson: bool, parts: Sequence[Part]) -> float:
    """Return the rate at which requests were due, or the wanted one less its chance deviation."""
    window_s = sum(part.duration_s for part in parts)
    wanted, due = wanted_per_s * window_s, sum(part.mix.due for part in parts)
    # Evenly spaced arrivals may miss a window by one.
    chance = CHANCE * math.sqrt(wanted) if is_poisson else len(parts)
    return max(due, wanted - chance) / window_s


TRIAL_LABELS: Mapping[str, Callable[[Record], bool]] = {
    "INTERRUPTED": lambda record: record.summary.get("state") == "interrupted",
    "STOPPED": lambda record: _is_stopped(record, on_loss=False),
    "STOPPED_ON_LOSS": lambda record: _is_stopped(record, on_loss=True),
    "CORRUPT": lambda record: any((record.summary.get("mismatches") or {}).values()),
    "STALLED": lambda record: _is_stalled(record, so_long=True),
    "NOISY": lambda record: _is_stalled(record, so_long=False),
    "UNSETTLED": is_unsettled,
    "CACHED": lambda record: (cached_share(record) or 0.0) >= CACHED_SOME,
    "UNCHECKED": is_unchecked,
    "LOG_INS": logs_in_often,
    "HOST_LOST": lambda record: bool(lost(record)),
    "START_APART": lambda record: any(
        start_error_ns(host) > START_ERROR_NS_MAX for host in hosts_of(record)
    ),
    "CLOCK_SET": lambda record: any(host.get("clock_step_ns") for host in hosts_of(record)),
    "HOSTS_UNEQUAL": lambda record: bool(behind(record)),
    "UNHEALTHY": lambda record: any(
        state.get("health") != HEALTHY for _, state in clusters(record)
    ),
    "REBALANCING": lambda record: any(is_moving(state) for _, state in clusters(record)),
    "HOOK": lambda record: not all(map(is_good, last_hooks(record))),
}
RESULT_LABELS: Mapping[str, Callable[["Cell", Sequence[Part]], bool]] = {
    "NOISY": is_noisy,
    "ERRORS": lambda cell, _: cell.failed > 0,
    "NOTHING": lambda cell, _: not cell.good,
    "EMPTY": has_empty_trial,
    "FEW": has_few_requests,
    "LEFT_OUT": lambda _, parts: any(part.left_out for part in parts),
    "OUTAGE": had_outage,
    "n=1": lambda cell, _: len(cell.trials) == 1,
    "SHORT": is_short,
    "LITTLE": breaks_little,
    "IDLE": is_idle,
    "OVERLOAD": is_overloaded,
    "LAG": has_lag,
    "INSTRUMENT_LIMITED": is_at_ceiling,
    "NEAR_CEILING": is_near_ceiling,
}
"""The functions that tell whether a trial or a result bears a label, in the order of the table of
rules. A label in neither is recorded with its trial."""

NO_FAILURE_WORDS = {
    UNWRITTEN: "asked for an object whose put had failed; not a failure of its own",
    LOST_RACE: "another write came first; not a failure",
    ABSENT: "nothing was there, as others delete too; not a failure",
}


def error_sentences(record: Record, intervals: Rows) -> list[str]:
    """Return one line per kind of error, with the first message that came back."""
    counts = intervals.unless("outcome", "ok").sums("outcome", "requests")
    examples = record.summary.get("error_examples") or {}
    lines = []
    for count_of_kind, kind in sorted((-count, str(kind)) for kind, count in counts.items()):
        count = units.format_count(-count_of_kind)
        words = NO_FAILURE_WORDS.get(kind) or examples.get(kind)
        example = f": {words}" if words else ""
        lines.append(f"{count} × {kind}{example}")
    return lines
