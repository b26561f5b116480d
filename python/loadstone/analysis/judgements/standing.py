"""The standing of a result, decided here once from its labels and its limit."""

from collections.abc import Iterable, Mapping
from typing import Literal

from loadstone.analysis.rules import Effect, find_rule

Standing = Literal["valid", "bound", "void"]
"""The number is what the target does, the least that it can do, or must not be used."""

EFFECTS: Mapping[Effect, Standing] = {"invalid": "void", "bound": "bound"}

CHECKS = {"errors": "too many requests failed"}
"""Checks of a verdict that no label stands for."""


def standing_of(names: Iterable[str]) -> tuple[Standing, tuple[str, ...]]:
    """Return the standing that follows from labels and limits, and its reasons.

    Reasons for a bound are dropped if the number is void.
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
    """Return the worst of several standings; valid if there are none."""
    return max(standings, key=("valid", "bound", "void").index, default="valid")


def may_be_compared(standing: Standing, other_standing: Standing, reasons: Iterable[str]) -> bool:
    """Tell whether the ratio of two numbers with these standings is a ratio of the targets.

    It is not if one is void, or only one is a bound. Two bounds have a ratio if all reasons hold
    for both sides alike; bounds of the client do not.
    """
    if standing != other_standing or standing == "void":
        return False
    return standing == "valid" or all(find_rule(name).is_on_both_sides for name in reasons)


def reason_words(name: str) -> str:
    """Return a reason of a standing, or a limit, in a few words."""
    rule, _, check = name.partition("(")
    definition = find_rule(rule)
    if check:
        named = check.rstrip(")")
        return CHECKS.get(named) or find_rule(named).short or definition.short
    return definition.short or definition.says
