"""Kinds of values of a campaign's keys: how they are spelt, and their internal form.

Each kind parses its spellings, keeps the value as nanoseconds, bytes or a fraction, and formats it
in a spelling that parses to the same value, so that a campaign can be stored and read again.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.errors import InputError


class Section(BaseModel):
    """A section of a campaign file: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def mistakes(self) -> Iterator[KeyMistake]:
        """Yield each key whose value conflicts with other keys of the section."""
        yield from ()

    @model_validator(mode="after")
    def _refuse_mistakes(self) -> Self:
        if mistakes := list(self.mistakes()):
            raise KeyMistakesError(mistakes)
        return self


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
URL_PATTERN = r"^https?://[^/@\s]+(/\S*)?$"
"""A URL without user and password."""
NAME_ALLOWED = "a name of letters, digits, dots, dashes and underscores, at most 64"


def _between(
    read: Callable[[Any], Any], allowed: str, least: float, most: float | None = None
) -> Callable[[Any], Any]:
    def read_between(value: Any) -> Any:
        result = read(value)
        if result < least or (most is not None and result > most):
            raise InputError.of_value(value, allowed)
        return result

    return read_between


def _read_count(value: Any) -> int:
    if isinstance(value, (int, str)):
        return units.parse_count(value)
    raise InputError.of_value(value, units.COUNT_ALLOWED)


def _read_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InputError.of_value(value, "true or false")


def _read_verify(value: Any) -> float:
    return float(value) if isinstance(value, bool) else units.parse_fraction(value)


def _read_number(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise InputError.of_value(value, "a number")


def _read_words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise InputError.of_value(
            value,
            "a list of words, like [systemctl, restart, ceph-osd@1]",
            "no shell splits a line into words here",
        )
    return tuple(_read_word(word) for word in value)


def _read_word(value: Any) -> str:
    # YAML parses a bare true or 3 as a boolean or number, which is not meant in a command.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int)):
        return str(value)
    raise InputError.of_value(value, "a word; a number with a point in quotes")


def _text_or_integer(description: str) -> dict[str, Any]:
    return {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}],
        "description": description,
    }


def _text_or_number(description: str) -> dict[str, Any]:
    return {
        "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
        "description": description,
    }


def format_duration_exactly(duration_ns: int) -> str:
    """Return a duration in the largest unit that is exact: "300s", "250ms"."""
    for unit in ("s", "ms", "us"):
        if duration_ns % units.DURATION_UNITS[unit] == 0:
            return f"{duration_ns // units.DURATION_UNITS[unit]}{unit}"
    return f"{duration_ns}ns"


Size = Annotated[
    int,
    BeforeValidator(units.parse_size),
    PlainSerializer(units.format_size, return_type=str),
    WithJsonSchema(_text_or_integer(units.SIZE_ALLOWED)),
]
PositiveSize = Annotated[
    int,
    BeforeValidator(_between(units.parse_size, "a size of at least 1 byte", 1)),
    PlainSerializer(units.format_size, return_type=str),
    WithJsonSchema(_text_or_integer(units.SIZE_ALLOWED)),
]
Duration = Annotated[
    int,
    BeforeValidator(units.parse_duration_ns),
    PlainSerializer(format_duration_exactly, return_type=str),
    WithJsonSchema(_text_or_number(units.DURATION_ALLOWED)),
]
PositiveDuration = Annotated[
    int,
    BeforeValidator(_between(units.parse_duration_ns, "a duration of at least 1ms", 1_000_000)),
    PlainSerializer(format_duration_exactly, return_type=str),
    WithJsonSchema(_text_or_number(units.DURATION_ALLOWED)),
]
Rate = Annotated[
    float, BeforeValidator(units.parse_rate), WithJsonSchema(_text_or_number(units.RATE_ALLOWED))
]
Fraction = Annotated[
    float,
    BeforeValidator(units.parse_fraction),
    WithJsonSchema(_text_or_number(units.FRACTION_ALLOWED)),
]
Verify = Annotated[
    float,
    BeforeValidator(_read_verify),
    WithJsonSchema(
        {
            "anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}, {"type": "string"}],
            "description": f"true, false, or {units.FRACTION_ALLOWED}",
        }
    ),
]
Count = Annotated[
    int, BeforeValidator(_read_count), WithJsonSchema(_text_or_integer(units.COUNT_ALLOWED))
]
PositiveCount = Annotated[
    int,
    BeforeValidator(_between(_read_count, "a whole number of at least 1", 1)),
    WithJsonSchema(_text_or_integer("a whole number of at least 1; underscores may group digits")),
]
Number = Annotated[float, BeforeValidator(_read_number), WithJsonSchema({"type": "number"})]
PositiveNumber = Annotated[
    float,
    BeforeValidator(_between(_read_number, "a number above 0", 1e-300)),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]
Flag = Annotated[bool, BeforeValidator(_read_flag), WithJsonSchema({"type": "boolean"})]
Words = Annotated[
    tuple[str, ...],
    BeforeValidator(_read_words),
    WithJsonSchema({"type": "array", "items": {"type": ["string", "integer", "boolean"]}}),
]


class OneOrMany:
    """A list whose single entry may be written without brackets; `flag` is a shorthand for the
    list.
    """

    def __init__(self, flag: tuple[bool, list[Any]] | None = None) -> None:
        self._flag = flag

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        array_schema = handler(schema)
        choices = [array_schema, array_schema["items"]]
        return {"anyOf": choices + ([{"const": self._flag[0]}] if self._flag else [])}

    def _read(self, value: Any) -> Any:
        if self._flag is not None and value is self._flag[0]:
            return self._flag[1]
        return value if isinstance(value, (list, tuple)) else [value]


Names = Annotated[tuple[str, ...], OneOrMany()]
