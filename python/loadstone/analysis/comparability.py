"""May two results stand in one ratio? Only if all that is not the declared factor is the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from loadstone.analysis.account import Account

ABSENT = "not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two arms differ."""

    field: str
    a: object
    b: object

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.a)} and {_shown(self.b)}"


def differences(a: Account, b: Account) -> tuple[Difference, ...]:
    """Return the fields of the comparability key in which two arms differ.

    A target is compared with the one of its own name, or with the only one there is. Published
    reports and files of other tools record no such fields; what neither side records cannot differ.
    """
    found: dict[str, Difference] = {}
    for target_a, target_b in _matched(a, b):
        facts_a = a.comparable.get(target_a, {})
        facts_b = b.comparable.get(target_b, {})
        if not facts_a or not facts_b:
            continue
        for field in dict.fromkeys([*facts_a, *facts_b]):
            # A phase that only one side has is a case without a partner, not a difference.
            if ": " in field and (field not in facts_a or field not in facts_b):
                continue
            one, other = facts_a.get(field, ABSENT), facts_b.get(field, ABSENT)
            if one != other:
                found.setdefault(field, Difference(field=field, a=one, b=other))
    return tuple(found.values())


def _matched(a: Account, b: Account) -> list[tuple[str, str]]:
    if len(a.targets) == len(b.targets) == 1:
        return [(a.targets[0], b.targets[0])]
    return [(target, target) for target in a.targets if target in b.targets]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(one)}" for key, one in value.items()) + "}"
    return "none" if value is None else str(value)
