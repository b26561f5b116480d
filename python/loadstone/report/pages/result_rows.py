"""The table of results on a page: what each cell says, and the number that it is sorted by."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, Result
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.naming import describe_size
from loadstone.analysis.rules import find_rule
from loadstone.campaign.schema.systems.target import SYSTEM
from loadstone.report.pages.chart_data import operation_words

NOT_KNOWN = "–"
OWN = "client"
"""The kind of a limit that is the instrument's own: the rate is a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A word beside a number: its id in the table of rules, what it says, and how grave it is."""

    id: str
    words: str
    says: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCell:
    """One cell; `value` is what its column is sorted by."""

    text: str
    value: float | str | None = None
    is_number: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One result: what filters ask for, its cells, and what limited it."""

    target: str
    operation: str
    size: str
    round: str
    cells: tuple[ResultCell, ...]
    chips: tuple[Chip, ...]
    is_void: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """The heads, with their units, and the rows; `rounds` are those of single rounds."""

    heads: tuple[tuple[str, bool], ...]
    rows: tuple[ResultRow, ...]
    rounds: tuple[ResultRow, ...]


def result_table(findings: Findings, answer: Answer, rounds: Sequence[Result]) -> ResultTable:
    """Return the table of all results, and of each round by itself where there are several."""
    every = answer.results
    # What is true of all results stands once, in the cautions.
    common = (
        frozenset.intersection(*(frozenset(_labels(one, findings)) for one in every or ()))
        if len(every) > 2
        else frozenset[str]()
    )
    names = _varied(every)
    has_data = any(one.cell.bytes for one in every)
    heads = [("Target", False), ("Operation", False)]
    heads += [(name.removesuffix("_bytes").replace("_", " ").capitalize(), True) for name in names]
    heads += [("Rate", True), ("95 % interval", True)]
    heads += [("Data", True)] * has_data
    heads += [("p50", True), ("p99", True), ("Max", True), ("Failed", True), ("Trials", True)]

    def row(one: Result, of_round: str) -> ResultRow:
        return ResultRow(
            target=one.cell.target,
            operation=operation_words(one.cell),
            size="" if one.cell.size_bytes is None else describe_size(one.cell.size_bytes),
            round=of_round,
            cells=tuple(_cells(one, names, has_data=has_data)),
            chips=tuple(_chips(one, findings, common)),
            is_void=one.is_void,
        )

    return ResultTable(
        heads=tuple(heads),
        rows=tuple(row(one, "") for one in every),
        rounds=tuple(row(one, str(one.cell.round)) for one in rounds),
    )


def _varied(results: Sequence[Result]) -> list[str]:
    names = dict.fromkeys(name for one in results for name in one.cell.parameters if name != SYSTEM)
    varied = [
        name for name in names if len({str(one.cell.parameters.get(name)) for one in results}) > 1
    ]
    return sorted(varied, key=lambda name: name != "size")


def _cells(one: Result, names: Sequence[str], *, has_data: bool) -> Iterable[ResultCell]:
    cell = one.cell
    sign = "≥ " if one.is_bound else ""
    found = cell.interval
    interval = ResultCell(text=NOT_KNOWN)
    if found is not None and found.low is not None and found.high is not None:
        low, high = units.format_number(found.low), units.format_number(found.high)
        width = (found.high - found.low) / found.centre
        interval = ResultCell(text=f"{low} to {high}", value=_short(width))
    yield ResultCell(text=cell.target, is_number=False)
    yield ResultCell(text=operation_words(cell), is_number=False)
    for name in names:
        yield _parameter(name, cell.parameters.get(name))
    rate = ResultCell(text=f"{sign}{units.format_rate(one.rate)}", value=_short(one.rate))
    yield rate if cell.good else ResultCell(text=NOT_KNOWN)
    yield interval
    if has_data:
        data = units.format_byte_rate(one.bytes_per_s)
        moved = ResultCell(text=f"{sign}{data}", value=_short(one.bytes_per_s))
        yield moved if cell.bytes else ResultCell(text=NOT_KNOWN)
    yield _quantile(one, "p50")
    yield _quantile(one, "p99")
    most = None if cell.headline is None else cell.headline.max_ns
    yield ResultCell(text=NOT_KNOWN if most is None else units.format_duration(most), value=most)
    share = cell.failed / cell.requests
    shown = f"{units.format_number(100 * share, 2)} %" if share else "0"
    is_stated = cell.failed_if_stated is not None
    yield ResultCell(text=shown, value=_short(share)) if is_stated else ResultCell(text=NOT_KNOWN)
    yield ResultCell(text=str(len(cell.trial_rates)), value=len(cell.trial_rates))


def _parameter(name: str, value: object) -> ResultCell:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ResultCell(text="" if value is None else str(value), is_number=False)
    is_size = isinstance(value, int) and (name == "size" or name.endswith("_bytes"))
    return ResultCell(text=describe_size(int(value)) if is_size else f"{value:,g}", value=value)


def _quantile(one: Result, name: str) -> ResultCell:
    latency = one.cell.headline
    if latency is None:
        return ResultCell(text=NOT_KNOWN)
    if name in latency.at_least:
        least = latency.at_least[name]
        return ResultCell(text=f"≥ {units.format_duration(least)}", value=least)
    value = latency.quantiles[name]
    if value is None:
        return ResultCell(text=NOT_KNOWN)
    return ResultCell(text=units.format_duration(value), value=value)


def _own(one: Result, findings: Findings) -> list[Cell]:
    """Return the totals that a result was made from: one for each round."""
    trials = set(one.cell.trials)
    return [
        cell
        for cell in findings.totals
        if cell.operation == one.cell.operation and set(cell.trials) <= trials
    ]


def _labels(one: Result, findings: Findings) -> list[str]:
    labels = dict.fromkeys(label for cell in _own(one, findings) for label in cell.labels)
    # Each round has one trial, but the result has as many as there are rounds.
    return [name for name in labels if name != "n=1" or len(one.cell.trial_rates) == 1]


def _chips(one: Result, findings: Findings, common: frozenset[str]) -> Iterable[Chip]:
    """Return what limited a result, and the labels of its trials, each once."""
    own = _own(one, findings)
    verdicts = [found for cell in own if (found := findings.verdict_of(cell)) is not None]
    if one.limit:
        same = [found for found in verdicts if find_rule(_name(found.limit)).short == one.limit]
        rule = find_rule(_name(same[0].limit)) if same else None
        kind = OWN if rule is not None and rule.effect == "bound" else "limit"
        grade = f" (grade {same[0].grade})" if same and same[0].grade else ""
        yield Chip(
            id=rule.id if rule is not None else "",
            words=one.limit,
            says=f"{same[0].reason}{grade}" if same else "",
            kind="void" if one.is_void else "unknown" if one.limit == "not known" else kind,
        )
    for label in _labels(one, findings):
        rule = find_rule(label)
        if label in common and rule.effect != "invalid":
            continue
        kind = {"invalid": "void", "bound": OWN}.get(rule.effect, "remark")
        yield Chip(id=label, words=rule.short or label, says=rule.says, kind=kind)


def _name(limit: str) -> str:
    return limit.partition("(")[0]


def _short(value: float) -> float:
    return float(f"{value:.5g}")
