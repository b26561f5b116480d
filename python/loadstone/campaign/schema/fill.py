"""How full a store is made before its load: a share of its size, or bytes that are written."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from loadstone import units
from loadstone.errors import InputError

SHARE_MAX = 0.9
"""Beyond this, stores refuse writes: Ceph does at 95 %, and its OSDs do not fill alike."""

ALLOWED = (
    f"a share of the store's size up to {SHARE_MAX:.0%}, in quotes or plain: 60%; or a size: 500GiB"
)


@dataclass(frozen=True, slots=True)
class FillLevel:
    """A level: `share` of the store where it tells its size, else `size_bytes`."""

    share: float | None = None
    size_bytes: int | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is to be written."""
        return not self.share and not self.size_bytes

    @property
    def order(self) -> tuple[bool, float]:
        """What levels are sorted by, the lowest first."""
        return self.share is None, self.share or self.size_bytes or 0

    def parameters(self) -> dict[str, float]:
        """Return the level as a parameter of results; 60 of a hundred is a number to draw by."""
        if self.share is None:
            return {"fill_bytes": self.size_bytes or 0}
        percent = round(self.share * 100, 6)
        return {"fill_percent": int(percent) if percent.is_integer() else percent}

    def __str__(self) -> str:
        if self.share is None:
            return units.format_size(self.size_bytes or 0)
        return f"{round(self.share * 100, 6):g}%"


def _read_level(value: Any) -> FillLevel:
    if isinstance(value, FillLevel):
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            share = units.parse_fraction(value)
        except InputError as error:
            raise InputError.of_value(value, ALLOWED) from error
        if share > SHARE_MAX:
            raise InputError.of_value(value, ALLOWED)
        return FillLevel(share=share)
    # A bare 0.6 may mean a share to who writes it, and is no size to who reads it.
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            return FillLevel(size_bytes=units.parse_size(value))
        except InputError as error:
            raise InputError.of_value(value, ALLOWED) from error
    raise InputError.of_value(value, ALLOWED)


FillValue = Annotated[
    FillLevel,
    BeforeValidator(_read_level),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "description": ALLOWED}
    ),
]
