"""What the drivers of this installation can do and want to be told: the load generator's table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone.errors import LoadstoneError


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of a driver's settings.

    `kind` is text, choice, text_or_reference, secret, flag, number, texts or map; a kind that is
    not known here is left for the driver itself to judge.
    """

    name: str
    kind: str
    required: bool = False
    default: str | None = None
    help: str = ""
    secret: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One way of reaching a kind of target."""

    name: str
    summary: str = ""
    operations: tuple[str, ...]
    settings: tuple[Setting, ...] = ()
    encrypts: bool = False

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name, or None."""
        return next((setting for setting in self.settings if setting.name == name), None)


Drivers = Mapping[str, Driver]

# What callers may pass: drivers by name, or the rows of the load generator's table.
DriverTable = Drivers | Iterable[Mapping[str, Any]]


def read_drivers(table: DriverTable | None = None) -> Drivers:
    """Return the drivers by name: from rows as the load generator gives them, or from itself."""
    if isinstance(table, Mapping):
        return table
    rows = _load_generator_table() if table is None else table
    return {row["name"]: _driver(row) for row in rows}


def _load_generator_table() -> Sequence[Mapping[str, Any]]:
    # Imported here, so that reading units or a schema needs no compiled extension.
    try:
        from loadstone import _loadgen
    except ImportError as error:
        raise LoadstoneError(
            f"cannot load the load generator, loadstone._loadgen: {error}",
            'build it with "make build", or install the loadstone wheel',
        ) from error
    table: Sequence[Mapping[str, Any]] = _loadgen.drivers()
    return table


def _driver(row: Mapping[str, Any]) -> Driver:
    return Driver(
        name=row["name"],
        summary=row.get("summary", ""),
        operations=tuple(row["operations"]),
        encrypts=bool(row.get("encrypts")),
        settings=tuple(
            Setting(
                name=setting["name"],
                kind=setting["kind"],
                required=bool(setting.get("required")),
                default=setting.get("default"),
                help=setting.get("help", ""),
                secret=bool(setting.get("secret")),
                choices=tuple(setting.get("choices") or ()),
            )
            for setting in row.get("settings", ())
        ),
    )
