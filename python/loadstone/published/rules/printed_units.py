"""Units in the notation of other tools."""

import re
from contextlib import suppress

from loadstone.errors import InputError

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
