"""The tables of all readable reports: columns, units and words.

A table is plain text in cells, which reports draw.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from loadstone import units
from loadstone.analysis import Findings, TrialFacts
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.naming import describe_parameter, describe_value
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.report.result_words import (
    LIMIT_NOTE,
    MARKS,
    NOT_KNOWN,
    ends_words,
    limit_words,
    notes_below,
    operation_words,
    spread_head,
)

Align = Literal["left", "right"]

Item = TypeVar("Item")
Other = TypeVar("Other")

COUNT = ",d"
"""How numbers of requests are shown."""

QUANTILE_HEADS = {name: name.replace("_", ".") for name in QUANTILES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its head, the unit of its cells, and their alignment.

    An optional column may be left out for lack of room.
    """

    head: str
    unit: str = ""
    align: Align = "right"
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Column, Generic[Item]):
    """A column with what stands in it for an item, which has a row."""

    cell: Callable[[Item], str]

    def of(self, item_of: Callable[[Other], Item]) -> "Field[Other]":
        """Return the field for rows of others, of which each has an item."""
        return Field(
            head=self.head,
            unit=self.unit,
            align=self.align,
            is_optional=self.is_optional,
            cell=lambda other: self.cell(item_of(other)),
        )


def word(head: str, cell: Callable[[Item], str]) -> Field[Item]:
    """Return a field of words."""
    return Field(head=head, cell=cell, align="left")


def number(
    head: str, cell: Callable[[Item], str], unit: str = "", *, is_optional: bool = False
) -> Field[Item]:
    """Return a field of numbers."""
    return Field(head=head, cell=cell, unit=unit, is_optional=is_optional)


def known(
    value_of: Callable[[Item], float | None], scale: float = 1, show: str = ""
) -> Callable[[Item], str]:
    """Return the cell of a number that may be unknown, divided by `scale`.

    It is shown by a format specification, or else with as many digits as count.
    """

    def cell(item: Item) -> str:
        value = value_of(item)
        if value is None:
            return NOT_KNOWN
        value = value / scale if scale != 1 else value
        return format(value, show) if show else units.format_number(value)

    return cell


def texts(*heads: str) -> tuple[Column, ...]:
    return tuple(Column(head=head, align="left") for head in heads)


def numbers(*heads: str | tuple[str, str]) -> tuple[Column, ...]:
    """Return columns of numbers; a head may come with the unit of its cells."""
    pairs = [(head, "") if isinstance(head, str) else head for head in heads]
    return tuple(Column(head=head, unit=unit) for head, unit in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as text; `caption` holds common values of all rows, `notes` explain signs."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()


def tabulated(
    title: str,
    items: Iterable[Item],
    fields: Sequence[Field[Item]],
    *,
    caption: str = "",
    notes: Iterable[str] = (),
) -> Table:
    """Return a table with a row for each item, in fields that are stated once."""
    return Table(
        title=title,
        columns=tuple(fields),
        rows=tuple(tuple(field.cell(item) for field in fields) for item in items),
        caption=caption,
        notes=tuple(notes),
    )


def results_table(findings: Findings) -> Table:
    """Return the main table: rates, data, latency, failures and labels."""
    return _results(_with_mixes(findings), "Results")


def rounds_table(findings: Findings) -> Table | None:
    """Return the results of each round; None if there is one round."""
    return _results(findings.rounds, "Each round by itself") if findings.has_rounds else None


def iterations_table(findings: Findings) -> Table | None:
    """Return the results of each iteration; None if no phase had more than one."""
    several = [result for result in findings.rounds if result.iterations > 1]
    keys = {(result.phase, result.operation, result.workload) for result in several}
    iterations = [
        iteration
        for iteration in findings.iterations
        if (iteration.phase, iteration.operation, iteration.workload) in keys
    ]
    return _results(iterations, "Each iteration by itself") if iterations else None


def latency_table(findings: Findings) -> Table | None:
    """Return every percentile of every kind of latency; None when no time was recorded."""
    every = [
        _Times(cell, kind, latency)
        for cell in findings.results
        for kind, latency in _kinds(cell)
        if latency is not None
    ]
    if not every:
        return None
    scale, unit = _time_unit([times.latency for times in every])
    of_case, caption = case_fields(findings.results)
    fields: list[Field[_Times]] = [
        *(field.of(lambda times: times.result) for field in of_case),
        word("Time", lambda times: times.kind),
    ]
    for name, head in QUANTILE_HEADS.items():
        cell: Callable[[_Times], str] = _quantile(lambda times: times.latency, name, scale)
        fields.append(number(head, cell, unit, is_optional=name in ("p75", "p90")))
    fields += [
        number("Max", known(lambda times: times.latency.max_ns, scale), unit),
        number("Mean", known(lambda times: times.latency.mean_ns, scale), unit, is_optional=True),
    ]
    table = tabulated("Latency", every, fields, caption=caption)
    notes = ["Percentiles are read from merged histograms; none is an average of others."]
    if any(NOT_KNOWN in row for row in table.rows):
        notes.append(f"{NOT_KNOWN} too few requests: fewer than ten lie beyond this percentile.")
    if all(cell.load.get("kind") == "closed" for cell in findings.results):
        notes.append(
            "Closed loop: a client waits for its answer before it asks again, so its times are "
            "service times, and say nothing about users who arrive on their own."
        )
    return replace(table, notes=tuple(notes))


class _Times(NamedTuple):
    result: Result
    kind: str
    latency: Latency


def client_table(findings: Findings) -> Table:
    """Return the cost of the load for the client, and its disturbances."""
    of_case, caption = case_fields(findings.results)
    fields: list[Field[Result]] = [
        *of_case,
        number("CPU", known(lambda cell: cell.client.cpu_us_per_request), "µs/request"),
        number("Memory", known(lambda cell: cell.client.rss_bytes_max, 2**20), "MiB, most"),
        number("Sockets", known(lambda cell: cell.client.sockets_max), "most"),
        number("Measured", known(lambda cell: cell.duration_s), "s"),
        number("First done", known(lambda cell: cell.first_done_s), "s", is_optional=True),
        number("Last done", known(lambda cell: cell.last_done_s), "s", is_optional=True),
        *_little_and_jitter(),
    ]
    notes = (
        "CPU: time of the load's threads over all requests.",
        "Sockets: TCP sockets of the client host, in use or in TIME_WAIT.",
        "First done: the first client had no more work; last done: the last request was answered.",
        "Little's law: requests in flight against rate times time; 1 when the books agree.",
        "Hiccup: by how much a thread that sleeps for a moment woke late, p99.9 of the trial.",
        "Waited: how long the worst load thread was ready and had no core.",
    )
    return tabulated("The client", findings.results, fields, caption=caption, notes=notes)


def errors_table(findings: Findings) -> Table | None:
    """Return failed requests by kind with the first message; None when none failed."""
    rows = [(trial, line) for trial in findings.trials for line in trial.errors]
    if not rows:
        return None
    fields: list[Field[tuple[TrialFacts, str]]] = [
        word("Trial", lambda row: row[0].trial),
        word("Target", lambda row: row[0].target),
        word("Operation", lambda row: ", ".join(row[0].operations)),
        word("What failed", lambda row: row[1]),
    ]
    return tabulated("Failed requests", rows, fields)


def trials_table(findings: Findings) -> Table:
    """Return all planned trials with their states."""
    fields: list[Field[TrialFacts]] = [
        word("Trial", lambda trial: trial.trial),
        word(
            "State",
            lambda trial: trial.state if trial.reason is None else f"{trial.state}: {trial.reason}",
        ),
        word("Target", lambda trial: trial.target),
        word("Workload", lambda trial: trial.workload),
        word("Phase", lambda trial: trial.phase),
        word(
            "Parameters",
            lambda trial: ", ".join(describe_parameter(*item) for item in trial.parameters.items()),
        ),
        number("Round", lambda trial: str(trial.round)),
        number("Block", lambda trial: str(trial.block)),
        number("Length", known(lambda trial: trial.duration_s), "s"),
        number("Requests", known(lambda trial: trial.requests, show=COUNT)),
        number("Failed", known(lambda trial: trial.failed, show=COUNT)),
        *_little_and_jitter(),
        word("Labels", lambda trial: " ".join(trial.labels)),
    ]
    return tabulated("Every trial", findings.trials, fields)


def _little_and_jitter() -> list[Field[Any]]:
    return [
        number("Little", known(lambda item: item.little, show=".3f"), "ratio"),
        number("Hiccup", known(lambda item: item.jitter.hiccup_ns_p99_9, 1e6), "ms",
               is_optional=True),
        number("Waited", known(lambda item: item.jitter.run_delay_share, 0.01), "%",
               is_optional=True),
    ]  # fmt: skip


def _results(results: Sequence[Result], title: str) -> Table:
    of_case, caption = case_fields(results)
    means = [result.rate for result in results]
    fields = [*of_case, number("Requests", _marked_rate, "per s")]
    if any(mean.is_spread for mean in means):
        fields.append(number(spread_head(means), lambda result: ends_words(result.rate), "per s"))
        fields.append(number("Trials", lambda result: str(result.rate.n)))
    if any(result.bytes for result in results):
        fields.append(number("Data", _marked_data, "MiB/s"))
    fields += headline_fields(
        [result.headline for result in results], lambda result: result.headline
    )
    if any(result.instrument is not None for result in results):
        fields.append(number("Ceiling", _ceiling, "% of own"))
    fields += [
        number("Failed", _share_failed, "%"),
        word("Limited by", lambda result: limit_words(result, graded=True)),
        word("Labels", lambda result: " ".join(result.labels)),
    ]
    notes = (
        *notes_below(results),
        *_time_note(results),
        *_iteration_note(results),
        *_ceiling_notes(results),
        LIMIT_NOTE,
    )
    return tabulated(title, results, fields, caption=caption, notes=notes)


def headline_fields(
    headlines: Iterable[Latency | None], headline_of: Callable[[Item], Latency | None]
) -> list[Field[Item]]:
    """Return fields of the latency that is shown first, in one unit for all rows."""
    scale, unit = _time_unit([headline for headline in headlines if headline is not None])
    return [
        number("p50", _quantile(headline_of, "p50", scale), unit),
        number("p99", _quantile(headline_of, "p99", scale), unit),
        number(
            "Max",
            known(lambda item: getattr(headline_of(item), "max_ns", None), scale),
            unit,
            is_optional=True,
        ),
    ]


def _marked_rate(result: Result) -> str:
    mark = MARKS[result.standing]
    return f"{mark}{units.format_number(result.requests_per_s)}" if result.good else NOT_KNOWN


def _marked_data(result: Result) -> str:
    mark = MARKS[result.standing]
    rate = units.format_number(result.bytes_per_s / 2**20)
    return f"{mark}{rate}" if result.bytes else NOT_KNOWN


def _with_mixes(findings: Findings) -> list[Result]:
    """Return the results, each mix before its operations."""
    results: list[Result] = []
    left = list(findings.mixes)
    for result in findings.results:
        for mix in [mix for mix in left if set(mix.trials) <= set(result.trials)]:
            results.append(mix)
            left.remove(mix)
        results.append(result)
    return results


def _time_note(cells: Sequence[Result]) -> Iterable[str]:
    kinds = {str(cell.load.get("kind")) for cell in cells if cell.headline is not None}
    if kinds == {"open"}:
        yield "p50, p99 and Max are response times, from the moment each request was due."
    elif kinds == {"closed"}:
        yield "p50, p99 and Max are service times in a closed loop."
    elif kinds:
        yield "p50, p99 and Max are response times under open load, service times in a closed loop."


def _iteration_note(cells: Sequence[Result]) -> Iterable[str]:
    several = sorted({c.operation for c in cells if c.iteration is None and c.iterations > 1})
    if several:
        yield f"{', '.join(several)}: a trial's rate is that of all its iterations."


def case_fields(cells: Sequence[Result]) -> tuple[list[Field[Result]], str]:
    """Return how rows begin: parameters that differ; the others go into the caption."""
    fields: list[Field[Result]] = [
        word("Target", lambda cell: cell.target),
        word("Workload", lambda cell: cell.workload),
        word("Operation", operation_words),
    ]
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    for name in sorted(names, key=lambda name: name != "size"):
        head = name.removesuffix("_bytes").replace("_", " ").capitalize()
        fields.append(number(head, _parameter(name)))
    fields.append(number("Round", lambda cell: "" if cell.round is None else str(cell.round)))
    if any(cell.iteration is not None for cell in cells):
        fields.append(number("Iteration", lambda cell: str(cell.iteration)))
    shown, same = [], []
    for field in fields:
        values = {field.cell(cell) for cell in cells}
        if len(values) > 1 or field.head in ("Target", "Operation"):
            shown.append(field)
        elif values - {""}:
            same.append(f"{field.head.lower()} {values.pop()}")
    return shown, f"In all rows: {', '.join(same)}." if same else ""


def _parameter(name: str) -> Callable[[Result], str]:
    return lambda cell: describe_value(name, cell.parameters.get(name))


def _kinds(cell: Result) -> Iterable[tuple[str, Latency | None]]:
    if cell.load.get("kind") == "closed":
        # Nothing is due in a closed loop: response time would only repeat service time.
        yield "service", cell.headline
    else:
        yield "response", cell.response
        yield "service", cell.service
    yield "first byte", cell.first_byte
    yield "lag", cell.lag
    if cell.part is not None:
        failed = f", {cell.parts_failed:,} failed" if cell.parts_failed else ""
        yield f"each of {cell.part.count:,} parts{failed}", cell.part


def _time_unit(latencies: Sequence[Latency]) -> tuple[float, str]:
    """Return one unit for all times of a column."""
    middles = sorted(latency.quantiles["p50"] or latency.mean_ns for latency in latencies)
    middle = middles[len(middles) // 2] if middles else 1e6
    return (1e3, "µs") if middle < 1e6 else (1e6, "ms")


def _quantile(
    latency_of: Callable[[Item], Latency | None], name: str, scale: float
) -> Callable[[Item], str]:
    def cell(item: Item) -> str:
        latency = latency_of(item)
        if latency is not None and name in latency.at_least:
            return f"≥ {units.format_number(latency.at_least[name] / scale)}"
        value = None if latency is None else latency.quantiles[name]
        return NOT_KNOWN if value is None else units.format_number(value / scale)

    return cell


def _share_failed(cell: Result) -> str:
    if cell.failed_if_stated is None:
        return "not stated"
    return "0" if not cell.failed else units.format_number(100 * cell.failed / cell.requests)


def _ceiling(cell: Result) -> str:
    """Return the used share of the load generator's ceiling, in percent."""
    if cell.instrument is None:
        return NOT_KNOWN
    return ("~" if cell.instrument.is_extended else "") + f"{100 * cell.instrument.share:.0f}"


def _ceiling_notes(cells: Sequence[Result]) -> Iterable[str]:
    shares = [cell.instrument for cell in cells if cell.instrument is not None]
    if not shares:
        return
    bases = dict.fromkeys(share.basis for share in shares)
    words = {
        "measured": "the rate measured against a target that does nothing",
        "processor time": "what the client's cores allow at the measured cost of a request",
    }
    minutes = round(max(share.age_s for share in shares) / 60)
    age = units.format_duration(minutes * 60 * 10**9) if minutes else "less than a minute"
    yield (
        f"Ceiling: how much of its own ceiling the load generator used ("
        f"{' or '.join(words[basis] for basis in bases)}; calibrated {age} before)."
    )
    if any(share.is_extended for share in shares):
        yield "~ requests larger than any that was calibrated: the line of the last two sizes."
