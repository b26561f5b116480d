"""A run's actions in the layout of a published long run: its log, rates and percentiles.

The published rate is `n · 1000 / Σ duration` of one kind of action in milliseconds: that of a
thread that does nothing else. It is shown next to completions by wall time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ActionCell
from loadstone.analysis.naming import describe_parameters
from loadstone.errors import InputError
from loadstone.published.tables.layouts import (
    ActionLog,
    ActionStatistics,
    rates_table,
    statistics_log,
)
from loadstone.report.options import Options
from loadstone.report.result_words import standing_notes

LOGGED = ("WRITE", "SHARE", "LIST", "DELETE", "CREATE_USER", "READ")
"""In the order of the log."""

TABLED = ("WRITE", "SHARE", "LIST", "DELETE", "READ")
"""In the order of the table of rates."""

QUANTILES = ("50", "99", "90", "75", "95")
"""In the order of the log."""

BOXES = ("50", "75", "90", "95", "99")
LOGGER = "de.adorsys.datasafe.business.impl.e2e.randomactions.RandomActionsOn{}Test"
ONE_BUCKET, BUCKETS = "Datasafe", "MultiBucket"
OF_LOAD = ("threads", "size")
NAMED_SIZES = {100 * 1024: "100kb", 1024 * 1024: "1mb", 10 * 1024 * 1024: "10mb"}

ALONE = "CREATE_USER"
"""Actions that one client runs alone, before all others."""

MADE_ALONE = (
    "CREATE_USER: users are created one by one, before all other actions; the factor is 1, and the"
    " wall time runs from the start of the first to the end of the last. The published tables of"
    " rates do not contain this action."
)
FORMULA = (
    "Rates above: n · 1000 / Σ duration in milliseconds, for each thread; × threads in the tables."
    " This is the rate of a thread that does nothing else: the rates of several actions do not add"
    " up to the rate of the store."
)


def datasafe_table(findings: Findings, options: Options) -> str:
    """Return the log, the tables of rates, the percentiles, and both rates.

    Further parameters besides threads and size get separate sections. Percentiles of too few
    actions are left out of the log, and blank in the table.
    """
    if not findings.actions:
        raise InputError(
            "the table datasafe is one of users' actions, and this run has none",
            "run a campaign with a script, such as examples/datasafe.yaml",
        )
    ended = _ends(findings)
    groups = _groups(findings.actions)
    parts = []
    for title, actions in groups.items():
        loads = _loads(actions)
        parts += [f"# {title}\n"] if title else []
        parts.append(_log(actions, loads, ended, options))
        parts += [
            _rates(name, loads) for name in TABLED if any(name in load for load in loads.values())
        ]
        parts.append(_boxes(loads))
        parts.append(_both_rates(loads))
        notes = standing_notes([action.cell for action in actions])
        parts += [f"{note}\n" for note in notes]
    return "\n".join(parts)


_Load = tuple[int, int]
_Loads = Mapping[_Load, Mapping[str, ActionCell]]


def _groups(actions: Sequence[ActionCell]) -> dict[str, list[ActionCell]]:
    """Return the actions of each log by its title."""
    targets = len({action.cell.target for action in actions}) > 1
    workloads = len({(action.cell.workload, action.cell.phase) for action in actions}) > 1
    rounds = len({action.cell.round for action in actions}) > 1
    groups: dict[str, list[ActionCell]] = {}
    for action in actions:
        cell = action.cell
        others = {name: value for name, value in cell.parameters.items() if name not in OF_LOAD}
        words = [cell.target] if targets else []
        words += [f"{cell.workload} {cell.phase}"] if workloads else []
        words += [describe_parameters(others)] + ([f"round {cell.round}"] if rounds else [])
        groups.setdefault(", ".join(word for word in words if word), []).append(action)
    return groups


def _loads(actions: Sequence[ActionCell]) -> _Loads:
    loads: dict[_Load, dict[str, ActionCell]] = {}
    for action in actions:
        loads.setdefault(load_of(action), {})[action.action] = action
    return dict(sorted(loads.items()))


def load_of(action: ActionCell) -> tuple[int, int]:
    """Return an action's threads and size; raise InputError if they are not whole numbers."""
    threads, size = action.cell.clients, action.cell.size_bytes
    if threads is None or size is None:
        size_value = action.cell.parameters.get("size")
        raise InputError(
            f"the table datasafe needs whole threads and sizes, found {json.dumps(str(size_value))}"
            f" under {json.dumps(str(threads))} threads",
            "sweep both: sweep: {threads: [2], size: [100KiB]}",
        )
    return threads, size


def busy_rate(action: ActionCell, threads: int) -> float:
    """Return the published rate of all threads, as if each did nothing else."""
    return threads * (action.busy_per_s or 0.0)


def _ends(findings: Findings) -> Mapping[str, str]:
    """Return the end of each trial as the log prints it (UTC)."""
    ends = {}
    for fact in findings.trials:
        at_s = (fact.started_unix_ns or 0) / 1e9 + (fact.duration_s or 0)
        moment = datetime.fromtimestamp(at_s, UTC)
        ends[fact.trial] = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
    return ends


def _log(
    actions: Sequence[ActionCell], loads: _Loads, ended: Mapping[str, str], options: Options
) -> str:
    first = actions[0].cell
    buckets = first.parameters.get("buckets", 1)
    logger = LOGGER.format(ONE_BUCKET if buckets == 1 else BUCKETS)
    provider = options.labels.get(first.target, first.target).upper()
    provider = "".join(letter if letter.isalnum() else "_" for letter in provider)
    logs = []
    for (threads, size), by_action in loads.items():
        # The last of several starts: their histograms are added up, so they form one block.
        time = ended[next(iter(by_action.values())).cell.trials[-1]]
        logs.append(
            ActionLog(
                time=time,
                provider=provider,
                threads=threads,
                size_kib=round(size / 1024),
                actions=[
                    ActionStatistics(
                        time=time,
                        action=name,
                        quantiles=_quantiles(by_action[name]),
                        rate_per_thread=java_double(by_action[name].busy_per_s or 0.0),
                    )
                    for name in LOGGED
                    if name in by_action
                ],
            )
        )
    return statistics_log(logs, logger)


def _quantiles(action: ActionCell) -> dict[str, str]:
    size_value = {name: _milliseconds(action, name) for name in QUANTILES}
    return {name: java_double(value) for name, value in size_value.items() if value is not None}


def _milliseconds(action: ActionCell, name: str) -> float | None:
    service = action.cell.service
    value = None if service is None else service.quantiles[f"p{name}"]
    return None if value is None else value / 1e6


def _rates(action: str, loads: _Loads) -> str:
    """Return the rates of one action, with a column per size."""
    sizes = sorted({size for _, size in loads})
    rows: dict[int, list[str]] = {}
    for threads in dict.fromkeys(threads for threads, _ in loads):
        cells = [loads.get((threads, size), {}).get(action) for size in sizes]
        rows[threads] = [
            "" if cell is None or not cell.busy_per_s else java_double(busy_rate(cell, threads))
            for cell in cells
        ]
    return rates_table(action, [_size_name(size) for size in sizes], rows).removesuffix("\n")


def _size_name(size: int) -> str:
    return NAMED_SIZES.get(size, f"{size / 1024:g}kb")


def _boxes(loads: _Loads) -> str:
    """Return the percentiles of each action and load, tab separated."""
    lines = ["\nPercentiles in milliseconds; blank where there are too few actions"]
    lines.append("\t".join(["Action", "Threads", "Size", "Count", *BOXES]))
    for (threads, size), actions in loads.items():
        for name in LOGGED:
            if name in actions:
                values = [_milliseconds(actions[name], quantile) for quantile in BOXES]
                cells = ["" if value is None else f"{value:.4g}" for value in values]
                count = str(actions[name].cell.good)
                lines.append("\t".join([name, str(threads), _size_name(size), count, *cells]))
    return "\n".join(lines) + "\n"


def _both_rates(loads: _Loads) -> str:
    lines = ["Both rates in 1/s: by the sum of durations × clients, and by wall time"]
    lines.append("\t".join(["Action", "Threads", "Size", "Durations", "Completed", "Factor"]))
    factors = []
    for load, actions, name in _completed(loads):
        by_sum, completed = (
            busy_rate(actions, 1 if name == ALONE else load[0]),
            actions.completed_per_s,
        )
        assert completed, "these alone are yielded"
        if name != ALONE:
            factors.append(by_sum / completed)
        cells = [f"{by_sum:.4g}", f"{completed:.4g}", f"{by_sum / completed:.3g}"]
        lines.append("\t".join([name, str(load[0]), _size_name(load[1]), *cells]))
    lines.append(FORMULA)
    if any(ALONE in load for load in loads.values()):
        lines.append(MADE_ALONE)
    if factors:
        low, high = min(factors), max(factors)
        lines.append(
            f"Rates by the sum of durations are {units.format_number(low)} to"
            f" {units.format_number(high)} times those by wall time, because a thread spends only"
            " part of its time on each action."
        )
    return "\n".join(lines) + "\n"


def _completed(loads: _Loads) -> Iterator[tuple[_Load, ActionCell, str]]:
    for load, actions in loads.items():
        for name in LOGGED:
            if name in actions and actions[name].completed_per_s:
                yield load, actions[name], name


def java_double(value: float) -> str:
    """Return a number as Java's `Double.toString`: 35.0, 0.001, 8.4E-4, 1.2E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    power = int(f"{value:e}".partition("e")[2])
    # The shortest digits that parse back to this number, with the point after the first.
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"
