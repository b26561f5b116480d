"""Searches for a capacity: their trials and their answers.

`observe` reads one record for the objective, during a search and afterwards, so that the answer can
be reproduced from the run folder.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis.grouping import added_up, grouped
from loadstone.analysis.instrument.headroom import stalled_share
from loadstone.analysis.instrument.stalls import stall_of
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.validity import may_print_quantile
from loadstone.analysis.measured.part import NOT_SENT, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.analysis.measured.trial_case import TrialCase, case_of
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import merge
from loadstone.analysis.statistics.mean import Mean, mean_of
from loadstone.campaign import search_step
from loadstone.campaign.search import (
    End,
    FoundCapacity,
    Goal,
    Observation,
    SearchTrial,
    are_counted,
    bounds,
    counted,
    next_step,
)
from loadstone.documents.mix import operations_of
from loadstone.documents.outcomes import NO_FAILURES
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Record, Run

TIMEOUT = "timeout"
LATE_SHARE, LATE_NS_MIN = 0.1, 1_000_000
"""The client stalls if a sleep is late by this share of the allowed latency, and by more
than any host needs to wake from idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep:
    """One trial of a search, with its rate of good requests.

    `is_left_out` if it missed the objective while the client's host stalled, and was repeated.
    """

    trial: str
    stage: str
    load: float
    started_unix_ns: int | None
    duration_s: float
    rate: float
    observation: Observation
    is_good: bool
    is_left_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySearch(TrialCase):
    """A search and its answer.

    `lower` is the largest load confirmed to meet the objective, with the `rate` of its confirming
    trials; `upper` is the smallest that missed it, `is_doubted` if perhaps due to the client.
    `is_over` is False while trials are missing.
    """

    operations: tuple[str, ...]
    vary: str
    quantile: str
    goal: Goal
    steps: tuple[SearchStep, ...]
    lower: float | None
    upper: float | None
    is_confirmed: bool
    is_doubted: bool
    is_over: bool
    end: End
    reason: str
    rate: Mean | None
    latency_ns: float | None
    confirming: tuple[str, ...]

    @property
    def name(self) -> str:
        """The search in words: "ceph, get, 4 KiB"."""
        words = [self.target, self.phase, describe_parameters(self.parameters)]
        words += [f"round {self.round}"] if self.round > 1 else []
        return ", ".join(word for word in words if word)

    @property
    def objective(self) -> str:
        """The objective in words: "p99 ≤ 50 ms, errors ≤ 0.1 %"."""
        limit = units.format_duration(self.goal.latency_ns_max)
        words = [f"{self.quantile.replace('_', '.')} ≤ {limit}"]
        words.append(f"errors ≤ {100 * self.goal.errors_max:g} %")
        if self.vary == "rate":
            words.append(f"achieved ≥ {100 * self.goal.achieved_min:g} %")
        return ", ".join(words)

    def describe_load(self, load: float | None) -> str:
        """Return a load of this search with its unit."""
        if load is None:
            return "none"
        return f"{load:g} threads" if self.vary == "threads" else units.format_rate(load)


def observe(record: Record, goal: Goal) -> Observation:
    """Return a trial's observation of an objective.

    Requests that timed out or were not sent count as the slowest ones; there is no latency if the
    quantile is among them.
    """
    quantile = goal.quantile
    parts = list(read_parts(record, Rows(record.intervals)))
    good = merge(part.histograms["response"] or part.histograms["service"] for part in parts)
    errors = added_up(error for part in parts for error in part.errors.items())
    not_sent = errors.pop(NOT_SENT, 0)
    for kind in NO_FAILURES:
        errors.pop(kind, None)
    failed, answered = sum(errors.values()), sum(part.good for part in parts)
    count = good.count if good is not None else 0
    unknown = not_sent + errors.get(TIMEOUT, 0)
    latency_ns = None
    if good is not None and may_print_quantile(quantile, count + unknown):
        rank = quantile * (count + unknown) / count
        latency_ns = float(good.quantile(rank)) if rank <= 1 else None
    sent = answered + failed
    # The hiccup thread runs on one core at a time, and misses stalls of other cores.
    stall = stall_of(record)
    late = stalled_share(record, max(LATE_NS_MIN, LATE_SHARE * goal.latency_ns_max))
    # Answers after the window do not count as achieved.
    kept_up = min(
        (part.mix.answered / part.mix.sent for part in parts if part.mix.sent), default=1.0
    )
    return Observation(
        latency_ns=latency_ns,
        errors=failed / sent if sent else 1.0,
        achieved=sent / (sent + not_sent) * min(1.0, kept_up) if sent else 0.0,
        stalled=late if stall is None else max(late, stall.share),
    )


def read_searches(run: Run) -> tuple[CapacitySearch, ...]:
    """Return the searches of a run with their answers so far."""
    records = grouped(
        (record for record in run.records if record.is_whole),
        lambda record: (record.trial.get("search") or {}).get("of"),
    )
    ended = run.manifest.get("searches") or {}
    return tuple(
        _read_search(document, records.get(document["id"], []), document["id"] in ended)
        for document in run.searches
        if document["id"] in records
    )


def left_out(run: Run, searches: Iterable[CapacitySearch]) -> Collection[str]:
    """Return the trials of searches that confirm nothing, and so are not results."""
    confirming = {trial for search in searches for trial in search.confirming}
    steps = {entry["id"] for entry in run.plan if "of" in (entry.get("search") or {})}
    steps |= {record.id for record in run.records if "of" in (record.trial.get("search") or {})}
    return steps - confirming


def search_findings(searches: Sequence[CapacitySearch]) -> Iterable[Finding]:
    """Report the answer of each search."""
    for search in searches:
        is_answer = search.is_over and search.is_confirmed and search.lower is not None
        is_answer = is_answer and not search.is_doubted
        yield Finding(
            "capacity",
            weight="note" if is_answer else "caution",
            statement=f"{search.name}: {describe_answer(search)}",
            evidence=tuple(
                Evidence(
                    f"{search.quantile} at {search.describe_load(step.load)}",
                    step.observation.latency_ns
                    if step.observation.latency_ns is not None
                    else "unread",
                    search.goal.latency_ns_max,
                    unit="ns",
                    place=f"trial {step.trial}",
                )
                for step in search.steps
                if step.stage != "coarse"
            ),
            cases=tuple(f"trial {step.trial}" for step in search.steps),
        )


def describe_answer(search: CapacitySearch) -> str:
    """Return a search's answer as a complete sentence."""
    if not search.is_over:
        return f"the search is not over after {units.counted(len(search.steps), 'trial')}"
    left_out = sum(step.is_left_out for step in search.steps)
    spoiled = f", {left_out} of them left out: the client's host stalled" if left_out else ""
    how = search.reason if search.is_confirmed else f"not confirmed: {search.reason}"
    tail = f"; {how}, after {units.counted(len(search.steps), 'trial')}{spoiled}"
    fails = f"fails at {search.describe_load(search.upper)}"
    if search.lower is None:
        it_fails = f"; it {fails}" if search.upper is not None else ""
        return f"no load met {search.objective}{it_fails}{tail}"
    and_fails = f" and {fails}" if search.upper is not None else ""
    head = f"holds {search.objective} at {search.describe_load(search.lower)}{and_fails}"
    rate = ""
    if search.rate is not None:
        rate = f"; achieved {units.format_rate(search.rate.value)} there"
        if search.rate.is_spread:
            low, high = (
                units.format_number(search.rate.low, 4),
                units.format_number(search.rate.high, 4),
            )
            of = "95 % CI" if search.rate.is_interval else "trials"
            rate += f" ({of} {low} to {high}, n = {search.rate.n})"
    return f"{head}{rate}{tail}"


def _read_search(
    document: TrialDocument, records: Sequence[Record], is_ended: bool
) -> CapacitySearch:
    goal, loads = search_step.goal_of(document), search_step.loads_of(document)
    in_order = sorted(records, key=lambda record: record.trial["search"]["step"])
    observations = [observe(record, goal) for record in in_order]
    trials = [
        search_step.read_step(document, record.trial, observation)
        for record, observation in zip(in_order, observations, strict=True)
    ]
    steps = tuple(map(_step, in_order, observations, trials, are_counted(trials)))
    answer = _outcome(goal, trials, next_step(goal, trials, loads))
    is_over = is_ended or answer.end != "not over"
    at = answer.lower if answer.is_confirmed else None
    confirming = [
        step
        for step in steps
        if step.stage == "confirm" and step.load == at and not step.is_left_out
    ]
    confirmed = [record for record in in_order if record.id in {step.trial for step in confirming}]
    return CapacitySearch(
        **case_of(document),
        operations=tuple(operations_of(document)),
        vary=document["search"]["vary"],
        quantile=document["search"]["quantile"],
        goal=goal,
        steps=steps,
        lower=answer.lower,
        upper=answer.upper,
        is_confirmed=answer.is_confirmed,
        is_doubted=answer.is_doubted,
        is_over=is_over,
        end=answer.end,
        reason=answer.reason,
        rate=mean_of(
            [step.rate for step in confirming], [step.started_unix_ns for step in confirming]
        )
        if confirming
        else None,
        latency_ns=_quantile(confirmed, goal.quantile),
        confirming=tuple(step.trial for step in confirming),
    )


def _outcome(goal: Goal, trials: Sequence[SearchTrial], step: object) -> FoundCapacity:
    if isinstance(step, FoundCapacity):
        return step
    lower, upper = bounds(goal, counted(trials))
    return FoundCapacity(
        lower=lower,
        upper=upper,
        is_confirmed=False,
        end="not over",
        reason="not over: trials are missing",
        trials=len(trials),
    )


def _step(
    record: Record, observation: Observation, trial: SearchTrial, is_counted: bool
) -> SearchStep:
    parts = list(read_parts(record, Rows(record.intervals)))
    return SearchStep(
        trial=record.id,
        stage=trial.stage,
        load=trial.load,
        started_unix_ns=record.summary.get("started_unix_ns"),
        duration_s=parts[0].duration_s if parts else 0.0,
        rate=sum(part.requests_per_s for part in parts),
        observation=observation,
        is_good=trial.is_good,
        is_left_out=not is_counted,
    )


def _quantile(records: Sequence[Record], quantile: float) -> float | None:
    """Return the quantile of the merged histograms of several trials."""
    parts = [part for record in records for part in read_parts(record, Rows(record.intervals))]
    times = merge(part.histograms["response"] or part.histograms["service"] for part in parts)
    return None if times is None else float(times.quantile(quantile))
