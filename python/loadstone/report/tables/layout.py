"""The tables of all readable reports: columns, units and words.

A table is plain text in cells, which reports draw.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.instrument.headroom import Jitter
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


def texts(*heads: str) -> tuple[Column, ...]:
    """Return columns of words."""
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


LITTLE_AND_JITTER = (
    Column(head="Little", unit="ratio"),
    Column(head="Hiccup", unit="ms", is_optional=True),
    Column(head="Waited", unit="%", is_optional=True),
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
    latencies = [
        (cell, kind, latency)
        for cell in findings.results
        for kind, latency in _kinds(cell)
        if latency is not None
    ]
    if not latencies:
        return None
    scale, unit = _time_unit([latency for _, _, latency in latencies])
    names, name_columns, caption = _case_columns(findings.results)
    rows = []
    for cell, kind, latency in latencies:
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
    closed = all(cell.load.get("kind") == "closed" for cell in findings.results)
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
    """Return the cost of the load for the client, and its disturbances."""
    names, name_columns, caption = _case_columns(findings.results)
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
        for cell in findings.results
    ]
    columns = (
        *name_columns,
        *numbers(
            ("CPU", "µs/request"), ("Memory", "MiB, most"), ("Sockets", "most"), ("Measured", "s")
        ),
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
    """Return all planned trials with their states."""
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
        *texts(*left),
        *numbers("Round", "Block", ("Length", "s"), "Requests", "Failed"),
        *LITTLE_AND_JITTER,
        Column(head="Labels", align="left"),
    )
    return Table(title="Every trial", columns=columns, rows=tuple(rows))


def _results(results: Sequence[Result], title: str) -> Table:
    names, name_columns, caption = _case_columns(results)
    latencies = [result.headline for result in results if result.headline is not None]
    scale, unit = _time_unit(latencies)
    has_data = any(result.bytes for result in results)
    means = [result.rate for result in results]
    is_repeated = any(mean.is_spread for mean in means)
    has_ceilings = any(result.instrument is not None for result in results)
    rows = []
    for result in results:
        mark = MARKS[result.standing]
        row = [
            *names(result),
            f"{mark}{_number(result.requests_per_s)}" if result.good else NOT_KNOWN,
        ]
        row += [ends_words(result.rate), str(result.rate.n)] if is_repeated else []
        data = f"{mark}{_number(result.bytes_per_s / 2**20)}" if result.bytes else NOT_KNOWN
        row += [data] * has_data
        row += [_headline(result.headline, name, scale) for name in ("p50", "p99")]
        row.append(
            NOT_KNOWN if result.headline is None else _number(result.headline.max_ns / scale)
        )
        row += [ceiling_cell(result, NOT_KNOWN)] * has_ceilings
        row += [_share_failed(result), limit_words(result, graded=True), " ".join(result.labels)]
        rows.append(tuple(row))
    columns = [*name_columns, Column(head="Requests", unit="per s")]
    if is_repeated:
        columns += [Column(head=spread_head(means), unit="per s"), Column(head="Trials")]
    columns += [Column(head="Data", unit="MiB/s")] * has_data
    columns += [
        Column(head=head, unit=unit, is_optional=head == "Max") for head in ("p50", "p99", "Max")
    ]
    columns += [Column(head="Ceiling", unit="% of own")] * has_ceilings
    columns.append(Column(head="Failed", unit="%"))
    columns += [Column(head=head, align="left") for head in ("Limited by", "Labels")]
    return Table(
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        caption=caption,
        notes=(
            *notes_below(results),
            *_time_note(results),
            *_iteration_note(results),
            *ceiling_notes(results),
            LIMIT_NOTE,
        ),
    )


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


def _case_columns(
    cells: Sequence[Result],
) -> tuple[Callable[[Result], list[str]], list[Column], str]:
    """Return how rows begin: parameters that differ; the others go into the caption."""
    parts: list[tuple[str, Callable[[Result], str], Align]] = [
        ("Target", lambda cell: cell.target, "left"),
        ("Workload", lambda cell: cell.workload, "left"),
        ("Operation", operation_words, "left"),
    ]
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    for name in sorted(names, key=lambda name: name != "size"):
        head = name.removesuffix("_bytes").replace("_", " ").capitalize()
        parts.append((head, _parameter(name), "right"))
    parts.append(("Round", lambda cell: "" if cell.round is None else str(cell.round), "right"))
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


def _headline(latency: Latency | None, name: str, scale: float) -> str:
    return NOT_KNOWN if latency is None else _quantile(latency, name, scale)


def _quantile(latency: Latency, name: str, scale: float) -> str:
    if name in latency.at_least:
        return f"≥ {_number(latency.at_least[name] / scale)}"
    value = latency.quantiles[name]
    return NOT_KNOWN if value is None else _number(value / scale)


def _number(value: float) -> str:
    return units.format_number(value)


def _optional(value: float | None, scale: float = 1) -> str:
    return NOT_KNOWN if value is None else _number(value / scale)


def _share_failed(cell: Result) -> str:
    if cell.failed_if_stated is None:
        return "not stated"
    return "0" if not cell.failed else _number(100 * cell.failed / cell.requests)


JITTER_NOTES = (
    "Hiccup: by how much a thread that sleeps for a moment woke late, p99.9 of the trial.",
    "Waited: how long the worst load thread was ready and had no core.",
)


def ceiling_cell(cell: Result, not_known: str) -> str:
    """Return the used share of the load generator's ceiling, in percent."""
    if cell.instrument is None:
        return not_known
    return ("~" if cell.instrument.is_extended else "") + f"{100 * cell.instrument.share:.0f}"


def ceiling_notes(cells: Sequence[Result]) -> Iterable[str]:
    """Explain the column of ceilings."""
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


def jitter_cells(jitter: Jitter, not_known: str) -> tuple[str, str]:
    """Return the hiccups in milliseconds, and the wait for a core in percent."""
    hiccup_ns, delay = jitter.hiccup_ns_p99_9, jitter.run_delay_share
    return (
        not_known if hiccup_ns is None else units.format_number(hiccup_ns / 1e6),
        not_known if delay is None else units.format_number(100 * delay),
    )
