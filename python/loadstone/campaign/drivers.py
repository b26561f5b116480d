"""Capabilities and facts of this installation's drivers, from the load generator's table.

Each driver states its facts in its own Rust source. No Python module names a driver.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadstone import _loadgen


class _Row(BaseModel):
    # Settings of unknown kinds are accepted here and checked by the driver itself.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Setting(_Row):
    """One key of a driver's settings.

    `kind` is text, choice, text_or_reference, secret, flag, number, texts or map.
    """

    name: str
    kind: str
    required: bool = False
    default: str | None = None
    help: str = ""
    secret: bool = False
    choices: tuple[str, ...] = ()

    @property
    def usual(self) -> bool | str | None:
        """Return the default, spelt as in a campaign."""
        return self.default == "true" if self.kind == "flag" else self.default


class Address(_Row):
    """The settings with a target's address: none, URLs, a local path, or a name on the target."""

    kind: Literal["none", "urls", "path", "name"] = "none"
    settings: tuple[str, ...] = ()


class Variable(_Row):
    """An environment variable and the setting that it fills; secrets are kept as references."""

    name: str
    setting: str
    is_secret: bool = False
    argument: str | None = None


class BucketNames(_Row):
    """Rules for names of buckets."""

    length_min: int = 1
    length_max: int = 63
    capitals_and_underscores: bool = True


class ProtocolLimits(_Row):
    """Limits of a target's protocol; None where there is no relevant limit."""

    put_bytes_max: int | None = None
    object_bytes_max: int | None = None
    part_bytes_min: int | None = None
    parts_max: int | None = None
    bulk_keys_max: int | None = None
    key_bytes_max: int | None = None
    name_bytes_max: int | None = None


class Throttling(_Row):
    """Answers by which the target throttles clients."""

    statuses: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()


class CalibrationFacts(_Row):
    """How the load generator's own limit with a driver is measured."""

    stand_in: Literal["itself", "server", "objects_in_memory", "blocks_in_memory"]
    settings: tuple[tuple[str, str], ...] = ()
    usual: tuple[str, ...]
    can: tuple[str, ...]
    costs: tuple[str, ...] = ()

    @property
    def is_in_memory(self) -> bool:
        """Whether objects are kept in the memory of this host."""
        return self.stand_in in ("objects_in_memory", "blocks_in_memory")


class Facts(_Row):
    """Facts about a driver; the defaults claim nothing special."""

    place: str = "bucket"
    address: Address = Field(default_factory=Address)
    connects: bool = False
    protocol: str = ""
    keeps: bool = True
    encrypts_paths: bool = False
    reads_existing: bool = False
    metadata_follows: bool = False
    tears: tuple[str, ...] = ()
    is_ceph_pool: bool = False
    words: tuple[str, ...] = ()
    environment: tuple[tuple[Variable, ...], ...] = ()
    bucket_names: BucketNames = Field(default_factory=BucketNames)
    limits: ProtocolLimits = Field(default_factory=ProtocolLimits)
    throttling: Throttling = Field(default_factory=Throttling)
    calibration: CalibrationFacts | None = None

    @property
    def is_served(self) -> bool:
        """Whether calibration needs a server on this host, which competes for its processors."""
        return self.calibration is not None and self.calibration.stand_in == "server"


class Driver(_Row):
    """One way to access a kind of target."""

    name: str
    summary: str = ""
    operations: tuple[str, ...]
    settings: tuple[Setting, ...] = ()
    encrypts: bool = False
    facts: Facts = Field(default_factory=Facts)
    is_for_tests: bool = False

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name, or None."""
        return next((setting for setting in self.settings if setting.name == name), None)

    def variables_of(self, setting: str) -> list[str]:
        """Return the environment variables that fill this setting without any other."""
        return [
            variable.name
            for group in self.facts.environment
            for variable in group
            if variable.setting == setting and variable.argument is None
        ]


Drivers = Mapping[str, Driver]

# Drivers by name, or rows of the load generator's table.
DriverTable = Drivers | Iterable[Mapping[str, Any]]


def read_drivers(table: DriverTable | None = None) -> Drivers:
    """Return the drivers by name, from `table` or else from the load generator's own table."""
    if isinstance(table, Mapping):
        return table
    if table is None:
        return {name: driver for name, driver in _all().items() if not driver.is_for_tests}
    return {driver.name: driver for driver in map(Driver.model_validate, table)}


def facts_of(name: str) -> Facts:
    """Return the facts of a driver; empty facts for a driver that this build lacks."""
    driver = _all().get(name)
    return Facts() if driver is None else driver.facts


def addresses_of(facts: Facts, settings: Mapping[str, Any]) -> list[str]:
    """Return the URLs in a target's settings, the most specific first."""
    if facts.address.kind != "urls":
        return []
    values = [settings.get(name) for name in facts.address.settings]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [url for value in lists for url in value if isinstance(url, str)]


def calibrated_drivers() -> Drivers:
    """Return the drivers that can be calibrated."""
    drivers = read_drivers()
    return {
        name: driver for name, driver in drivers.items() if driver.facts.calibration is not None
    }


@cache
def _all() -> Drivers:
    return read_drivers(_loadgen.drivers(with_tests=True))
