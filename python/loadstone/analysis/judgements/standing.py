"""What a rate may be taken for: decided here once, from the labels and the limit of a result."""

from collections.abc import Iterable, Mapping
from typing import Literal

from loadstone.analysis.rules import Effect, find_rule

Standing = Literal["valid", "bound", "void"]
"""What the target does, the least that it can do, or nothing: then the number must not be used."""

EFFECTS: Mapping[Effect, Standing] = {"invalid": "void", "bound": "bound"}

CHECKS = {"errors": "too many requests failed"}
"""Checks of a verdict that no label stands for."""


def standing_of(names: Iterable[str]) -> tuple[Standing, tuple[str, ...]]:
    """Return what labels and limits make of a number, and which of them do.

    A void number is void for one reason or several; that it would be a bound, too, says nothing.
    """
    by_standing: dict[Standing, dict[str, None]] = {"void": {}, "bound": {}}
    for name in names:
        standing = EFFECTS.get(find_rule(name.partition("(")[0]).effect)
        if standing is not None:
            by_standing[standing][name] = None
    for standing, reasons in by_standing.items():
        if reasons:
            return standing, tuple(reasons)
    return "valid", ()


def worst_of(standings: Iterable[Standing]) -> Standing:
    """Return what a number may be taken for that is made of several results; valid of none."""
    return max(standings, key=("valid", "bound", "void").index, default="valid")


def may_be_compared(standing: Standing, other_standing: Standing, reasons: Iterable[str]) -> bool:
    """Tell whether a ratio of two numbers with these standings says something of the targets.

    A void number stands in no ratio, and a number is not held against a bound. Nor are two bounds
    of the client's own: their ratio is the client's. What both sides share leaves the ratio be.
    """
    if standing != other_standing or standing == "void":
        return False
    return standing == "valid" or all(find_rule(name).is_on_both_sides for name in reasons)


def reason_words(name: str) -> str:
    """Return a reason of a standing, or a limit, in a few words; a check by what it checks."""
    rule, _, check = name.partition("(")
    definition = find_rule(rule)
    if check:
        named = check.rstrip(")")
        return CHECKS.get(named) or find_rule(named).short or definition.short
    return definition.short or definition.says
