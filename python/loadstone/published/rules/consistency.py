"""Finds numbers that contradict each other, and units that are ambiguous as tools print them."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    MEGABYTE_RATE,
    RATE,
    Account,
    Measurement,
    Statement,
    describe_case,
)
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.errors import InputError

RULES = NumberRules()


AGREE = 0.10
LOOKS_ALIKE = 0.05


@RULES.problem(
    id="contradicting-cell",
    effect="invalid",
    short="contradicting columns",
    says="columns that contradict each other",
    means="At least one of the numbers is wrong.",
    do="Recalculate them from the raw data.",
)
def contradicting_cell(account: Account) -> Iterator[Finding]:
    """Find cells whose requests and megabytes per second imply another size than other cells.

    The factor between both columns is the size of a request: the one that fits most cells is used.
    A printed number represents all values that are rounded or truncated to it; a cell that still
    does not fit is a contradiction.
    """
    for cells in _pairs(account):
        factor = _common_factor(cells)
        if factor is None:
            continue
        odd = [(rate, size) for rate, size in cells if not _fits(rate, size, factor, slack=1.0)]
        if not odd or len(odd) > len(cells) / 4:
            continue
        for rate, printed in odd:
            expected = rate.value * factor
            yield Finding(
                "contradicting-cell",
                f"{describe_case(rate)}: {rate.text}/s and {printed.text} MB/s cannot both be"
                f" right: all {len(cells) - len(odd)} other cells have {factor:.4g} MB a"
                f" request, this one {printed.value / rate.value:.4g};"
                f" {rate.text}/s would be {expected:.3g} MB/s",
                evidence=(
                    Evidence(
                        "MB per request", printed.value / rate.value, factor, place=rate.place
                    ),
                ),
                cases=(describe_case(rate),),
            )


@RULES.caution(
    id="contradicting-spread",
    short="contradicting spreads",
    says="a ± of MB/s that cannot come from the same trials as the ± of requests",
    means="One of the two comes from other data.",
    do="Recalculate both from the same trials.",
)
def contradicting_spread(account: Account) -> Iterator[Finding]:
    """Find cells whose two spreads cannot come from the same trials.

    Requests of one size have equal relative spreads in requests and in megabytes per second, within
    the printed digits.
    """
    # This check needs no other cells.
    for cells in _pairs(account, least=1):
        if cells[0][0].size_bytes is None:
            continue
        odd = [pair for pair in cells if _spreads_differ(*pair)]
        if not odd:
            continue
        worst = max(odd, key=lambda pair: abs(math.log(_relative(pair[0]) / _relative(pair[1]))))
        rate, printed = worst
        yield Finding(
            "contradicting-spread",
            f"{len(odd)} of {len(cells)} cells of {rate.workload} have a ± of MB/s that is not"
            f" that of their requests; the worst is {describe_case(rate)}: {rate.value:g} ±"
            f" {rate.spread:g} is ±{_relative(rate):.1%}, {printed.value:g} ±"
            f" {printed.spread:g} is ±{_relative(printed):.2%}",
            evidence=tuple(
                Evidence(
                    "relative ± of MB/s / of requests",
                    _relative(size) / _relative(m),
                    1,
                    place=m.place,
                )
                for m, size in odd
            ),
            cases=tuple(describe_case(measurement) for measurement, _ in odd),
        )


def _relative(measurement: Measurement) -> float:
    return (measurement.spread or 0.0) / measurement.value


def _spreads_differ(rate: Measurement, printed: Measurement) -> bool:
    """Tell whether the relative spreads differ, regardless of rounding."""
    if not (rate.spread and printed.spread and rate.value > 0 and printed.value > 0):
        return False
    spans = []
    for measurement in (rate, printed):
        digit = _last_digit(f"{measurement.spread:g}")
        low, high = _rounded_span(measurement, slack=0.0)
        least = max(0.0, (measurement.spread or 0.0) - 1.5 * digit)
        spans.append(
            (
                least / high,
                ((measurement.spread or 0.0) + 1.5 * digit) / low if low > 0 else math.inf,
            )
        )
    (low, high), (other_low, other_high) = spans
    return high < other_low or other_high < low


@RULES.caution(
    id="megabyte-base",
    short="unit of MB not clear",
    says='the meaning of "MB" in a table',
    means='A "MB" of 2^20 bytes is 5 % more than one of 10^6.',
    do="Give MiB or MB, and say which.",
)
def megabyte_base(account: Account) -> Iterator[Finding]:
    """State which "MB" a table uses, if the numbers determine it.

    "4 KB" may be 4096 or 4000 bytes and "MB" 2^20 or 10^6: of the four factors, some tables allow
    only one. Sizes in "MB" allow both.
    """
    for cells in _pairs(account):
        size = cells[0][0].size_bytes
        if size is None or _common_factor(cells) is None:
            continue
        fits = {
            (bytes_, name): sum(
                _fits(rate, printed, bytes_ / base, slack=1.0) for rate, printed in cells
            )
            for bytes_ in (size, _decimal_reading(size))
            for name, base in (("2^20", 2**20), ("10^6", 10**6))
        }
        ranked = sorted(fits, key=lambda reading: -fits[reading])
        best, second = ranked[0], ranked[1]
        if fits[best] < 0.75 * len(cells) or fits[second] == fits[best]:
            continue
        yield Finding(
            "megabyte-base",
            f'{cells[0][0].workload}: "MB" is {best[1]} bytes, and a request {best[0]}:'
            f" {fits[best]} of {len(cells)} cells fit so ({_exactness(cells, best)}),"
            f" {fits[second]} with {second[0]} bytes"
            f" and {second[1]}",
            evidence=tuple(
                Evidence(
                    f"cells that fit {reading[0]} bytes and MB = {reading[1]}", count, len(cells)
                )
                for reading, count in fits.items()
            ),
            is_inferred=True,
        )


def _exactness(cells: Sequence[tuple[Measurement, Measurement]], reading: tuple[int, str]) -> str:
    """Return how many cells fit exactly; the others are off by one in the last digit."""
    factor = reading[0] / (2**20 if reading[1] == "2^20" else 10**6)
    exact = sum(
        abs(rate.value * factor - printed.value)
        <= 0.5 * _last_digit(printed.text or f"{printed.value:g}")
        for rate, printed in cells
    )
    return f"{exact} exactly, the others to ±1 in the last digit"


@RULES.caution(
    id="contradicting-statements",
    short="contradicting statements",
    says="one quantity stated twice with different values",
    means="Everything that depends on it is uncertain.",
    do="Find out which statement holds.",
)
def contradicting_statements(account: Account) -> Iterator[Finding]:
    """Find quantities that are stated twice with different values."""
    for (quantity, _), entries in _by_quantity(account).items():
        values = [in_common(entry.value, entry.unit)[0] for entry in entries]
        if len(entries) < 2 or max(values) <= (1 + AGREE) * min(values):
            continue
        places = " and ".join(f"{entry.value:g} {entry.unit} ({entry.place})" for entry in entries)
        yield Finding(
            "contradicting-statements",
            f"{quantity} is stated as {places}: {max(values) / min(values):.1f}× apart",
            evidence=tuple(
                Evidence(quantity, entry.value, unit=entry.unit, place=entry.place)
                for entry in entries
            ),
        )


@RULES.caution(
    id="mixed-units",
    short="mixed units",
    says="similar numbers in different units",
    means='A "MB" of 2^20 bytes is 5 % more than one of 10^6.',
    do="Give MiB or MB, and say which.",
)
def mixed_units(account: Account) -> Iterator[Finding]:
    """Find results and ceilings that look equal as printed, but use different megabytes."""
    for measurement in account.of(BYTE_RATE):
        base = MEGABYTE_OF_TOOL.get(measurement.tool)
        shown = _printed_megabytes(measurement.text)
        if base != 2**20 or shown is None:
            continue
        for ceiling in account.ceilings:
            other = ceiling.bytes_per_s / 1e6
            is_bits = "b/s" in ceiling.text or "bit" in ceiling.text
            if not is_bits and MEGABYTE_OF_TOOL.get(ceiling.tool) != 10**6:
                continue
            if abs(shown / other - 1) <= LOOKS_ALIKE:
                yield Finding(
                    "mixed-units",
                    f"{measurement.text} of {measurement.tool} and {other:.0f} MB/s of"
                    f" the {ceiling.name} look"
                    f" equal and are not: {measurement.tool} counts 2^20 bytes to a MB,"
                    f" so it is"
                    f" {measurement.value / 1e6:.0f}·10⁶ B/s,"
                    f" {measurement.value / ceiling.bytes_per_s - 1:+.1%}",
                    evidence=(
                        Evidence(
                            "bytes per second",
                            measurement.value,
                            ceiling.bytes_per_s,
                            unit="B/s",
                            place=measurement.place,
                        ),
                    ),
                    cases=(describe_case(measurement),),
                )


def _pairs(account: Account, least: int = 4) -> Iterator[list[tuple[Measurement, Measurement]]]:
    printed = {(m.target, m.case): m for m in account.of(MEGABYTE_RATE)}
    rates = [m for m in account.of(RATE) if (m.target, m.case) in printed]
    for cells in grouped(
        rates, lambda rate: (rate.target, rate.workload, rate.size_bytes)
    ).values():
        pairs = [(cell, printed[cell.target, cell.case]) for cell in cells]
        if len(pairs) >= least:
            yield pairs


def _common_factor(cells: Sequence[tuple[Measurement, Measurement]]) -> float | None:
    """Return the factor that most cells allow: the middle of their common range."""
    spans = [_factor_span(rate, printed) for rate, printed in cells]
    edges = sorted({edge for span in spans for edge in span})
    best, chosen = 0, None
    for low, high in pairwise(edges):
        middle = (low + high) / 2
        count = sum(start <= middle <= end for start, end in spans)
        if count > best:
            best, chosen = count, middle
    return chosen if best > len(cells) / 2 else None


def _factor_span(rate: Measurement, printed: Measurement) -> tuple[float, float]:
    low_rate, high_rate = _rounded_span(rate, slack=0.0)
    low, high = _rounded_span(printed, slack=0.0)
    return low / high_rate, high / low_rate


def _fits(rate: Measurement, printed: Measurement, factor: float, *, slack: float) -> bool:
    low_rate, high_rate = _rounded_span(rate, slack=0.0)
    low, high = _rounded_span(printed, slack=slack)
    return high_rate * factor >= low and low_rate * factor <= high


def _rounded_span(measurement: Measurement, *, slack: float) -> tuple[float, float]:
    """Return the values that round or truncate to this number, ± `slack` last digits."""
    digit = _last_digit(measurement.text or f"{measurement.value:g}")
    return measurement.value - (0.5 + slack) * digit, measurement.value + (1.0 + slack) * digit


def _decimal_reading(size: int) -> int:
    """Return the size with decimal units: 4000 for 4096, 10^7 for 10 · 2^20."""
    power = 0
    while size % 1024 == 0 and size >= 1024:
        size //= 1024
        power += 1
    return int(size * 1000**power)


def _last_digit(text: str) -> float:
    _, _, decimals = text.partition(".")
    return float(10.0 ** -len(decimals))


def _printed_megabytes(text: str | None) -> float | None:
    digits = (text or "").lstrip("~").partition(" ")
    try:
        return float(digits[0]) if digits[2].startswith("MB") else None
    except ValueError:
        return None


def _by_quantity(account: Account) -> dict[tuple[str, str], list[Statement]]:
    groups: dict[tuple[str, str], list[Statement]] = {}
    for statement in account.statements:
        if not statement.per:
            _, unit = in_common(statement.value, statement.unit)
            groups.setdefault((statement.quantity, unit), []).append(statement)
    return groups


MEGABYTE_OF_TOOL = {"rados bench": 2**20, "elbencho": 2**20, "fio": 10**6, "iperf3": 10**6}
"""Bytes of a tool's "MB": rados bench, for example, uses 2^20 and prints "MB/s"."""

PREFIXES = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}

_RATE = re.compile(r"~?\s*([\d.]+)\s*([kKMGT]?)(i?)(B|b|bit|bits)(?:/s|ps|/sec|\s*per second)")


def parse_rate_bytes(text: str, tool: str = "") -> float:
    """Return a printed rate in bytes per second.

    "Gb/s" and "Gbit/s" are decimal bits; "MiB/s" is 2^20; "MB/s" depends on the tool, and is 10^6
    for an unknown one.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InputError.of_value(text, 'a rate such as "950 MB/s", "907 MiB/s" or "7.61 Gb/s"')
    number, prefix, binary, unit = match.groups()
    power = PREFIXES[prefix]
    if unit != "B":
        return float(number) * 1000.0**power / 8
    if binary or MEGABYTE_OF_TOOL.get(tool) == 2**20:
        return float(number) * 1024.0**power
    return float(number) * 1000.0**power


def in_common(value: float, unit: str) -> tuple[float, str]:
    """Return a number in a common unit: bytes per second for data rates, otherwise as stated."""
    with suppress(InputError):
        return parse_rate_bytes(f"{value:f} {unit}"), "B/s"
    return value, unit
