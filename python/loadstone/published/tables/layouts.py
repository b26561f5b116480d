"""Tables in the layouts of published reports: from numbers to text, and nothing else.

`rounds_table` is the layout of rounds by system (integers, one row per operation and round),
`threads_table` the layout of rates against threads (mean ± spread, tab separated, blocks of six).
Both know nothing of runs, so that published numbers can be set in them as well as measured ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
"""How the layout of rounds counts; from the tenth on the number is written."""

ROUNDS_HEAD_WIDTH = 23
COLUMNS_PER_BLOCK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsRow:
    """One operation in one round: a rate per system, absent where it was not measured.

    `phase` tells apart what the same operation did in several phases; without one it has no name.
    """

    operation: str
    round: int
    rates: Sequence[float | None]
    phase: str = ""


def rounds_table(head: str, systems: Sequence[str], rows: Sequence[RoundsRow]) -> str:
    """Return a Markdown table of whole requests per second, systems side by side.

    `head` is printed as it is given. A rate is rounded to the nearest integer; an absent one
    leaves its cell blank.
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
    """Return "first" for 1, up to "ninth"; from there on "10th"."""
    return ORDINALS[number - 1] if 1 <= number <= len(ORDINALS) else f"{number}th"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A mean and its spread, each with the digits that are to be shown.

    `mark` overrides the decimal mark of this one mean.
    """

    mean: Decimal
    spread: Decimal | None
    mark: str | None = None


def measured(mean: float, spread: float | None, digits: int = 2) -> MeasuredRow:
    """Return a mean and a spread with so many significant digits of the spread.

    The mean ends where the spread ends: digits below the spread say nothing. Without a spread,
    or with one of zero, the mean keeps three significant digits.
    """
    if spread is None or not math.isfinite(spread) or spread <= 0:
        shown = Decimal(0) if spread == 0 else None
        return MeasuredRow(mean=_significant(mean, 3), spread=shown)
    rounded = _significant(spread, digits)
    return MeasuredRow(mean=Decimal(repr(mean)), spread=rounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsColumn:
    """What was measured with one number of threads; absent where it was not."""

    threads: int
    files_per_s: MeasuredRow | None
    megabytes_per_s: MeasuredRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalMarks:
    """Which sign stands between units and tenths: in means of files, of megabytes, in spreads."""

    files: str = "."
    megabytes: str = "."
    spread: str = "."


POINTS = DecimalMarks()
COMMAS = DecimalMarks(files=",", megabytes=",", spread=",")


def threads_table(columns: Sequence[ThreadsColumn], marks: DecimalMarks = POINTS) -> str:
    """Return tab-separated blocks of six thread counts, with files and megabytes per second.

    A cell is `mean ± spread`; it is blank when nothing was measured.
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
    """Return "42.9 ± 8.7", the mean without zeros at its end; nothing when not measured."""
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
    """Return a number rounded to so many significant digits, never cut before the point."""
    if value == 0 or not math.isfinite(value):
        return Decimal(0)
    rounded = Decimal(f"{value:.{digits - 1}e}")
    exponent = min(0, int(rounded.as_tuple().exponent))
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(exponent), rounding=ROUND_HALF_EVEN)


def _without_end_zeros(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
