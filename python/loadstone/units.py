"""Parsing and formatting of sizes, durations, rates and lists of hosts.

Internally a size is an integer of bytes and a time an integer of nanoseconds. Only this module
knows the spellings. On input K, M, G, T are powers of two (4K = 4KiB = 4096) and kB, MB, GB, TB
powers of ten (4kB = 4000); on output the unit is always written in full.
"""

import itertools
import math
import re
from decimal import Decimal, InvalidOperation

from loadstone.errors import InputError

SIZES = frozenset(
    {"size", "range", "range_bytes", "part", "part_bytes", "block", "block_size", "fill_bytes"}
)
"""Parameters of a case that are sizes in bytes."""

SIZE_UNITS = {
    "": 1,
    "B": 1,
    **{
        spelling: 1024**power
        for power, letter in enumerate("KMGTP", start=1)
        for spelling in (letter, letter.lower(), f"{letter}iB")
    },
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGTP", start=1)},
    "kB": 1000,
}

DURATION_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter, which keyboards also give
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "min": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
}

RATE_PERIODS_S = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600}

SIZE_ALLOWED = 'a size in bytes, or like "4KiB", "4K" (both 4096), "4kB" (4000) or "10MiB"'
DURATION_ALLOWED = 'a duration like "300s", "5m", "1h30m" or "250ms", or plain seconds'
RATE_MAX_PER_S = 1e12
RATE_ALLOWED = 'a rate like "1000/s" or "600/min", or a plain number per second, up to 10^12/s'
FRACTION_ALLOWED = 'a fraction from 0 to 1, or a percentage like "50%"'
COUNT_ALLOWED = "a whole number, like 1000 or 10_000_000"

_NUMBER = r"(\d[\d_]*(?:\.\d+)?|\.\d+)"
_SIZE = re.compile(rf"{_NUMBER}\s*([A-Za-z]*)")
_DURATION_PART = re.compile(rf"{_NUMBER}\s*(ns|us|µs|μs|ms|min|s|m|h|d)\s*")
_RATE = re.compile(rf"{_NUMBER}\s*(?:/\s*([a-z]+))?")
_HOST_RANGE = re.compile(r"\{(\d+)\.\.\.?(\d+)\}|\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]")
_HOSTS_MAX = 65_536


def parse_size(value: str | int) -> int:
    """Return a size in bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InputError.of_value(value, SIZE_ALLOWED)
    number, unit = match.groups()
    if unit not in SIZE_UNITS:
        raise InputError.of_value(value, SIZE_ALLOWED, _hint_of_size(number, unit))
    size = _decimal(number) * SIZE_UNITS[unit]
    if size != int(size):
        raise InputError.of_value(value, f"{SIZE_ALLOWED}; a whole number of bytes")
    return int(size)


def parse_duration_ns(value: str | float) -> int:
    """Return a duration in nanoseconds; a plain number counts seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value) and value >= 0:
            return round(value * DURATION_UNITS["s"])
        raise InputError.of_value(value, DURATION_ALLOWED)
    if not isinstance(value, str) or not value.strip():
        raise InputError.of_value(value, DURATION_ALLOWED)
    text = value.strip()
    if re.fullmatch(_NUMBER, text):
        return round(_decimal(text) * DURATION_UNITS["s"])
    total, position = Decimal(0), 0
    while position < len(text):
        match = _DURATION_PART.match(text, position)
        if match is None:
            raise InputError.of_value(value, DURATION_ALLOWED)
        total += _decimal(match[1]) * DURATION_UNITS[match[2]]
        position = match.end()
    return round(total)


def parse_rate(value: str | float) -> float:
    """Return a rate in events per second, positive and within the countable range."""
    rate: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        rate = float(value)
    elif isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
        period_s = RATE_PERIODS_S.get(match[2] or "s")
        rate = None if period_s is None else float(_decimal(match[1])) / period_s
    if rate is None or not 0 < rate <= RATE_MAX_PER_S:
        raise InputError.of_value(value, RATE_ALLOWED)
    return rate


def parse_fraction(value: str | float) -> float:
    """Return a fraction from 0 to 1; "50%" is 0.5."""
    fraction: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        fraction = float(value)
    elif isinstance(value, str):
        text = value.strip()
        digits = text.removesuffix("%").strip()
        if re.fullmatch(_NUMBER, digits):
            fraction = float(_decimal(digits) / (100 if text.endswith("%") else 1))
    if fraction is None or not 0 <= fraction <= 1:
        raise InputError.of_value(value, FRACTION_ALLOWED)
    return fraction


def parse_count(value: str | int) -> int:
    """Return a whole number that is not negative; underscores may group its digits."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and re.fullmatch(r"\d[\d_]*", value.strip()):
        return int(value.strip().replace("_", ""))
    hint = None
    if isinstance(value, str) and re.fullmatch(r"[\d.]+\s*[kKMG]", value.strip()):
        hint = "K and M are 1024-based for sizes; write a count in full"
    raise InputError.of_value(value, COUNT_ALLOWED, hint)


def expand_hosts(text: str) -> list[str]:
    """Return every name in a list of hosts, in order.

    Names are separated by commas; `{1...8}` and `[1-8]` are ranges, `[1-3,7]` is a selection, and
    `{01...16}` keeps leading zeros. Other text in brackets, as in "[::1]:80", is not changed.
    """
    names: list[str] = []
    for part in _split_outside_brackets(text):
        names.extend(_expand_one(part, text))
        if len(names) > _HOSTS_MAX:
            raise InputError.of_value(text, f"a list of at most {_HOSTS_MAX} hosts")
    if not names:
        raise InputError.of_value(text, 'a list of hosts like "node1,node2", "node{1...8}"')
    return names


def describe_size(size_bytes: int) -> str:
    """Return a size without rounding it: "4 KiB", "10 MB", "1234 B"."""
    for divisor, kind in ((1024, "iB"), (1000, "B")):
        for power, letter in zip(range(5, 0, -1), "PTGMK", strict=True):
            if size_bytes and size_bytes % divisor**power == 0:
                prefix = "k" if (letter, kind) == ("K", "B") else letter
                return f"{size_bytes // divisor**power} {prefix}{kind}"
    return f"{size_bytes} B"


def format_bytes(size_bytes: float) -> str:
    """Return a size with three significant digits and a binary unit, such as "4.13 MiB"."""
    unit = ""
    value = float(size_bytes)
    for letter in "KMGTP":
        if abs(round(value)) < 1024:
            break
        value /= 1024
        unit = f"{letter}i"
    if not unit:
        return f"{value:.0f} B"
    return f"{value:,.0f} {unit}B" if value.is_integer() else f"{format_number(value)} {unit}B"


def format_size(size_bytes: int) -> str:
    """Return an exact size in the spelling of campaigns: "4KiB", "10MiB", "4000"."""
    for power, letter in zip(range(5, 0, -1), "PTGMK", strict=True):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{letter}iB"
    return str(size_bytes)


def format_byte_rate(bytes_per_s: float) -> str:
    """Return a rate of data, such as "102 MiB/s"."""
    return f"{format_bytes(bytes_per_s)}/s"


def format_bit_rate(bits_per_s: float) -> str:
    """Return the rate of a network path, such as "9.82 Gbit/s", with decimal units."""
    for divisor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(bits_per_s) >= divisor:
            return f"{format_number(bits_per_s / divisor)} {prefix}bit/s"
    return f"{bits_per_s:.0f} bit/s"


def format_duration(duration_ns: float) -> str:
    """Return a duration in a suitable unit: "250 µs", "1.50 s", "1 h 30 min"."""
    if duration_ns < 0:
        return f"-{format_duration(-duration_ns)}"
    if duration_ns >= 120 * DURATION_UNITS["s"]:
        return _format_long_duration(round(duration_ns / DURATION_UNITS["s"]))
    for unit in ("s", "ms", "µs"):
        if duration_ns >= DURATION_UNITS[unit]:
            return f"{format_number(duration_ns / DURATION_UNITS[unit])} {unit}"
    return f"{duration_ns:.0f} ns"


def format_rate(per_s: float) -> str:
    """Return a rate of events, such as "4,970/s"."""
    return f"{format_number(per_s)}/s"


def format_count(count: int) -> str:
    """Return a count with its digits in groups of three."""
    return f"{count:,}"


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits, without rounding its integer part."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}" if value == 0 else str(value)
    # Rounded first, because 9.996 has two decimals, but is shown as 10.0.
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def format_spread(share: float) -> str:
    """Return a spread in per cent, without meaningless digits if two trials nearly agree."""
    percent = 100 * share
    return "< 0.1 %" if 0 < percent < 0.1 else f"{format_number(percent, 2)} %"


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits.replace("_", ""))
    except InvalidOperation as error:  # pragma: no cover - the patterns above let none through
        raise InputError.of_value(digits, "a number") from error


def _hint_of_size(number: str, unit: str) -> str | None:
    letter = unit[:1].upper()
    if (
        letter not in "KMGTP"
        or not letter
        or unit.lower() not in (f"{letter}b".lower(), f"{letter}ib".lower())
    ):
        return None
    # "100kb" is 100 KiB in some reports and 100,000 bytes in others, so it is refused.
    ten = "k" if letter == "K" else letter
    return f'write "{number}{letter}iB" for powers of two or "{number}{ten}B" for powers of ten'


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in (*parts, current) if part.strip()]


def _expand_one(part: str, text: str) -> list[str]:
    pieces: list[list[str]] = []
    position = 0
    for match in _HOST_RANGE.finditer(part):
        pieces.append([part[position : match.start()]])
        pieces.append(_numbers(match, text))
        position = match.end()
    pieces.append([part[position:]])
    if math.prod(len(piece) for piece in pieces) > _HOSTS_MAX:
        raise InputError.of_value(text, f"a list of at most {_HOSTS_MAX} hosts")
    return ["".join(combination) for combination in itertools.product(*pieces)]


def _numbers(match: re.Match[str], text: str) -> list[str]:
    ranges = [(match[1], match[2])] if match[1] else []
    for item in (match[3] or "").split(","):
        first, _, last = item.partition("-")
        ranges += [(first, last or first)] if first else []
    numbers: list[str] = []
    for first, last in ranges:
        if int(last) < int(first):
            raise InputError.of_value(text, f'a range that counts up, not "{match[0]}"')
        if int(last) - int(first) >= _HOSTS_MAX:
            raise InputError.of_value(text, f"a list of at most {_HOSTS_MAX} hosts")
        width = len(first) if first.startswith("0") else 0
        numbers += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def _format_long_duration(seconds: int) -> str:
    parts = []
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length_s)
        if count:
            parts.append(f"{count} {unit}")
    # Two parts suffice: the seconds of three days are irrelevant.
    return " ".join(parts[:2])


def counted(number: int, what: str) -> str:
    """Return a number with its noun: 1 bucket, 2,000 buckets."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def csv_cell(value: object) -> object:
    """Return a value that is safe in a spreadsheet.

    A text that a spreadsheet would parse as a formula gets a leading apostrophe; numbers, and texts
    that are numbers, are not changed.
    """
    if isinstance(value, str) and value.startswith(_FORMULA_BEGINS) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+][\d.,]+(e[-+]?\d+)?", text) is not None


_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
