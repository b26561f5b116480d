"""The data of an account's charts, in the rows that a run of its kind has.

Numbers that were not printed are left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    RATE,
    SECONDS,
    Account,
    Measurement,
)
from loadstone.analysis.accounts.case_means import CaseMean, case_means, compare_times
from loadstone.analysis.accounts.comparison import MARGIN
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.naming import describe_parameters, varied_parameters
from loadstone.analysis.statistics.ratios import TOGETHER
from loadstone.report.formats.comparison_page import ratio_rows
from loadstone.report.pages.chart_data import (
    DRAWN_QUANTILES,
    ceiling_row,
    drawn_row,
    load_axis,
    short,
)
from loadstone.report.result_words import spread_note

NO_RATE: Mapping[str, object] = {"rate": None, "trial_rates": []}
CASES_MAX = 60
"""A chart of more times is not legible."""

WORDS_OF_VERDICTS = {"slower": "longer", "faster": "shorter", "equivalent": "equal within 3 %"}
UNRESOLVED = "not told apart"


def account_data(account: Account) -> dict[str, Any]:
    """Return the data of an account's charts: rates along loads, ceilings, times."""
    rows = list(_rows(account))
    parameters = [row["parameters"] for row in rows]
    load = load_axis(parameters)
    compared = tuple(compare_times(account)) if _has_few_times(account) else ()
    return {
        "counted": "request",
        "client": "the client",
        "spread_words": _spread_words(account),
        "targets": list(account.targets),
        "load": load,
        "planned_loads": list(account.planned_threads) if load == "threads" else [],
        "results": rows,
        "rounds": [],
        "curves": [],
        "ceilings": [ceiling_row(ceiling) for ceiling in account.ceilings],
        "margin": MARGIN,
        "ratio_title": "Ratio of each query's time",
        "pairs": [
            {"a": first, "b": other, "together": _together(comparison)}
            for first, other, comparison in compared
        ],
        "cases": [
            row | {"name": _case_name(case.case, account)}
            for place, (_, _, comparison) in enumerate(compared)
            for row, case in zip(ratio_rows(comparison, place), comparison.comparisons, strict=True)
            if case.has_ratio
        ],
        "query_words": _time_words(account),
        "queries": list(_times(account)) if _has_few_times(account) else [],
    }


def answers_of_times(account: Account) -> Iterable[str]:
    """Compare the times of each other target with those of the first, over all cases."""
    for first, other, compared in compare_times(account):
        mean = compared.geometric_mean
        if mean is None:
            continue
        interval = f" (95 % CI {mean.low:.3f} to {mean.high:.3f})" if mean.low is not None else ""
        words = [
            WORDS_OF_VERDICTS.get(comparison.verdict, UNRESOLVED)
            for comparison in compared.comparisons
        ]
        counts = [
            f"{words.count(word)} {word}"
            for word in (*WORDS_OF_VERDICTS.values(), UNRESOLVED)
            if word in words
        ]
        yield (
            f"{other} takes {mean.ratio:.3f} times as long as {first}, the {TOGETHER}"
            f" of {len(words)} cases{interval}; of them {', '.join(counts)}."
        )


def _together(comparison: Any) -> str:
    mean = comparison.geometric_mean
    if mean is None or len(comparison.comparisons) < 2:
        return ""
    interval = f" (95 % CI {mean.low:.3f} to {mean.high:.3f})" if mean.low is not None else ""
    return f"{TOGETHER} {mean.ratio:.3f}{interval}"


def _rows(account: Account) -> Iterable[dict[str, Any]]:
    times: dict[tuple[object, ...], dict[str, float]] = {}
    for name in DRAWN_QUANTILES:
        for measurement in account.of(f"service_ns_{name}"):
            times.setdefault(_trial(measurement), {})[name] = measurement.value
    data = {_place(case.first): case for case in case_means(account.of(BYTE_RATE))}
    rates = case_means(measurement for measurement in account.of(RATE) if measurement.value > 0)
    for number, case in enumerate(rates):
        # A mean of several trials' percentiles would be meaningless.
        printed = times.get(_trial(case.first), {}) if len(case.members) == 1 else {}
        moved = data.pop(_place(case.first), None)
        ends = dict(zip(("low", "high"), case.printed_ends or (), strict=False))
        yield _row(case, f"rate {number}") | ends | _moved(moved) | printed
    for number, case in enumerate(data.values()):
        yield _row(case, f"data {number}") | {**NO_RATE} | _moved(case)
    for number, measurement in enumerate(account.hinted):
        others = [
            f"{value} {key}" for key, value in measurement.parameters.items() if key != "threads"
        ]
        row = {"target": measurement.target, "is_said": True}
        row["parameters"] = {
            name: measurement.parameters[name]
            for name in ("threads",)
            if name in measurement.parameters
        } | {"source": ", ".join(["in words, inferred", *others])}
        case = CaseMean((measurement,))
        yield _row(case, f"said {number}") | {**NO_RATE} | _moved(case) | row


def _row(case: CaseMean, name: str) -> dict[str, Any]:
    standing, reasons = case.standing
    return drawn_row(
        target=case.first.target,
        operation=case.first.operation,
        workload=case.first.workload,
        parameters=case.first.parameters,
        round_=case.first.round,
        rate=case.mean,
        trial_rates=case.values,
        standing=standing,
        limit=", ".join(map(reason_words, reasons)),
    ) | {"trials": [name]}


def _moved(case: CaseMean | None) -> dict[str, float]:
    if case is None:
        return {}
    ends = (case.mean.low, case.mean.high) if case.mean.is_interval else case.printed_ends or ()
    return {"bytes_per_s": case.mean.value} | dict(
        zip(("data_low", "data_high"), ends, strict=False)
    )


def _trial(measurement: Measurement) -> tuple[object, ...]:
    return (measurement.target, measurement.case, measurement.repetition)


def _place(measurement: Measurement) -> tuple[object, ...]:
    return (measurement.target, measurement.case)


def _spread_words(account: Account) -> str:
    """Return what bars are of numbers that were printed once; empty where trials are known."""
    if any(case.mean.is_spread for case in case_means(account.of(RATE))):
        return ""
    if not any(measurement.spread for measurement in account.measurements):
        return "The spread of the repetitions is not printed."
    kind = account.disclosure.spread
    return (
        f"The bars are the printed ±: {kind}."
        if kind
        else "The bars are the printed ±; the source does not say what it is."
    )


def _has_few_times(account: Account) -> bool:
    return (
        0
        < len({measurement.case for measurement in account.of(SECONDS) if measurement.value > 0})
        <= CASES_MAX
    )


def _times(account: Account) -> Iterable[dict[str, Any]]:
    for case in case_means(
        measurement for measurement in account.of(SECONDS) if measurement.value > 0
    ):
        time = case.mean
        yield {
            "arm": case.first.target,
            "query": _case_name(case.first.parameters, account),
            "value_ns": short(time.value * 1e9),
            "low_ns": short(time.low * 1e9) if time.is_spread else None,
            "high_ns": short(time.high * 1e9) if time.is_spread else None,
            "times_ns": [short(value * 1e9) for value in case.values],
            "runs": time.n,
            "read_bytes": None,
            "limit": "",
        }


def _time_words(account: Account) -> str:
    times = [measurement for measurement in account.of(SECONDS) if measurement.value > 0]
    tool = f", as {times[-1].tool} printed it" if times and times[-1].tool else ""
    spread = spread_note([case.mean for case in case_means(times)], of="Each line")
    return (
        f"Time{tool}; logarithmic, lower is better. Each faint mark is one repetition, so a cold"
        f" first run is visible. {spread or 'Nothing was repeated: there is no spread.'}"
    )


def _case_name(parameters: Mapping[str, object], account: Account) -> str:
    """Return the varied parameters of a case; a single one without its name."""
    varied = varied_parameters(time.parameters for time in account.of(SECONDS))
    if len(varied) == 1:
        return str(parameters.get(varied[0], ""))
    return describe_parameters({name: parameters[name] for name in varied if name in parameters})
