"""Cases: the product of targets, workloads and values of swept parameters."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from loadstone.campaign.reading import override
from loadstone.campaign.reading.mistakes import (
    KeyMistake,
    KnownKeys,
    Path,
    listed,
    nearest,
    translate,
)
from loadstone.campaign.schema.campaign import Campaign, Workload
from loadstone.campaign.schema.dataset import Dataset, FillLevel, FixedSize, SizeLaw
from loadstone.campaign.schema.json_schema import known_keys
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.phase import Phase
from loadstone.documents.python_types import Parameters
from loadstone.documents.trial import LoadDocument
from loadstone.errors import shown


# A saturated counter alone does not prove a bottleneck, so one factor is halved. If half the object
# size brings more requests, bytes were the limit; if half the clients reach the same, clients were
# not; if half the verification brings more, the client's processor was; if half the hosts reach
# half as much with the same load, the hosts were. The changed cases run in the same interleaved
# blocks.
def changed(workload: Workload, name: str, hosts_all: int | None) -> Workload:
    """Return a workload with one factor halved; a search is left out, because it varies its load.

    `hosts_all` is the campaign's number of hosts, None if this host makes the load.
    """
    phases = tuple(
        _changed_phase(phase, name, hosts_all)
        for phase in workload.phases
        if phase.capacity is None
    )
    update: dict[str, Any] = {"phases": phases}
    match name:
        case "half_clients" if workload.load is not None:
            update["load"] = _half_load(workload.load)
        case "half_hosts" if workload.load is not None and hosts_all is not None:
            update["load"] = _half_hosts(workload.load, hosts_all)
        case "half_size" if workload.dataset is not None:
            size = _half_size(workload.dataset.size)
            update["dataset"] = workload.dataset.model_copy(update={"size": size})
        case "half_verification":
            update["verify"] = workload.verify / 2
    return workload.model_copy(update=update)


def intervention_mistakes(workload: Workload, hosts_all: int | None) -> Iterator[KeyMistake]:
    """Yield the interventions that halve something that cannot be halved."""
    phases = [phase for phase in workload.phases if phase.capacity is None]
    loads = [phase.load or workload.load for phase in phases]
    sizes = [phase.size or (workload.dataset and workload.dataset.size) for phase in phases]
    verified = [workload.verify if phase.verify is None else phase.verify for phase in phases]
    for index, name in enumerate(workload.interventions):
        match name:
            case "half_clients" if any(not load or (load.threads or 0) < 2 for load in loads):
                actual, allowed = "a load of fewer than 2 threads", "2 threads or more"
            case "half_hosts" if any(
                ((load and load.hosts) or hosts_all or 1) < 2 for load in loads
            ):
                actual, allowed = "a load of fewer than 2 hosts", "2 hosts or more"
            case "half_size" if any(
                not isinstance(size, FixedSize) or size.size_bytes < 2 for size in sizes
            ):
                actual, allowed = "a size that is not fixed", "one size of 2 bytes or more"
            case "half_verification" if not any(verified):
                actual, allowed = "a workload without verification", "a verify above 0"
            case _:
                continue
        yield KeyMistake(("interventions", index), f"this with {actual}", allowed)


def _changed_phase(phase: Phase, name: str, hosts_all: int | None) -> Phase:
    match name:
        case "half_clients" if phase.load is not None:
            return phase.model_copy(update={"load": _half_load(phase.load)})
        case "half_hosts" if phase.load is not None and hosts_all is not None:
            return phase.model_copy(update={"load": _half_hosts(phase.load, hosts_all)})
        case "half_size" if phase.size is not None:
            return phase.model_copy(update={"size": _half_size(phase.size)})
        case "half_verification" if phase.verify is not None:
            return phase.model_copy(update={"verify": phase.verify / 2})
    return phase


def _half_load(load: Load) -> Load:
    if load.threads is None:
        return load
    return load.model_copy(update={"threads": max(1, load.threads // 2)})


def _half_hosts(load: Load, hosts_all: int) -> Load:
    """Return a load for half the hosts with the same total: each host makes twice as much."""
    hosts = load.hosts or hosts_all
    times = hosts if load.per == "host" else 1
    update: dict[str, Any] = {"hosts": max(1, hosts // 2), "per": "total"}
    if load.threads is not None:
        update["threads"] = load.threads * times
    if load.rate_per_s is not None:
        update |= {"rate_per_s": load.rate_per_s * times, "clients_max": load.clients_max * times}
    return load.model_copy(update=update)


def _half_size(size: Any) -> Any:
    if not isinstance(size, FixedSize):
        return size
    return size.model_copy(update={"size_bytes": max(1, size.size_bytes // 2)})


# Keys that a sweep may vary; all others shape the plan instead of a case.
SWEPT_ROOTS = ("fill", "dataset", "load", "phases", "on_error", "connections", "timeout", "verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """A workload with the campaign's defaults filled in, and the path of each of its keys."""

    name: str
    data: dict[str, Any]
    sweep: Mapping[str, Sequence[Any]]
    places: Mapping[str, Path]

    def path(self, path: Path) -> Path:
        """Return the path of a key of the workload in the campaign."""
        if not path or path[0] not in self.places:
            return (*self.places[""], *path)
        return (*self.places[str(path[0])], *path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell of the matrix; with an `intervention`, the cell `base` with one factor halved."""

    number: int
    target: str
    workload: Workload
    swept: Mapping[str, Any]
    source: WorkloadSource
    facts: Mapping[str, Any] = field(default_factory=dict)
    intervention: str | None = None
    base: "Case | None" = None
    hosts_all: int | None = None
    """The campaign's number of hosts; None if this host makes the load."""

    def load(self, phase: Phase) -> Load:
        """Return the load of a phase: its own, or the workload's."""
        load = phase.load or self.workload.load
        if phase.capacity is not None:
            return phase.capacity.first_load(load)
        assert load is not None, "check.py lets no phase pass without a load"
        return load

    def hosts(self, phase: Phase) -> int | None:
        """Return how many hosts make the load of a phase; None if this host makes it."""
        load = phase.load or self.workload.load
        return (load.hosts if load is not None else None) or self.hosts_all

    def load_document(self, phase: Phase) -> LoadDocument:
        """Return the load of a phase as in trial documents: the total of all hosts."""
        # A search varies the total load, whatever the number of hosts.
        is_whole = phase.capacity is not None
        return self.load(phase).document(1 if is_whole else self.hosts(phase) or 1)

    def dataset(self, phase: Phase) -> Dataset:
        """Return the dataset of a phase: the workload's, with a size of its own if it has one."""
        dataset = self.workload.dataset
        assert dataset is not None, "check.py lets no workload pass without a dataset"
        return dataset if phase.size is None else dataset.model_copy(update={"size": phase.size})

    def parameters(self, phase: Phase) -> Parameters:
        """Return the parameters that distinguish results."""
        load, size = self.load(phase), self.dataset(phase).size
        arrival = (
            {"threads": load.threads} if load.rate_per_s is None else {"rate": load.rate_per_s}
        )
        # The arrival is left out, because a search varies it from trial to trial.
        arrival = {} if phase.capacity is not None else arrival
        fixed = {**arrival, **({} if size is None else {"size": _plain(size)})}
        # The number of hosts is part of the load.
        hosts = {} if self.hosts(phase) is None else {"hosts": self.hosts(phase)}
        fixed = {**fixed, **hosts}
        halved = {"intervention": self.intervention} if self.intervention is not None else {}
        level = self.workload.fill
        fixed = {**fixed, **({} if level is None else level.parameters())}
        fixed_keys = {*fixed, "fill"}
        swept = {key: value for key, value in self.swept.items() if key not in fixed_keys}
        return cast(Parameters, {**fixed, **swept, **self.facts, **halved})

    def phase_of_base(self, phase: Phase) -> Parameters:
        """Return the parameters of the phase in the base case, before the intervention."""
        assert self.base is not None, "only an intervention has a base"
        phases = self.base.workload.phases
        return self.base.parameters(next(other for other in phases if other.label == phase.label))


def cases_of(campaign: Campaign) -> tuple[list[Case], list[KeyMistake]]:
    """Return every case in the order of the file, and the mistakes in workloads."""
    cases: list[Case] = []
    mistakes: list[KeyMistake] = []
    facts = {name for target in campaign.targets.values() for name in target.facts}
    for source in workload_sources(campaign):
        wrong = _wrong_sweep(source, facts)
        if not wrong:
            combinations = _combinations(source, wrong)
        mistakes += wrong
        if wrong:
            continue
        for name, target in campaign.targets.items():
            for workload, swept in combinations:
                case = Case(
                    number=len(cases),
                    target=name,
                    workload=workload,
                    swept=swept,
                    source=source,
                    facts=target.facts,
                    hosts_all=len(campaign.hosts.all_names) if campaign.hosts else None,
                )
                cases.append(case)
                cases += _interventions(case, len(cases))
    return cases, mistakes


def _interventions(base: Case, number: int) -> list[Case]:
    """Return a case's interventions, one factor each; check.py refuses impossible ones."""
    return [
        replace(
            base,
            number=number + index,
            workload=changed(base.workload, name, base.hosts_all),
            intervention=name,
            base=base,
        )
        for index, name in enumerate(base.workload.interventions)
    ]


def workload_sources(campaign: Campaign) -> list[WorkloadSource]:
    """Return the workloads, each with the defaults of the campaign."""
    document: Mapping[str, Any] = campaign.document()
    shared = {key: document[key] for key in _workload_keys() if key in document}
    if not campaign.workloads:
        sweep = shared.pop("sweep", {})
        data = {"name": campaign.name, **shared}
        return [WorkloadSource(name=campaign.name, data=data, sweep=sweep, places={"": ()})]
    sources = []
    for index, workload in enumerate(campaign.workloads):
        workload_data = workload.document()
        data = {**shared, **workload_data}
        sweep = data.pop("sweep", {})
        own_place: Path = ("workloads", index)
        places = {key: own_place if key in workload_data else () for key in _workload_keys()}
        sources.append(
            WorkloadSource(
                name=workload.name, data=data, sweep=sweep, places={"": own_place, **places}
            )
        )
    return sources


def first_workload(source: WorkloadSource) -> Workload | None:
    """Return the workload with the first of each swept value; None if these values conflict."""
    return _applied(source.data, {key: values[0] for key, values in source.sweep.items()})[0]


def _workload_keys() -> list[str]:
    fields = Workload.model_fields.items()
    return [field.alias or name for name, field in fields if name != "name"]


def _wrong_sweep(source: WorkloadSource, facts: Collection[str]) -> list[KeyMistake]:
    """Check each swept value by itself, so that a mistake is reported once and at its place."""
    mistakes: list[KeyMistake] = []
    key_of: dict[str, str] = {}
    firsts = {key: values[0] for key, values in source.sweep.items()}
    for key, values in source.sweep.items():
        full = override.SHORT_KEYS.get(key, key)
        place = source.path(("sweep", key))
        if _short(key) in facts:
            mistakes.append(
                KeyMistake(
                    place,
                    f"a sweep over {key}",
                    f"another key: a target has a fact of the name {shown(_short(key))}",
                )
            )
        if full.split(".")[0] not in SWEPT_ROOTS:
            allowed = [
                *override.SHORT_KEYS,
                "fill",
                "connections",
                "timeout",
                "verify",
                "phases.NAME.KEY",
            ]
            mistakes.append(
                KeyMistake(
                    place,
                    f"a sweep over {key}",
                    f"{listed(allowed)}, or another dotted key",
                    hint=nearest(key, override.SHORT_KEYS),
                )
            )
            continue
        if full in key_of:
            mistakes.append(
                KeyMistake(place, f"{key} beside {key_of[full]}", "one of them: they are one")
            )
        key_of[full] = key
        for index, value in enumerate(values):
            _, wrong = _applied(source.data, {key: value})
            # Another swept value may make it valid, as threads do for hosts.
            if wrong and _applied(source.data, {**firsts, key: value})[0] is not None:
                continue
            mistakes += [mistake.at((*place, index)) for mistake in wrong]
    return mistakes


def wrong_swept_values(data: Mapping[str, Any]) -> list[KeyMistake]:
    """Return swept values that are wrong by themselves, in a campaign with other mistakes.

    Only mistakes at the value's own key count: others may have their cause elsewhere in the
    workload.
    """
    shared = {key: data[key] for key in _workload_keys() if key in data}
    workloads = data.get("workloads")
    places: list[tuple[Path, Any]] = [((), {})]
    places += [
        (("workloads", index), workload)
        for index, workload in enumerate(workloads if isinstance(workloads, list) else ())
    ]
    mistakes = []
    for place, workload in places:
        sweep = (workload if place else data).get("sweep") if isinstance(workload, dict) else None
        base = {**shared, **workload, "name": "any"} if isinstance(workload, dict) else {}
        base.pop("sweep", None)
        for key, values in sweep.items() if isinstance(sweep, dict) else ():
            for index, value in enumerate(values if isinstance(values, list) else ()):
                wrong = _wrong_by_itself(base, str(key), value)
                mistakes += [mistake.at((*place, "sweep", key, index)) for mistake in wrong]
    return mistakes


def _wrong_by_itself(base: Mapping[str, Any], key: str, value: Any) -> list[KeyMistake]:
    try:
        _, path = override.with_value(base, override.SHORT_KEYS.get(key, key), value)
    except override.OverrideError:
        return []
    _, wrong = _applied(base, {key: value})
    return [mistake for mistake in wrong if mistake.path[: len(path)] == path]


def _combinations(
    source: WorkloadSource, wrong: list[KeyMistake]
) -> list[tuple[Workload, dict[str, Any]]]:
    combinations = []
    for values in itertools.product(*source.sweep.values()):
        chosen = dict(zip(source.sweep, values, strict=True))
        workload, mistakes = _applied(source.data, chosen)
        if workload is None:
            together = ", ".join(f"{key} {shown(value)}" for key, value in chosen.items())
            wrong += [
                KeyMistake(
                    source.path(("sweep",)),
                    f"{mistake.actual} with {together}",
                    mistake.allowed,
                    hint=mistake.hint,
                )
                for mistake in mistakes
            ]
            break
        swept = {_short(key): _value_at(workload, key) for key in chosen}
        combinations.append((workload, swept))
    return combinations


def _applied(
    data: Mapping[str, Any], chosen: Mapping[str, Any]
) -> tuple[Workload | None, list[KeyMistake]]:
    applied: Any = data
    for key, value in chosen.items():
        try:
            applied, _ = override.with_value(applied, override.SHORT_KEYS.get(key, key), value)
        except override.OverrideError as error:
            return None, [error.mistake]
    try:
        return Workload.model_validate(applied), []
    except ValidationError as error:
        # The schema is built only on errors: it takes longer than planning a small campaign.
        return None, translate(error, KnownKeys({"$ref": "Workload", **known_keys().schema}))


def _short(key: str) -> str:
    full = override.SHORT_KEYS.get(key, key)
    return next((short for short, name in override.SHORT_KEYS.items() if name == full), key)


def _value_at(workload: Workload, key: str) -> Any:
    value: Any = workload
    for step in override.SHORT_KEYS.get(key, key).split("."):
        if isinstance(value, BaseModel):
            value = getattr(value, _field_name(value, step))
        elif isinstance(value, tuple):
            labels = [entry.label for entry in value if isinstance(entry, Phase)]
            value = value[int(step) if step.isdigit() else labels.index(step)]
        else:
            value = value[step]
    return _plain(value)


def _field_name(model: BaseModel, key: str) -> str:
    key = "buckets" if key == "containers" else key
    fields = type(model).model_fields.items()
    return next(name for name, field in fields if key in (name, field.alias))


def _plain(value: Any) -> Any:
    if isinstance(value, FixedSize):
        return value.size_bytes
    if isinstance(value, FillLevel):
        return str(value)
    if isinstance(value, SizeLaw):
        return value.kind
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value
