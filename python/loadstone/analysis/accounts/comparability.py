"""May two results stand in one ratio? Only if all that is not the declared factor is the same."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from loadstone.analysis.accounts.account import Account, Parameter

ABSENT = "not recorded"

Cases = Iterable[Mapping[str, Parameter]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two arms differ."""

    field: str
    a: object
    b: object

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.a)} and {_shown(self.b)}"


def is_factor(field: str, factors: Collection[str]) -> bool:
    """Tell whether a field is a declared factor: by its whole name, or by what it is of a phase.

    "size" is meant by "downloads get: dataset.size" too, and "tls" by "setting tls".
    """
    _, _, of_phase = field.rpartition(": ")
    last = of_phase.rpartition(".")[2].removeprefix("setting ")
    return bool({field, of_phase, last} & set(factors))


def differing_cases(a: Cases, b: Cases) -> tuple[Difference, ...]:
    """Return the facts of two sides' cases of which they share no value."""

    def shown(values: Mapping[str, Parameter]) -> object:
        found = list(values.values())
        return found[0] if len(found) == 1 else ", ".join(map(str, found)) or None

    values_a, values_b = _values_of(a), _values_of(b)
    return tuple(
        Difference(field=name, a=shown(one), b=shown(other))
        for name in dict.fromkeys([*values_a, *values_b])
        if not (one := values_a.get(name, {})).keys() & (other := values_b.get(name, {})).keys()
    )


def _values_of(cases: Cases) -> dict[str, dict[str, Parameter]]:
    values: dict[str, dict[str, Parameter]] = {}
    for case in cases:
        for name, value in case.items():
            values.setdefault(name, {})[repr(value)] = value
    return values


def differences(a: Account, b: Account) -> tuple[Difference, ...]:
    """Return the fields of the comparability key in which two arms differ.

    A target is compared with the one of its own name, or with the only one there is. Published
    reports and files of other tools record no such fields; what neither side records cannot differ.
    """
    found: dict[str, Difference] = {}
    for target_a, target_b in _matched(a, b):
        facts_a, facts_b = _facts(a, target_a), _facts(b, target_b)
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


def _facts(account: Account, target: str) -> Mapping[str, object]:
    """Return a target's facts; those of a phase without the workload, where there is only one.

    A workload that has no name of its own is called as its campaign, which two runs seldom share.
    """
    facts = account.comparable.get(target, {})
    workloads = {one.workload for one in account.measurements}
    if len(workloads) != 1:
        return facts
    return {field.removeprefix(f"{next(iter(workloads))} "): one for field, one in facts.items()}


def _matched(a: Account, b: Account) -> list[tuple[str, str]]:
    if len(a.targets) == len(b.targets) == 1:
        return [(a.targets[0], b.targets[0])]
    return [(target, target) for target in a.targets if target in b.targets]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(one)}" for key, one in value.items()) + "}"
    return "none" if value is None else str(value)
