"""Plans a calibration: loads against targets that do nothing, to find the load generator's limits.

The target is a null driver, a server that stores nothing, or files in memory. The trials are
ordinary ones, so that a request costs as much as in a campaign.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loadstone.campaign.drivers import (
    CalibrationFacts,
    Drivers,
    DriverTable,
    facts_of,
    read_drivers,
)
from loadstone.campaign.parse import campaign_of
from loadstone.campaign.planning import lifecycle
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.reading.source import Document
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError

NAME = "calibration"
NOWHERE = "127.0.0.1:1"
_CARRY_NO_DATA = frozenset({"head", "delete"})
_ONCE_ONLY = frozenset({"delete"})
_PREFIX = "loadstone-calibration-{target}-"
# The target stores nothing, so the dataset may be larger than any trial can use.
_OBJECTS_UNKEPT = 100_000_000
_OBJECTS_KEPT_MAX = 20_000
_OBJECTS_KEPT_MIN = 16
_BLOCK_OBJECT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Options of a calibration.

    `memory_bytes` limits the files in memory. Without `operations` each driver's usual ones are
    measured. `settings` are additional settings of the targets, such as payload signing.
    """

    drivers: tuple[str, ...]
    sizes: tuple[int, ...]
    threads: tuple[int, ...]
    duration_ns: int
    warm_up_ns: int
    verify: float
    operations: tuple[str, ...] = ()
    connections: str = "keep_alive"
    settings: Mapping[str, Any] | None = None
    memory_bytes: int = 256 << 20

    def operations_of(self, driver: str) -> tuple[str, ...]:
        """Return the requested operations that a driver can do."""
        if not self.operations:
            return calibration_of(driver).usual
        return tuple(name for name in self.operations if name in calibration_of(driver).can)

    @property
    def seconds(self) -> float:
        """Return roughly how long it will take, without the start-up of trials."""
        trials = sum(1 for _ in self._loads())
        return trials * (self.duration_ns + self.warm_up_ns) / 1e9

    def _loads(self) -> Iterator[tuple[str, int, int, str]]:
        for driver in self.drivers:
            for size in self.sizes:
                for operation in phases_of(self, driver, size):
                    for threads in self.threads:
                        yield driver, size, threads, operation


def calibration_of(driver: str) -> CalibrationFacts:
    """Return how a driver that can be calibrated is calibrated."""
    facts = facts_of(driver).calibration
    assert facts is not None, "drivers that cannot be calibrated are refused before"
    return facts


Settings = Callable[[str, int], Mapping[str, Any]]
"""Returns a target's settings, given its driver and the object size."""


def phases_of(wish: Wish, driver: str, size: int) -> tuple[str, ...]:
    """Return the operations to measure with a size; those without payload only with the
    smallest.
    """
    carries_data = size == min(wish.sizes)
    is_nothing = calibration_of(driver).stand_in == "itself"
    return tuple(
        operation
        for operation in wish.operations_of(driver)
        # A driver that is its own null target moves no bytes, so one size is enough.
        if carries_data or (operation not in _CARRY_NO_DATA and not is_nothing)
    )


def plan_calibration(
    wish: Wish, run: str, settings_of: Settings, drivers: DriverTable | None = None
) -> Plan:
    """Return the plan of a calibration, one driver after another."""
    table = read_drivers(drivers)
    check_wish(wish, table)
    plans = [
        make_plan(campaign_of(Document("", data), drivers=table, environ={}), table, run)
        for data in _campaigns(wish, settings_of, table)
    ]
    trials = [planned for plan in plans for planned in plan.trials if _is_needed(planned)]
    return Plan(
        name=NAME,
        seed=plans[0].seed,
        run=run,
        trials=tuple(
            replace(planned, document=_numbered(planned.document, number))
            for number, planned in enumerate(trials, start=1)
        ),
        drivers={name: driver for plan in plans for name, driver in plan.drivers.items()},
        replication={},
    )


def check_wish(wish: Wish, drivers: Drivers) -> None:
    """Raise InputError if a driver or a setting cannot be applied."""
    if not (wish.drivers and wish.sizes and wish.threads):
        raise InputError("there is nothing to calibrate", "name drivers, sizes and threads")
    for driver in wish.drivers:
        if not wish.operations_of(driver):
            raise InputError(
                f"driver {driver}: none of {', '.join(wish.operations)} can be calibrated",
                f"it has {', '.join(sorted(calibration_of(driver).can))}; "
                "name other operations or drivers",
            )
    for name in wish.settings or {}:
        if not any(drivers[driver].setting(name) for driver in wish.drivers):
            raise InputError(
                f'setting "{name}": no driver of {", ".join(wish.drivers)} has it',
                "see: loadstone list drivers NAME",
            )


def served_documents(wish: Wish, run: str) -> Mapping[tuple[str, int], TrialDocument]:
    """Return the trials whose reads need a server with objects, by driver and size in bytes."""
    documents = {}
    for driver in wish.drivers:
        for size in wish.sizes if facts_of(driver).is_served else ():
            if phases_of(wish, driver, size):
                server_wish = replace(
                    wish, drivers=(driver,), sizes=(size,), threads=wish.threads[:1], settings=None
                )
                plan = plan_calibration(
                    server_wish, run, lambda name, _: address_settings(name, NOWHERE)
                )
                documents[driver, size] = plan.trials[0].document
    return documents


def address_settings(driver: str, address: str) -> Mapping[str, Any]:
    """Return the settings that connect a driver to a null server."""
    secret = {"env": "LOADSTONE_CALIBRATION_SECRET"}
    return {
        name: secret if text == "{secret}" else text.format(address=address)
        for name, text in calibration_of(driver).settings
    }


def _campaigns(wish: Wish, settings_of: Settings, drivers: Drivers) -> Iterator[dict[str, Any]]:
    for driver in wish.drivers:
        # Each driver gets only the settings that it has.
        chosen = {
            name: value
            for name, value in (wish.settings or {}).items()
            if drivers[driver].setting(name)
        }
        for size in wish.sizes:
            phases = [_phase(wish, name, size) for name in phases_of(wish, driver, size)]
            for threads in wish.threads if phases else ():
                settings = {**settings_of(driver, size), **chosen}
                yield {
                    "name": NAME,
                    "seed": 1,
                    "targets": {driver: {"driver": driver, **settings}},
                    "dataset": _dataset(wish, driver, size),
                    "load": {"threads": threads},
                    "verify": wish.verify,
                    "connections": wish.connections,
                    "clean_up": "early",
                    "phases": phases,
                }


def _phase(wish: Wish, operation: str, size: int) -> dict[str, Any]:
    phase: dict[str, Any] = {"op": operation, "duration": f"{wish.duration_ns}ns"}
    if operation not in _ONCE_ONLY:
        phase["warm_up"] = f"{wish.warm_up_ns}ns"
    if operation in ("read", "write"):
        phase["range"] = size
    return phase


def _dataset(wish: Wish, driver: str, size: int) -> dict[str, Any]:
    stand_in = calibration_of(driver).stand_in
    if stand_in == "blocks_in_memory" or {"read", "write"} & set(wish.operations_of(driver)):
        whole = max(size, _BLOCK_OBJECT_BYTES - _BLOCK_OBJECT_BYTES % size)
        return {"objects": max(1, wish.memory_bytes // whole), "size": whole, "prefix": _PREFIX}
    objects = _OBJECTS_UNKEPT
    if stand_in == "objects_in_memory":
        most = wish.memory_bytes // max(size, 4096)
        objects = max(_OBJECTS_KEPT_MIN, min(_OBJECTS_KEPT_MAX, most))
    return {"objects": objects, "size": size, "prefix": _PREFIX}


def _numbered(document: TrialDocument, number: int) -> TrialDocument:
    """Return a document with its number; synthetic objects always have their first version."""
    dataset = lifecycle.dataset_of(document)
    if facts_of(document["target"]["driver"]).is_served:
        dataset = {**dataset, "version": 1}
    return {**document, "id": f"{number:04d}", "dataset": dataset}


def _is_needed(planned: PlannedTrial) -> bool:
    """Tell whether a trial is needed: targets that store nothing are neither filled nor emptied."""
    return planned.is_measured or not facts_of(planned.document["target"]["driver"]).is_served
