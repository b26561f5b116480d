"""What single trials of a run say: were they steady, and what limited them?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from loadstone.analysis import change_points, steadiness
from loadstone.analysis.account import Account
from loadstone.analysis.finding import Evidence, Finding
from loadstone.analysis.instrument_findings import find_refusals, find_uncalibrated
from loadstone.analysis.labels import VOIDING, explain
from loadstone.analysis.part import Part
from loadstone.analysis.plausibility import judge
from loadstone.analysis.summary import Cell, summarise
from loadstone.analysis.validity import LITTLE_INSTRUMENT, Gate, error_gate
from loadstone.analysis.verdict import Observed, Trial, Verdict, decide
from loadstone.results.record import Record

Flags = Mapping[str, Mapping[str, Sequence[Evidence]]]
"""What `client_limits` found in each trial, by the trial's id."""

NullRates = Mapping[tuple[str, int | None, int | None], float]
"""Requests per second of a null target, by operation, size and requests in flight."""

ROUND_S = 60
FLAGS = {
    "INSTRUMENT_CPU": "the client's processors",
    "SHARED_HOST": "the processors that client and target share",
    "INSTRUMENT_MEM": "the client's memory",
    "INSTRUMENT_SOCKETS": "the client's ports and descriptors",
    "CLIENT_NIC": "the client's network card",
}


def judge_run(
    account: Account,
    parts: Sequence[Part],
    flags: Flags,
    null_rates: NullRates | None = None,
) -> tuple[Finding, ...]:
    """Return all findings of a run: of its trials one by one, and of its numbers together.

    `null_rates` are what the same client reaches against a null target.
    """
    records = {part.record.id: part.record for part in parts}
    found = [
        *find_unsteady(parts),
        *find_uncalibrated(parts),
        *find_refusals(parts),
        *_limited(records, flags),
        *_verdicts(account, parts, flags, null_rates or {}),
        *judge(account),
    ]
    order = ("problem", "caution", "note")
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def find_unsteady(parts: Sequence[Part]) -> Iterator[Finding]:
    """Report trials that never settled, and those too short to say."""
    unsteady: list[tuple[str, str]] = []
    short = []
    for part in parts:
        name = f"trial {part.record.id} {part.operation}, iteration {part.iteration}"
        if part.rates.size < steadiness.ROUNDS * ROUND_S:
            short.append(name)
            if part.rates.size >= steadiness.BATCH**2 and not _is_plausibly_steady(part):
                kind = change_points.classify(part.rates).kind
                unsteady.append((name, f"{kind} within {part.rates.size} s"))
            continue
        found = steadiness.ls1(part.rates, round_s=ROUND_S, seed=1)
        if not found.is_steady:
            unsteady.append((name, str(found)))
    if unsteady:
        listed = "; ".join(f"{name}: {why}" for name, why in unsteady[:3])
        yield Finding(
            rule="not-steady",
            severity="problem",
            statement=f"{len(unsteady)} of {len(parts)} stretches did not settle ({listed})",
            evidence=tuple(Evidence(metric="steadiness", value=why) for _, why in unsteady),
            cases=tuple(name for name, _ in unsteady),
        )
    if short:
        yield Finding(
            rule="too-short-for-steadiness",
            severity="note",
            statement=(
                f"{len(short)} of {len(parts)} measured stretches are shorter than the"
                f" {steadiness.ROUNDS} rounds of {ROUND_S} s that a claim of steadiness needs"
            ),
            evidence=(
                Evidence(
                    metric="seconds measured",
                    value=float(min(part.rates.size for part in parts)),
                    threshold=float(steadiness.ROUNDS * ROUND_S),
                    unit="s",
                ),
            ),
            cases=tuple(short[:10]),
        )


def _is_plausibly_steady(part: Part) -> bool:
    """Tell whether a short stretch at least settles in its first half and stays on one level."""
    return (
        steadiness.mser5(part.rates).is_valid
        and change_points.classify(part.rates).kind != "no steady state"
    )


def _limited(records: Mapping[str, Record], flags: Flags) -> Iterator[Finding]:
    for flag, words in FLAGS.items():
        trials = [name for name, found in flags.items() if flag in found]
        if not trials:
            continue
        evidence = tuple(one for name in trials for one in flags[name][flag])
        worst = evidence[0]
        yield Finding(
            rule=flag,
            severity="problem",
            statement=(
                f"{words} reached a limit in {len(trials)} of {len(records)} trials"
                f" ({worst.metric}: {_shown(worst.value)}, limit {_shown(worst.threshold)}):"
                " their numbers are bounds of what the target can do"
            ),
            evidence=evidence,
            cases=tuple(f"trial {name}" for name in trials),
        )


def _verdicts(
    account: Account, parts: Sequence[Part], flags: Flags, null_rates: NullRates
) -> Iterator[Finding]:
    """State what limited each cell, as far as a run by itself can tell; one finding per limit."""
    _, totals = summarise(parts, {})
    groups: dict[tuple[str, str | None], list[tuple[Cell, Verdict]]] = {}
    for cell in totals:
        records = {part.record.id: part.record for part in parts if part.record.id in cell.trials}
        seen = observe(cell, totals, tuple(records.values()), flags)
        seen = replace(
            seen,
            null_rate=null_rates.get(_null_key(cell)) or _ceiling(cell),
            path_bytes_per_s=_path_ceiling(account),
        )
        found = decide(seen)
        groups.setdefault((found.limit, found.grade), []).append((cell, found))
    for (limit, grade), members in groups.items():
        cell, first = members[0]
        graded = f" (grade {grade})" if grade else ""
        yield Finding(
            rule="verdict",
            severity="caution" if first.is_void_for_ratios else "note",
            statement=(
                f"{limit}{graded} in {len(members)} of {len(totals)} results, such as {cell.name}:"
                f" {first.reason}"
            ),
            evidence=tuple(one for _, found in members for one in found.evidence),
            cases=tuple(one.name for one, _ in members),
        )


def observe(
    cell: Cell,
    cells: Sequence[Cell],
    records: Sequence[Record],
    flags: Flags,
) -> Observed:
    """Gather what a run knows about one of its cells."""
    sweep = sorted(_same_sweep(cell, cells), key=_load)
    place = sweep.index(cell)
    own: dict[str, list[Evidence]] = {}
    for record in records:
        for flag, evidence in flags.get(record.id, {}).items():
            own.setdefault(flag, []).extend(evidence)
    if cell.little is not None and cell.little < LITTLE_INSTRUMENT:
        idle = Evidence(metric="X·R/N", value=cell.little, threshold=LITTLE_INSTRUMENT)
        own.setdefault("INSTRUMENT_CPU", []).append(idle)
    first = sweep[0]
    best = max(one.requests_per_s for one in sweep)
    throttles = sum(cell.errors.get(kind, 0) for kind in ("http_429", "http_503"))
    return Observed(
        trial=_trial(cell),
        gates=tuple(_gates(cell)),
        flags=own,
        lower=_trial(sweep[place - 1]) if place else None,
        higher=_trial(sweep[place + 1]) if place + 1 < len(sweep) else None,
        knee=best / first.requests_per_s
        if _load(first) == 1 and first.requests_per_s and len(sweep) > 1
        else None,
        bytes_per_s=cell.bytes_per_s,
        throttled=throttles / cell.requests if cell.requests else 0.0,
    )


def _gates(cell: Cell) -> Iterator[Gate]:
    yield error_gate(requests=cell.good, failed=cell.failed)
    for label in cell.labels:
        if label in VOIDING:
            yield Gate(
                name=label,
                outcome="fail",
                value=None,
                wanted="no such label",
                statement=explain(label),
            )


def _ceiling(cell: Cell) -> float | None:
    """Return at which rate of the cell the load generator itself would be at its ceiling."""
    share = cell.instrument.share if cell.instrument is not None else 0.0
    return cell.requests_per_s / share if share and cell.requests_per_s else None


def _null_key(cell: Cell) -> tuple[str, int | None, int | None]:
    size, threads = cell.parameters.get("size"), cell.parameters.get("threads")
    return (
        cell.operation,
        size if isinstance(size, int) else None,
        threads if isinstance(threads, int) else None,
    )


def _path_ceiling(account: Account) -> float | None:
    paths = [one.bytes_per_s for one in account.ceilings if one.resource == "network"]
    return min(paths, default=None)


def _same_sweep(cell: Cell, cells: Sequence[Cell]) -> list[Cell]:
    def key(one: Cell) -> tuple[object, ...]:
        rest = {name: value for name, value in one.parameters.items() if name != "threads"}
        return (
            one.target,
            one.workload,
            one.phase,
            one.operation,
            str(sorted(rest.items())),
            one.round,
        )

    return [one for one in cells if key(one) == key(cell)]


def _load(cell: Cell) -> float:
    load = cell.load.get("clients") or cell.load.get("rate_per_s") or 0
    return float(load) if isinstance(load, (int, float)) else 0.0


def _trial(cell: Cell) -> Trial:
    return Trial(
        load=_load(cell),
        rate=cell.requests_per_s,
        time_s=cell.service.mean_ns / 1e9 if cell.service else None,
    )


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
