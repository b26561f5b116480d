"""The tables of results, trials and times: what each column holds is stated here once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from loadstone import units
from loadstone.analysis import Findings, TrialFacts
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.naming import (
    describe_parameter,
    describe_value,
    number_in,
    varied_parameters,
)
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.campaign.schema.target import SYSTEM
from loadstone.report.result_words import (
    LIMIT_NOTE,
    NOT_KNOWN,
    MarkedNumber,
    data_of,
    ends_words,
    failed_of,
    limit_words,
    notes_below,
    operation_words,
    rate_of,
    share_words,
    spread_head,
    time_of,
)
from loadstone.report.tables.layout import (
    COUNT,
    Field,
    Item,
    Table,
    known,
    measured,
    number,
    tabulated,
    word,
)

TRIALS: Field[Result] = measured(
    "Trials", lambda result: MarkedNumber(result.rate.n), "{:.0f}".format
)
TIMES_OPTIONAL = ("p75", "p90", "max", "mean")


def results_table(findings: Findings) -> Table:
    """Return the main table: rates, data, latency, failures and labels."""
    return _results(_with_mixes(findings), "Results")


def rounds_table(findings: Findings) -> Table | None:
    """Return the results of each round; None if there is one round."""
    return _results(findings.rounds, "Each round") if findings.has_rounds else None


def iterations_table(findings: Findings) -> Table | None:
    """Return the results of each iteration; None if no phase had more than one."""
    several = [result for result in findings.rounds if result.iterations > 1]
    keys = {(result.phase, result.operation, result.workload) for result in several}
    iterations = [
        iteration
        for iteration in findings.iterations
        if (iteration.phase, iteration.operation, iteration.workload) in keys
    ]
    return _results(iterations, "Each iteration") if iterations else None


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
    names = (*QUANTILES, "max", "mean")
    fields += time_fields(names, lambda times: times.latency, units.format_number, unit, scale)
    table = tabulated("Latency", every, fields, caption=caption)
    notes = ["Percentiles are read from merged histograms, never averaged."]
    if any(NOT_KNOWN in row for row in table.rows):
        notes.append(f"{NOT_KNOWN} too few requests: fewer than ten lie beyond this percentile.")
    if all(cell.load.get("kind") == "closed" for cell in findings.results):
        notes.append(
            "Closed loop: a client waits for a response before its next request, so its times are "
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
        number("Memory", known(lambda cell: cell.client.rss_bytes_max, 2**20), "MiB, max"),
        number("Sockets", known(lambda cell: cell.client.sockets_max), "max"),
        number("Measured", known(lambda cell: cell.duration_s), "s"),
        number("First done", known(lambda cell: cell.first_done_s), "s", is_optional=True),
        number("Last done", known(lambda cell: cell.last_done_s), "s", is_optional=True),
        *_little_and_jitter(),
    ]
    notes = (
        "CPU: time of the load's threads, divided by all requests.",
        "Sockets: TCP sockets of the client host, in use or in TIME_WAIT.",
        "First done: end of the first client's work. Last done: end of the last request.",
        "Little's law: requests in flight divided by rate × time; 1 if the accounting agrees.",
        "Hiccup: how late a thread woke from short sleeps, p99.9 of the trial.",
        "Waited: how long the worst load thread was ready to run but had no core.",
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
    fields = [*of_case, measured("Requests", rate_of, unit="per s")]
    if any(result.rate.is_spread for result in results):
        fields += [spread_field(results, unit="per s"), TRIALS]
    if any(result.bytes for result in results):
        fields.append(measured("Data", data_of, unit="MiB/s", scale=2**20))
    fields += headline_fields(
        [result.headline for result in results], lambda result: result.headline
    )
    if any(result.instrument is not None for result in results):
        fields.append(number("Ceiling", _ceiling, "% of own"))
    fields += [
        measured("Failed", failed_of, unit="%", scale=0.01),
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


def spread_field(results: Sequence[Result], unit: str = "") -> Field[Result]:
    """Return the field of the ends of rates, which pages sort by their relative width."""
    return Field(
        head=spread_head(result.rate for result in results),
        cell=lambda result: ends_words(result.rate),
        value=lambda result: result.rate.relative_width,
        unit=unit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenFields:
    """The fields of results on screens and pages, in their order, with units in the cells."""

    target: Field[Result]
    operation: Field[Result]
    parameters: Sequence[Field[Result]]
    rate: Field[Result]
    spread: Field[Result]
    data: Field[Result]
    times: Sequence[Field[Result]]
    failed: Field[Result]
    trials: Field[Result]


def screen_fields(results: Sequence[Result], names: Iterable[str]) -> ScreenFields:
    """Return the fields of results with parameters of these names; of times p50, p99 and max."""
    return ScreenFields(
        target=word("Target", lambda result: result.target),
        operation=word("Operation", operation_words),
        parameters=[*map(parameter_field, names)],
        rate=measured("Rate", rate_of, units.format_rate),
        spread=spread_field(results),
        data=measured("Data", data_of, units.format_byte_rate),
        times=time_fields(("p50", "p99", "max"), lambda result: result.headline),
        failed=measured("Failed", failed_of, share_words),
        trials=TRIALS,
    )


def varied_names(results: Sequence[Result]) -> list[str]:
    """Return the parameters that differ; the targets say which system it is."""
    varied = varied_parameters(result.parameters for result in results)
    return [name for name in varied if name != SYSTEM]


def parameter_field(name: str) -> Field[Result]:
    """Return the field of a parameter; an offered rate is beside the achieved one."""
    words = name.removesuffix("_bytes").replace("_", " ").capitalize()
    return Field(
        head="Offered" if name == "rate" else words,
        cell=lambda result: describe_value(name, result.parameters.get(name)),
        value=lambda result: number_in(result.parameters.get(name)),
    )


def headline_fields(
    headlines: Iterable[Latency | None], headline_of: Callable[[Item], Latency | None]
) -> list[Field[Item]]:
    """Return fields of the latency that is shown first, in one unit for all rows."""
    scale, unit = _time_unit([headline for headline in headlines if headline is not None])
    return time_fields(("p50", "p99", "max"), headline_of, units.format_number, unit, scale)


def time_fields(
    names: Iterable[str],
    latency_of: Callable[[Item], Latency | None],
    words: Callable[[float], str] = units.format_duration,
    unit: str = "",
    scale: float = 1,
) -> list[Field[Item]]:
    """Return fields of quantiles, and of "max" and "mean"."""

    def field(name: str) -> Field[Item]:
        return measured(
            name.replace("_", ".") if name in QUANTILES else name.capitalize(),
            lambda item: time_of(latency_of(item), name),
            words,
            unit,
            scale=scale,
            is_optional=name in TIMES_OPTIONAL,
        )

    return [field(name) for name in names]


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
    fields += map(parameter_field, sorted(names, key=lambda name: name != "size"))
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
        yield "~ requests larger than any calibrated size: extrapolated from the two largest sizes."
