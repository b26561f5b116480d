"""What single trials of a run say: were they steady, and what limited them?"""

from collections.abc import Iterator, Mapping, Sequence

from loadstone.analysis import change_points, steadiness
from loadstone.analysis.account import Account
from loadstone.analysis.cell_verdicts import Flags, NullRates, decide_cells
from loadstone.analysis.finding import Evidence, Finding
from loadstone.analysis.instrument_findings import find_refusals, find_uncalibrated
from loadstone.analysis.part import Part
from loadstone.analysis.plausibility import judge
from loadstone.analysis.stalls import find_stalls
from loadstone.analysis.summary import Cell
from loadstone.analysis.verdict import Verdict
from loadstone.results.record import Record

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
    decided: Sequence[tuple[Cell, Verdict]] | None = None,
) -> tuple[Finding, ...]:
    """Return all findings of a run: of its trials one by one, and of its numbers together.

    `null_rates` are what the same client reaches against a null target; `decided` are the verdicts
    if they are known already.
    """
    records = {part.record.id: part.record for part in parts}
    found = [
        *find_stalls(records.values()),
        *find_unsteady(parts),
        *find_uncalibrated(parts),
        *find_refusals(parts),
        *_limited(records, flags),
        *_verdicts(decide_cells(account, parts, flags, null_rates) if decided is None else decided),
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


def _verdicts(decided: Sequence[tuple[Cell, Verdict]]) -> Iterator[Finding]:
    """State what limited each cell, as far as a run by itself can tell; one finding per limit."""
    groups: dict[tuple[str, str | None], list[tuple[Cell, Verdict]]] = {}
    for cell, found in decided:
        groups.setdefault((found.limit, found.grade), []).append((cell, found))
    for (limit, grade), members in groups.items():
        cell, first = members[0]
        graded = f" (grade {grade})" if grade else ""
        yield Finding(
            rule="verdict",
            severity="caution" if first.is_void_for_ratios else "note",
            statement=(
                f"{limit}{graded} in {len(members)} of {len(decided)} results, such as {cell.name}:"
                f" {first.reason}"
            ),
            evidence=tuple(one for _, found in members for one in found.evidence),
            cases=tuple(one.name for one, _ in members),
        )


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
