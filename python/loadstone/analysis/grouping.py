"""Groups and sums by a key, in the order in which keys first appear."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")
Member = TypeVar("Member")
Number = TypeVar("Number", int, float)


def grouped(members: Iterable[Member], key: Callable[[Member], Key]) -> dict[Key, list[Member]]:
    """Group members by a key."""
    return grouped_pairs((key(member), member) for member in members)


def grouped_pairs(pairs: Iterable[tuple[Key, Member]]) -> dict[Key, list[Member]]:
    """Group the second of each pair by the first."""
    groups: dict[Key, list[Member]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def added_up(pairs: Iterable[tuple[Key, Number]]) -> dict[Key, Number]:
    """Add up the second of each pair by the first."""
    sums: dict[Key, Number] = {}
    for key, number in pairs:
        sums[key] = sums[key] + number if key in sums else number
    return sums
