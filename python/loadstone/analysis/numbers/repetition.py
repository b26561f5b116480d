"""Repetitions: numbers measured once, unequally often, or with a cold first run."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from loadstone.analysis.accounts.account import LOWER_IS_BETTER, Account, Measurement, describe_case
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.analysis.statistics import student
from loadstone.analysis.statistics.significance import smallest_p

RULES = NumberRules()


REPETITIONS_MIN = 4
COLD_RATIO = 1.10
COLD_CONFIDENCE = 0.99
COLD_CHANCE = 0.01


@RULES.problem(
    id="single-trials",
    short="numbers from one trial",
    says="numbers that were measured once",
    means="There is no interval, and no comparison.",
    do="Repeat in interleaved blocks: --blocks 6, or blocks: 6 in the campaign.",
    covers=("n=1",),
)
def single_trials(account: Account) -> Iterator[Finding]:
    """Find numbers that were measured once, which have no interval."""
    cells = _cells(account)
    single = [cell for cell in cells if len(cell) == 1 and cell[0].spread is None]
    if not single:
        return
    rounds = {cell[0].round for cell in single}
    text = f"{len(single)} of {len(cells)} numbers are from one trial each (n = 1): no interval"
    evidence = [Evidence("trials of a number", 1, 5)]
    if len(rounds) > 1:
        least = smallest_p(len(rounds), len(rounds))
        text += (
            f"; taking the {len(rounds)} rounds as repetitions, no difference can reach a p below"
            f" {least:.2f}"
        )
        evidence.append(Evidence("smallest p of the rounds", least, 0.05))
    yield Finding(
        "single-trials",
        text,
        evidence=tuple(evidence),
        cases=tuple(describe_case(cell[0]) for cell in single[:10]),
    )


@RULES.caution(
    id="unequal-repetitions",
    short="unequal repetitions",
    says="cases repeated less often than others",
    means="Their means are less certain than those beside them.",
    do="Repeat every case equally often.",
)
def unequal_repetitions(account: Account) -> Iterator[Finding]:
    """Find cases with fewer repetitions than others: some trials may have been left out."""
    for target, cells in grouped((cell[0] for cell in _cells(account)), lambda m: m.target).items():
        counts = {
            describe_case(cell[0]): len(cell)
            for cell in _cells(account)
            if cell[0].target == target
        }
        most = max(counts.values())
        fewer = [name for name, count in counts.items() if count < most]
        if most > 1 and fewer and cells:
            yield Finding(
                "unequal-repetitions",
                f"{target}: {len(fewer)} of {len(counts)} cases have fewer trials than the"
                f" {most} of the others; the source does not say what became of the others",
                evidence=(Evidence("trials", min(counts.values()), most),),
                cases=tuple(fewer),
            )


@RULES.problem(
    id="cold-first-run",
    short="cold first repetitions",
    says="first repetitions unlike the others",
    means="The mean mixes cold and warm caches.",
    do="Warm up, or report the first repetition apart.",
)
def cold_first(account: Account) -> Iterator[Finding]:
    """Find targets whose first repetition is slower than the rest, because caches were cold."""
    repeated = [cell for cell in _cells(account) if len(cell) >= REPETITIONS_MIN]
    for target, first_ones in grouped((cell[0] for cell in repeated), lambda m: m.target).items():
        cells = [cell for cell in repeated if cell[0].target == target]
        by_answer = [cell for cell in cells if _is_worst_first(cell)]
        cold = [cell for cell in by_answer if _slowdown(cell) >= COLD_RATIO and _is_outside(cell)]
        chance = _chance_of_worst_first(cells, len(by_answer))
        if not cold or (chance > COLD_CHANCE and len(first_ones) > 1):
            continue
        cold.sort(key=_slowdown, reverse=True)
        listed = ", ".join(f"{_short(cell)} {_slowdown(cell):.1f}×" for cell in cold[:6])
        yield Finding(
            "cold-first-run",
            f"{target}: the first repetition is the slowest in {len(by_answer)} of"
            f" {len(cells)} cases, and in {len(cold)} far outside the others ({listed} the"
            " median of the rest): a cold first run is mixed into the mean",
            evidence=tuple(
                Evidence(
                    "first repetition / median of the rest",
                    _slowdown(cell),
                    COLD_RATIO,
                    place=cell[0].place,
                )
                for cell in cold
            ),
            cases=tuple(describe_case(cell[0]) for cell in cold),
            chance=chance,
        )


def _cells(account: Account) -> list[list[Measurement]]:
    """Return the trials of each number of the headline metric, in the order they ran."""
    groups = grouped(account.of(account.headline()), lambda m: (m.target, m.case))
    return [sorted(group, key=lambda m: m.repetition) for group in groups.values()]


def _is_worst_first(cell: Sequence[Measurement]) -> bool:
    values = [measurement.value for measurement in cell]
    if cell[0].metric in LOWER_IS_BETTER:
        return values[0] > max(values[1:])
    return values[0] < min(values[1:])


def _slowdown(cell: Sequence[Measurement]) -> float:
    rest = float(np.median([measurement.value for measurement in cell[1:]]))
    slower = cell[0].value / rest
    return slower if cell[0].metric in LOWER_IS_BETTER else 1 / slower


def _is_outside(cell: Sequence[Measurement]) -> bool:
    """Tell whether the first value lies beyond the one-sided prediction interval of the others."""
    logs = np.log([measurement.value for measurement in cell[1:]])
    reach = student.quantile(COLD_CONFIDENCE, logs.size - 1) * float(logs.std(ddof=1))
    reach *= math.sqrt(1 + 1 / logs.size)
    distance = math.log(cell[0].value) - float(logs.mean())
    return distance > reach if cell[0].metric in LOWER_IS_BETTER else distance < -reach


def _chance_of_worst_first(cells: Sequence[Sequence[Measurement]], by_answer: int) -> float:
    """Return the probability that so many cases start with their worst, each with 1/n."""
    counts = np.array([1.0])
    for cell in cells:
        counts = np.convolve(counts, [1 - 1 / len(cell), 1 / len(cell)])
    return float(counts[by_answer:].sum())


def _short(cell: Sequence[Measurement]) -> str:
    query = cell[0].parameters.get("query")
    return str(query) if query else describe_case(cell[0])
