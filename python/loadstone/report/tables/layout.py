"""The tables that every readable report shows: which columns, in which unit, with which words.

A table here is plain text in cells. How it is drawn is the business of each report.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.naming import describe_parameter, describe_size
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.report.instrument_words import (
    JITTER_NOTES,
    bound_sign,
    ceiling_cell,
    ceiling_notes,
    jitter_cells,
)
from loadstone.report.options import Options
from loadstone.report.verdict_words import LIMIT_NOTES, limit_cell

Align = Literal["left", "right"]

NOT_KNOWN = "–"
INTERVAL_NOTE = (
    "Rates are all requests over all time of a case's trials; 95 % CI: of the geometric mean of its"
    " trials (Student's t on logarithms). Where trials are of several days it is one over the days'"
    " means."
)
QUANTILE_HEADS = {name: name.replace("_", ".") for name in QUANTILES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its head, the unit of all its cells, and the side they line up on.

    An optional column may be left out where there is no room for it.
    """

    head: str
    unit: str = ""
    align: Align = "right"
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as text; `caption` holds what is the same in all rows, `notes` what signs mean."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()


LITTLE_AND_JITTER = (
    Column(head="Little", unit="ratio"),
    Column(head="Hiccup", unit="ms", is_optional=True),
    Column(head="Waited", unit="%", is_optional=True),
)


def results_table(findings: Findings, options: Options) -> Table:
    """Return the first table a reader sees: rates, data, latency, failures and labels."""
    cells = _with_mixes(findings)
    return _results(cells, cells, options, "Results", findings)


def iterations_table(findings: Findings, options: Options) -> Table | None:
    """Return the same for each iteration; None when no phase had more than one."""
    several = [total for total in findings.totals if total.iterations > 1]
    keys = {(total.phase, total.operation, total.workload) for total in several}
    cells = [cell for cell in findings.cells if (cell.phase, cell.operation, cell.workload) in keys]
    if not cells:
        return None
    return _results(cells, cells, options, "Each iteration by itself", None)


def latency_table(findings: Findings) -> Table | None:
    """Return every percentile of every kind of latency; None when no time was recorded."""
    found = [
        (cell, kind, latency)
        for cell in findings.totals
        for kind, latency in _kinds(cell)
        if latency is not None
    ]
    if not found:
        return None
    scale, unit = _time_unit([latency for _, _, latency in found])
    names, name_columns, caption = _case_columns(findings.totals)
    rows = []
    for cell, kind, latency in found:
        row = [*names(cell), kind]
        row += [_quantile(latency, name, scale) for name in QUANTILES]
        row += [_number(latency.max_ns / scale), _number(latency.mean_ns / scale)]
        rows.append(tuple(row))
    columns = [*name_columns, Column(head="Time", align="left")]
    columns += [
        Column(head=head, unit=unit, is_optional=head in ("p75", "p90"))
        for head in QUANTILE_HEADS.values()
    ]
    columns += [Column(head="Max", unit=unit), Column(head="Mean", unit=unit, is_optional=True)]
    notes = ["Percentiles are read from merged histograms; none is an average of others."]
    if any(NOT_KNOWN in row for row in rows):
        notes.append(f"{NOT_KNOWN} too few requests: fewer than ten lie beyond this percentile.")
    closed = all(cell.load.get("kind") == "closed" for cell in findings.totals)
    if closed:
        notes.append(
            "Closed loop: a client waits for its answer before it asks again, so its times are "
            "service times, and say nothing about users who arrive on their own."
        )
    return Table(
        title="Latency",
        columns=tuple(columns),
        rows=tuple(rows),
        caption=caption,
        notes=tuple(notes),
    )


def client_table(findings: Findings) -> Table:
    """Return what the load cost the client, how evenly its clients ended, and what disturbed it."""
    names, name_columns, caption = _case_columns(findings.totals)
    rows = [
        (
            *names(cell),
            _optional(cell.client.cpu_us_per_request),
            _optional(cell.client.rss_bytes_max, 2**20),
            _optional(cell.client.sockets_max),
            _optional(cell.duration_s),
            _optional(cell.first_done_s),
            _optional(cell.last_done_s),
            NOT_KNOWN if cell.little is None else f"{cell.little:.3f}",
            *jitter_cells(cell.jitter, NOT_KNOWN),
        )
        for cell in findings.totals
    ]
    columns = (
        *name_columns,
        Column(head="CPU", unit="µs/request"),
        Column(head="Memory", unit="MiB, most"),
        Column(head="Sockets", unit="most"),
        Column(head="Measured", unit="s"),
        Column(head="First done", unit="s", is_optional=True),
        Column(head="Last done", unit="s", is_optional=True),
        *LITTLE_AND_JITTER,
    )
    notes = (
        "CPU: time of the load's threads over all requests.",
        "Sockets: TCP sockets of the client host, in use or in TIME_WAIT.",
        "First done: the first client had no more work; last done: the last request was answered.",
        "Little's law: requests in flight against rate times time; 1 when the books agree.",
        *JITTER_NOTES,
    )
    return Table(
        title="The client", columns=columns, rows=tuple(rows), caption=caption, notes=notes
    )


def errors_table(findings: Findings) -> Table | None:
    """Return failed requests by kind with the first message; None when none failed."""
    rows = [
        (trial.trial, trial.target, ", ".join(trial.operations), line)
        for trial in findings.trials
        for line in trial.errors
    ]
    if not rows:
        return None
    columns = tuple(
        Column(head=head, align="left") for head in ("Trial", "Target", "Operation", "What failed")
    )
    return Table(title="Failed requests", columns=columns, rows=tuple(rows))


def trials_table(findings: Findings) -> Table:
    """Return every planned trial and what became of it."""
    rows = [
        (
            trial.trial,
            trial.state if trial.reason is None else f"{trial.state}: {trial.reason}",
            trial.target,
            trial.workload,
            trial.phase,
            ", ".join(describe_parameter(*item) for item in trial.parameters.items()),
            str(trial.round),
            str(trial.block),
            _optional(trial.duration_s),
            NOT_KNOWN if trial.requests is None else units.format_count(trial.requests),
            NOT_KNOWN if trial.failed is None else units.format_count(trial.failed),
            NOT_KNOWN if trial.little is None else f"{trial.little:.3f}",
            *jitter_cells(trial.jitter, NOT_KNOWN),
            " ".join(trial.labels),
        )
        for trial in findings.trials
    ]
    left = ("Trial", "State", "Target", "Workload", "Phase", "Parameters")
    columns = (
        *(Column(head=head, align="left") for head in left),
        Column(head="Round"),
        Column(head="Block"),
        Column(head="Length", unit="s"),
        Column(head="Requests"),
        Column(head="Failed"),
        *LITTLE_AND_JITTER,
        Column(head="Labels", align="left"),
    )
    return Table(title="Every trial", columns=columns, rows=tuple(rows))


def _results(
    cells: Sequence[Cell],
    all_cells: Sequence[Cell],
    options: Options,
    title: str,
    findings: Findings | None,
) -> Table:
    names, name_columns, caption = _case_columns(all_cells)
    latencies = [cell.headline for cell in cells if cell.headline is not None]
    scale, unit = _time_unit(latencies)
    has_data = any(cell.bytes for cell in cells)
    has_intervals = any(len(cell.trial_rates) > 1 for cell in cells)
    has_ceilings = any(cell.instrument is not None for cell in all_cells)
    rows = []
    for cell in cells:
        spread = cell.spread_of_trials if options.spread == "trials" else cell.spread_of_seconds
        sign = bound_sign(cell)
        row = [*names(cell), sign + _number(cell.requests_per_s)]
        row.append(NOT_KNOWN if spread is None else f"± {_number(spread.requests_per_s)}")
        row += [_interval(cell)] * has_intervals
        data = sign + _number(cell.bytes_per_s / 2**20) if cell.bytes else NOT_KNOWN
        row += [data] * has_data
        row += [_headline(cell.headline, name, scale) for name in ("p50", "p99")]
        row.append(NOT_KNOWN if cell.headline is None else _number(cell.headline.max_ns / scale))
        row += [ceiling_cell(cell, NOT_KNOWN)] * has_ceilings
        row.append(_share_failed(cell))
        row += [limit_cell(findings.verdict_of(cell), NOT_KNOWN)] if findings is not None else []
        row.append(" ".join(cell.labels))
        rows.append(tuple(row))
    columns = [*name_columns, Column(head="Requests", unit="per s")]
    columns += [Column(head="±", unit="per s", is_optional=True)]
    columns += [Column(head="95 % CI", unit="per s")] * has_intervals
    columns += [Column(head="Data", unit="MiB/s")] * has_data
    columns += [
        Column(head=head, unit=unit, is_optional=head == "Max") for head in ("p50", "p99", "Max")
    ]
    columns += [Column(head="Ceiling", unit="% of own")] * has_ceilings
    columns.append(Column(head="Failed", unit="%"))
    columns += [Column(head="Limit", align="left")] if findings is not None else []
    columns.append(Column(head="Labels", align="left"))
    return Table(
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        caption=caption,
        notes=(
            _spread_note(options),
            *((INTERVAL_NOTE,) if has_intervals else ()),
            *_time_note(cells),
            *_iteration_note(cells),
            *ceiling_notes(cells),
            *(LIMIT_NOTES if findings is not None else ()),
        ),
    )


def _interval(cell: Cell) -> str:
    """Return the interval of a cell's rate over its trials."""
    found = cell.interval
    if found is None or found.low is None or found.high is None:
        return NOT_KNOWN
    return f"{_number(found.low)} to {_number(found.high)}"


def _with_mixes(findings: Findings) -> list[Cell]:
    """Return the totals, each mix before the operations it is made of."""
    cells: list[Cell] = []
    left = list(findings.mixes)
    for cell in findings.totals:
        for mix in [mix for mix in left if mix.trials == cell.trials]:
            cells.append(mix)
            left.remove(mix)
        cells.append(cell)
    return cells


def _spread_note(options: Options) -> str:
    if options.spread == "trials":
        return "± is the standard deviation of the trials' rates."
    return "± is the standard deviation of the one-second rates, not an interval of confidence."


def _time_note(cells: Sequence[Cell]) -> Iterable[str]:
    kinds = {str(cell.load.get("kind")) for cell in cells if cell.headline is not None}
    if kinds == {"open"}:
        yield "p50, p99 and Max are response times, from the moment each request was due."
    elif kinds == {"closed"}:
        yield "p50, p99 and Max are service times in a closed loop."
    elif kinds:
        yield "p50, p99 and Max are response times under open load, service times in a closed loop."


def _iteration_note(cells: Sequence[Cell]) -> Iterable[str]:
    several = sorted({c.operation for c in cells if c.iteration is None and c.iterations > 1})
    if several:
        yield f"{', '.join(several)}: all requests of all iterations over their total time."


def _case_columns(
    cells: Sequence[Cell],
) -> tuple[Callable[[Cell], list[str]], list[Column], str]:
    """Return how a row begins: only what differs between rows; the rest goes into the caption."""
    parts: list[tuple[str, Callable[[Cell], str], Align]] = [
        ("Target", lambda cell: cell.target, "left"),
        ("Workload", lambda cell: cell.workload, "left"),
        ("Operation", lambda cell: _operation(cell), "left"),
    ]
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    for name in sorted(names, key=lambda name: name != "size"):
        head = name.removesuffix("_bytes").replace("_", " ").capitalize()
        parts.append((head, lambda cell, name=name: _parameter(cell, name), "right"))  # type: ignore[misc]
    parts.append(("Round", lambda cell: str(cell.round), "right"))
    if any(cell.iteration is not None for cell in cells):
        parts.append(("Iteration", lambda cell: str(cell.iteration), "right"))
    shown, same = [], []
    for head, text_of, align in parts:
        values = {text_of(cell) for cell in cells}
        if len(values) > 1 or head in ("Target", "Operation"):
            shown.append((head, text_of, align))
        elif values - {""}:
            same.append((head, values.pop()))
    columns = [Column(head=head, align=align) for head, _, align in shown]
    caption = ", ".join(f"{head.lower()} {value}" for head, value in same)
    return (
        lambda cell: [text_of(cell) for _, text_of, _ in shown],
        columns,
        f"In all rows: {caption}." if caption else "",
    )


def _operation(cell: Cell) -> str:
    if cell.operation == cell.phase:
        return cell.operation
    return f"{cell.operation} ({cell.phase})"


def _parameter(cell: Cell, name: str) -> str:
    value = cell.parameters.get(name)
    if value is None:
        return ""
    is_size = isinstance(value, int) and (name == "size" or name.endswith("_bytes"))
    if isinstance(value, float):
        return f"{value:,g}"
    return describe_size(int(str(value))) if is_size else str(value)


def _kinds(cell: Cell) -> Iterable[tuple[str, Latency | None]]:
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
    """Return one unit for a whole column, so that its numbers can be compared at a glance."""
    middles = sorted(latency.quantiles["p50"] or latency.mean_ns for latency in latencies)
    middle = middles[len(middles) // 2] if middles else 1e6
    return (1e3, "µs") if middle < 1e6 else (1e6, "ms")


def _headline(latency: Latency | None, name: str, scale: float) -> str:
    return NOT_KNOWN if latency is None else _quantile(latency, name, scale)


def quantile_cell(latency: Latency | None, name: str) -> str:
    """Return a quantile with its unit, as a bound where only that is known."""
    if latency is None:
        return NOT_KNOWN
    if name in latency.at_least:
        return f"≥ {units.format_duration(latency.at_least[name])}"
    value = latency.quantiles[name]
    return NOT_KNOWN if value is None else units.format_duration(value)


def _quantile(latency: Latency, name: str, scale: float) -> str:
    if name in latency.at_least:
        return f"≥ {_number(latency.at_least[name] / scale)}"
    value = latency.quantiles[name]
    return NOT_KNOWN if value is None else _number(value / scale)


def _number(value: float) -> str:
    return units.format_number(value)


def _optional(value: float | None, scale: float = 1) -> str:
    return NOT_KNOWN if value is None else _number(value / scale)


def _share_failed(cell: Cell) -> str:
    if cell.failed_if_stated is None:
        return "not stated"
    return "0" if not cell.failed else _number(100 * cell.failed / cell.requests)
