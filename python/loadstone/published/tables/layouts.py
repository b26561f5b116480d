"""Formats numbers in the layouts of published reports.

`rounds_table` is the layout of rounds by system (integers, one row per operation and round),
`threads_table` the layout of rates against threads (mean ± spread, tab separated, blocks of six).
Neither depends on runs, so they format both published and measured numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from statistics import fmean

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
"""Ordinal words of the layout of rounds; from the tenth on digits are used."""

ROUNDS_HEAD_WIDTH = 23
COLUMNS_PER_BLOCK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsRow:
    """One operation in one round: a rate per system, None if it was not measured.

    `phase` distinguishes several phases with the same operation; None for a single one.
    """

    operation: str
    round: int
    rates: Sequence[float | None]
    phase: str = ""


def rounds_table(head: str, systems: Sequence[str], rows: Sequence[RoundsRow]) -> str:
    """Return a Markdown table of whole requests per second, systems in columns.

    `head` is printed unchanged. A rate is rounded to the nearest integer; an absent one leaves its
    cell blank.
    """
    assert all(len(row.rates) == len(systems) for row in rows), "one rate per system"
    lines = [[head, *systems]]
    for row in rows:
        phase = f" ({row.phase})" if row.phase else ""
        label = f"{row.operation.upper()}/sec{phase} {ordinal(row.round)} round"
        lines.append([label, *("" if rate is None else f"{rate:.0f}" for rate in row.rates)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(systems) + 1)]
    widths[0] = max(widths[0], ROUNDS_HEAD_WIDTH)
    text = [_padded(line, widths) for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text) + "\n"


def ordinal(number: int) -> str:
    """Return "first" for 1, up to "ninth"; then "10th" and so on."""
    return ORDINALS[number - 1] if 1 <= number <= len(ORDINALS) else f"{number}th"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A mean and its spread, each with its displayed digits.

    `mark` overrides the decimal mark of this mean.
    """

    mean: Decimal
    spread: Decimal | None
    mark: str | None = None


def measured(mean: float, spread: float | None, digits: int = 2) -> MeasuredRow:
    """Return a mean and a spread rounded to `digits` significant digits of the spread.

    The mean has the same last digit as the spread, since further digits are not significant.
    Without a spread, or with zero, the mean has three significant digits.
    """
    if spread is None or not math.isfinite(spread) or spread <= 0:
        shown = Decimal(0) if spread == 0 else None
        return MeasuredRow(mean=_significant(mean, 3), spread=shown)
    rounded = _significant(spread, digits)
    return MeasuredRow(mean=Decimal(repr(mean)), spread=rounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsColumn:
    """Measurements at one number of threads; None for missing ones."""

    threads: int
    files_per_s: MeasuredRow | None
    megabytes_per_s: MeasuredRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalMarks:
    """Decimal marks of means of files, of means of megabytes, and of spreads."""

    files: str = "."
    megabytes: str = "."
    spread: str = "."


POINTS = DecimalMarks()
COMMAS = DecimalMarks(files=",", megabytes=",", spread=",")


def threads_table(columns: Sequence[ThreadsColumn], marks: DecimalMarks = POINTS) -> str:
    """Return tab-separated blocks of six thread counts, with files and megabytes per second.

    A cell is `mean ± spread`; blank if nothing was measured.
    """
    lines = []
    for start in range(0, len(columns), COLUMNS_PER_BLOCK):
        block = columns[start : start + COLUMNS_PER_BLOCK]
        files = [format_measured(c.files_per_s, marks.files, marks.spread) for c in block]
        megabytes = [
            format_measured(c.megabytes_per_s, marks.megabytes, marks.spread) for c in block
        ]
        lines.append("\t".join(["Threads", *(str(column.threads) for column in block)]))
        lines.append("\t".join(["Files/Sec", *files]))
        lines.append("\t".join(["MB/Sec", *megabytes]))
    return "\n".join(lines) + "\n"


def format_measured(value: MeasuredRow | None, mark: str = ".", spread_mark: str = ".") -> str:
    """Return "42.9 ± 8.7", the mean without trailing zeros; empty if not measured."""
    if value is None:
        return ""
    mean = value.mean
    if value.spread:
        last = Decimal(1).scaleb(int(value.spread.as_tuple().exponent))
        mean = mean.quantize(last, rounding=ROUND_HALF_EVEN)
    text = _without_end_zeros(mean).replace(".", value.mark or mark)
    if value.spread is None:
        return text
    spread = format(value.spread, "f").replace(".", spread_mark)
    return f"{text} ± {spread}"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"


def _significant(value: float, digits: int) -> Decimal:
    """Return a number rounded to `digits` significant digits, but at most to a whole number."""
    if value == 0 or not math.isfinite(value):
        return Decimal(0)
    rounded = Decimal(f"{value:.{digits - 1}e}")
    exponent = min(0, int(rounded.as_tuple().exponent))
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(exponent), rounding=ROUND_HALF_EVEN)


def _without_end_zeros(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


SECONDS_WIDTH = 7

Times = Mapping[str, Sequence[float]]
"""The repetitions of a query in seconds, by the query's name, such as "Q01"."""


def queries_table(systems: Mapping[str, Times]) -> str:
    """Return a Markdown table of mean seconds, systems in columns; a query not run is blank."""
    names = list(dict.fromkeys(name for times in systems.values() for name in times))
    widths = {system: max(SECONDS_WIDTH, len(system)) for system in systems}
    lines = ["| Query |" + "".join(f" {system:>{widths[system]}} |" for system in systems)]
    lines.append("| ----- |" + "".join(f" {'-' * (widths[system] - 1)}: |" for system in systems))
    for name in names:
        cells = "".join(
            f" {_mean(times.get(name)):>{widths[system]}} |" for system, times in systems.items()
        )
        lines.append(f"| {name:<5} |{cells}")
    return "\n".join(lines) + "\n"


def repetitions_block(title: str, times: Times) -> str:
    """Return all times of one system under its title, one query per line."""
    lines = [f"* {title}", "```"]
    for name, seconds in times.items():
        detail = ", ".join(f"{value:.1f}" for value in seconds)
        lines.append(f"{name}, avg: {_mean(seconds):>5}, detail: [{detail}]")
    return "\n".join([*lines, "```"]) + "\n"


def _mean(seconds: Sequence[float] | None) -> str:
    return f"{fmean(seconds):.1f}" if seconds else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStatistics:
    """The times of one action in milliseconds, and its rate per thread, all as text."""

    time: str
    action: str
    quantiles: Mapping[str, str]
    rate_per_thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLog:
    """The statistics of one load: every action at one number of threads and one size."""

    time: str
    provider: str
    threads: int
    size_kib: int
    actions: Sequence[ActionStatistics]


def statistics_log(logs: Sequence[ActionLog], logger: str) -> str:
    """Return the log in the format of its logger, one block per load."""
    blocks = []
    for log in logs:
        head = (
            f"==== Statistics for {log.provider} with {log.threads} threads "
            f"and {log.size_kib} Kb filesize: ===="
        )
        lines = [f"{log.time} [main] INFO {logger} - {head}"]
        for action in log.actions:
            stat = ", ".join(f"{name}={value}" for name, value in action.quantiles.items())
            lines.append(
                f"{action.time} [main] INFO {logger} - {action.action} :"
                f" StatisticService.Percentiles("
                f"stat={{{stat}}}, throughputPerThread={action.rate_per_thread})"
            )
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def rates_table(action: str, sizes: Sequence[str], rows: Mapping[int, Sequence[str]]) -> str:
    """Return the rates of one action, tab separated: a line per number of threads."""
    lines = [action, "\t".join(["Threads", *sizes])]
    lines += ["\t".join([str(threads), *rates]) for threads, rates in rows.items()]
    return "\n".join(lines) + "\n"
