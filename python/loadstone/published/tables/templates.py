"""A run's findings in the layouts of published tables."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import stdev
from typing import Any

from loadstone.analysis import Findings, TrialFacts
from loadstone.analysis.cells.cell import Deviation
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.naming import SIZES, describe_parameter, describe_parameters, describe_size
from loadstone.campaign.schema.target import SYSTEM
from loadstone.errors import InputError
from loadstone.published.tables.actions import action_rows
from loadstone.published.tables.datasafe import datasafe_table
from loadstone.published.tables.layouts import (
    COMMAS,
    POINTS,
    MeasuredRow,
    RoundsRow,
    ThreadsColumn,
    measured,
    queries_table,
    repetitions_block,
    rounds_table,
    threads_table,
)
from loadstone.report.options import Layout, Options
from loadstone.report.result_words import standing_notes
from loadstone.results.record import Run

_PLACE = re.compile(r"\{(\w+)\}")
MEGABYTES = {"MB": 10**6, "MiB": 2**20}


def hummingbird(findings: Findings, options: Options) -> str:
    """Return whole requests per second, a row per operation and round, systems as columns.

    There is a table for each workload and set of parameters. Facts of the targets that distinguish
    tables and are missing in their heads become titles.
    """
    tables = grouped(
        findings.rounds, lambda cell: (cell.workload, _without(cell.parameters, SYSTEM))
    )
    groups = list(tables.values())
    named = set(_PLACE.findall(options.head or ""))
    facts = dict.fromkeys(
        name for cells in groups for name in cells[0].facts if name not in {SYSTEM, *named}
    )
    above = [name for name in facts if len({str(cells[0].facts.get(name)) for cells in groups}) > 1]
    titled = named.union(above)
    parts = []
    for title, titled_groups in _titled(groups, above, options).items():
        parts += [f"# {title}\n"] if title else []
        for cells in titled_groups:
            # A head without placeholders names one table; further tables need distinct heads.
            is_literal = options.head is not None and (bool(named) or len(groups) == 1)
            head = (
                _filled(options, cells[0]) if is_literal else _rounds_head(cells, options, titled)
            )
            parts.append(_rounds(cells, head, findings, options))
    return "\n".join([*parts, *_notes(findings.rounds)])


def cern(findings: Findings, options: Options) -> str:
    """Return mean ± spread of files and megabytes per second against threads."""
    groups = grouped(
        findings.rounds,
        lambda cell: (
            cell.target, cell.workload, cell.phase, cell.operation, cell.round,
            _without(cell.parameters, "threads"),
        ),
    )  # fmt: skip
    planned = _planned_threads(findings)
    blocks = []
    for cells in groups.values():
        head = options.head if options.head and len(groups) == 1 else _threads_head(cells[0])
        rows = threads_table(
            [_threads_column(cells, threads, options) for threads in planned],
            COMMAS if options.decimal_comma else POINTS,
        )
        notes = "".join(f"{note}\n" for note in standing_notes(cells))
        blocks.append(f"{head}\n{_spread_line(cells, options)}\n{notes}{rows}")
    return "\n".join([*blocks, *_unmeasured(findings)])


def _unmeasured(findings: Findings) -> Iterable[str]:
    """Yield a line per target without any measurement."""
    measured_ones = {cell.target for cell in findings.rounds}
    planned = dict.fromkeys(trial.target for trial in findings.trials if trial.is_measured)
    for target in planned:
        if target not in measured_ones:
            yield f"{target}: planned, and not measured\n"


def theflash(findings: Findings, options: Options) -> str:
    """Return mean seconds of each query, arms as columns, then every time of each arm."""
    if findings.queries is None:
        raise InputError("the table theflash is one of queries, and this run has none")
    names = {
        arm.arm: " ".join(
            options.labels.get(word, word) for word in findings.queries.name_of(arm.arm).split()
        )
        for arm in findings.queries.arms
    }
    times = {
        names[arm.arm]: {query.query: query.seconds for query in arm.queries if query.by_block}
        for arm in findings.queries.arms
    }
    parts = [queries_table(times)]
    head = options.head or "{arm}"
    parts += [
        repetitions_block(head.replace("{arm}", name), cells) for name, cells in times.items()
    ]
    return "\n".join(parts)


def datasafe_charts(run: Run, findings: Findings, options: Options) -> dict[str, Any]:
    """Return the data of the charts of users' actions."""
    # Imported late, because tables do not need the charts.
    from loadstone.published.tables.charts import datasafe_data

    return datasafe_data(run, findings, options)


LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout(
            name="hummingbird",
            summary="whole requests per second, a row per operation and round, systems as columns",
            render=hummingbird,
            is_markdown=True,
        ),
        Layout(
            name="cern",
            summary="mean ± spread of files and megabytes per second against threads",
            render=cern,
        ),
        Layout(
            name="theflash",
            summary="mean seconds of each query, arms as columns, and every time of each arm below",
            render=theflash,
            is_markdown=True,
        ),
        Layout(
            name="datasafe",
            summary="users' actions as a log of statistics, rates against threads, and percentiles",
            render=datasafe_table,
            chart_data=datasafe_charts,
        ),
        Layout(
            name="actions",
            summary="every number of users' actions, a line each, and by space and type of user",
            render=action_rows,
        ),
    )
}


def find_layout(name: str) -> Layout:
    """Return a layout by its name."""
    if name not in LAYOUTS:
        raise InputError.of_value(name, f"a layout of tables: {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def _titled(
    groups: Sequence[list[Result]], above: Sequence[str], options: Options
) -> dict[str, list[list[Result]]]:
    """Group the cells of tables under their titles."""
    by_title: dict[str, list[list[Result]]] = {}
    for cells in groups:
        facts = cells[0].facts
        words = [_word(name, facts[name], options) for name in above if name in facts]
        by_title.setdefault(", ".join(words), []).append(cells)
    return by_title


def _word(name: str, value: object, options: Options) -> str:
    """Return a parameter with the campaign's label; a text value without its name."""
    titled = options.labels.get(str(value))
    return titled or (value if isinstance(value, str) else describe_parameter(name, value))


def _filled(options: Options, cell: Result) -> str:
    """Return the head cell with the values of its parameters."""

    def value_of(place: re.Match[str]) -> str:
        name = place[1]
        if name not in cell.parameters:
            known = ", ".join(cell.parameters)
            raise InputError.of_value(f"{{{name}}}", f"a parameter of the results: {known}")
        value = cell.parameters[name]
        text = describe_size(value) if name in SIZES and isinstance(value, int) else str(value)
        return options.labels.get(text, text)

    return _PLACE.sub(value_of, options.head or "")


def _rounds(cells: Sequence[Result], head: str, findings: Findings, options: Options) -> str:
    # A planned case that was not measured is a blank cell, not a missing row.
    planned = [trial for trial in findings.trials if _belongs(trial, cells[0])]
    ran = {(cell.system, cell.target) for cell in cells}
    places = {target: place for place, target in enumerate(findings.targets)}
    systems = sorted(
        ran.union((_system_of(trial), trial.target) for trial in planned),
        key=lambda key: (places.get(key[1], len(places)), key),
    )
    # A target's own title takes precedence over its system's: labels may name either.
    titles: dict[str, str] = {}
    for system, target in systems:
        titles.setdefault(system, options.labels.get(target) or options.labels.get(system, system))
    rates = {
        (cell.system, cell.phase, cell.operation, cell.round): cell.pooled_requests_per_s
        for cell in cells
    }
    rounds = {(trial.phase, trial.round) for trial in planned}
    rounds |= {(cell.phase, cell.round or 0) for cell in cells}
    rows = [
        RoundsRow(
            operation=operation,
            round=round_,
            rates=[rates.get((system, phase, operation, round_)) for system in titles],
            phase=named,
        )
        for (phase, operation), named in _phases(cells, planned).items()
        for round_ in sorted(number for key, number in rounds if key == phase)
    ]
    return rounds_table(head, list(titles.values()), rows)


def _belongs(trial: TrialFacts, cell: Result) -> bool:
    """Tell whether a planned trial belongs in the table of a cell."""
    return (
        trial.is_measured
        and trial.workload == cell.workload
        and _without(trial.parameters, SYSTEM) == _without(cell.parameters, SYSTEM)
    )


def _system_of(trial: TrialFacts) -> str:
    return str(trial.parameters.get(SYSTEM) or trial.target)


def _phases(
    cells: Sequence[Result], planned: Sequence[TrialFacts] = ()
) -> dict[tuple[str, str], str]:
    """Return phases and their operations; an operation in several phases gets the phase's name.

    A put in a mix is not comparable with a phase of puts alone.
    """
    by_title = dict.fromkeys(
        [(trial.phase, operation) for trial in planned for operation in trial.operations]
        + [(cell.phase, cell.operation) for cell in cells]
    )
    phases: dict[str, int] = {}
    for _, operation in by_title:
        phases[operation] = phases.get(operation, 0) + 1
    return {
        (phase, operation): phase if phases[operation] > 1 and phase != operation else ""
        for phase, operation in by_title
    }


def _rounds_head(cells: Sequence[Result], options: Options, titled: Collection[str]) -> str:
    parameters, size = cells[0].parameters, cells[0].size_bytes
    left_out = {"size", "threads", SYSTEM, *titled}
    others = {name: value for name, value in parameters.items() if name not in left_out}
    words = [describe_size(size)] if size is not None else [cells[0].workload]
    words += [describe_parameters(others)] if others else []
    return " ".join([*words, options.head or "Results"])


def _notes(cells: Sequence[Result]) -> Iterable[str]:
    names = _phases(cells)
    several = {
        (cell.operation, names[cell.phase, cell.operation]): cell.iterations
        for cell in cells
        if cell.iterations > 1
    }
    for (operation, phase), iterations in several.items():
        named = f" ({phase})" if phase else ""
        yield (
            f"{operation.upper()}/sec{named}: all requests of {iterations} iterations over their"
            " total time.\n"
        )
    most = max((len(cell.trials) for cell in cells), default=1)
    if most > 1:
        yield f"Rates: all requests of up to {most} trials over their total time.\n"
    failed = sum(cell.failed for cell in cells)
    if failed:
        yield f"Failed requests ({failed:,}) are not counted in any rate.\n"
    unwritten = sum(cell.unwritten for cell in cells)
    if unwritten:
        yield (
            f"Requests for objects whose put had failed ({unwritten:,}) are not counted either;"
            " they are not failures.\n"
        )
    lost_races = sum(cell.lost_races for cell in cells)
    if lost_races:
        yield f"Requests that lost a race to another write ({lost_races:,}) are not counted.\n"
    yield from (f"{note}\n" for note in standing_notes(cells))


def _threads_head(cell: Result) -> str:
    operation = cell.operation
    operation += f" ({cell.phase})" if cell.phase != cell.operation else ""
    others = {name: value for name, value in cell.parameters.items() if name != "threads"}
    words = [cell.target, operation, describe_parameters(others), f"round {cell.round}"]
    return ", ".join(word for word in words if word)


SPREADS: Mapping[str, str] = {
    "seconds": "standard deviation of the one-second rates",
    "trials": "standard deviation of the trials' rates",
}
"""The meaning of ± in this layout, by the reader's choice."""


def _spread_line(cells: Sequence[Result], options: Options) -> str:
    is_known = any(_spread(cell, options) for cell in cells)
    spread = f"mean ± {SPREADS[options.spread]}" if is_known else "± is not known"
    size = "10^6" if options.megabyte == "MB" else "2^20"
    return f"{spread}; MB = {size} bytes"


def _threads_column(cells: Sequence[Result], threads: int, options: Options) -> ThreadsColumn:
    cell = next((cell for cell in cells if (cell.clients or 0) == threads), None)
    if cell is None or not cell.good:
        return ThreadsColumn(threads=threads, files_per_s=None, megabytes_per_s=None)
    spread = _spread(cell, options)
    megabyte = MEGABYTES[options.megabyte]
    data: MeasuredRow | None = None
    if cell.bytes:
        of_bytes = spread.bytes_per_s / megabyte if spread is not None else None
        data = measured(cell.pooled_bytes_per_s / megabyte, of_bytes)
    return ThreadsColumn(
        threads=threads,
        files_per_s=measured(cell.pooled_requests_per_s, spread.requests_per_s if spread else None),
        megabytes_per_s=data,
    )


def _spread(cell: Result, options: Options) -> Deviation | None:
    if options.spread == "seconds":
        return cell.spread_of_seconds
    rates = cell.trial_rates
    if len(rates) < 2:
        return None
    return Deviation(
        n=len(rates),
        requests_per_s=stdev(rate.requests_per_s for rate in rates),
        bytes_per_s=stdev(rate.bytes_per_s for rate in rates),
    )


def _planned_threads(findings: Findings) -> list[int]:
    """Return all planned thread counts, so that missing ones appear as blanks."""
    planned = {
        threads
        for trial in findings.trials
        if trial.is_measured and isinstance(threads := trial.parameters.get("threads"), int)
    }
    return sorted(planned | {cell.clients or 0 for cell in findings.rounds})


def _without(parameters: Mapping[str, object], left_out: str) -> str:
    others = {name: value for name, value in parameters.items() if name != left_out}
    return json.dumps(others, sort_keys=True)
