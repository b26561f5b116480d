"""The settings of scripts' generators, as a campaign and `loadstone script make` spell them."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.values import PositiveCount, PositiveNumber, PositiveSize, Section
from loadstone.errors import InputError

TYPES_MAX = 10
"""Maximum number of user types: each type, action and space is counted separately."""


def _read_bounds(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InputError.of_value(value, "the smallest and the largest number, like [1, 9]")
    return tuple(value)


class UserType(Section):
    """Users of one type: their share of all users, and their actions."""

    share: PositiveNumber = Field(
        default=1, description="Its share of the users, as a weight against the other types."
    )
    mix: dict[Literal["WRITE", "READ", "LIST", "DELETE", "SHARE"], PositiveNumber] | None = Field(
        default=None,
        min_length=1,
        description="Weights of its actions; default: those of the published sequence.",
    )


class Users(Section):
    """Users with private spaces and inboxes; the defaults are those of a published report."""

    users: PositiveCount = Field(default=10, description="Number of users.")
    actions: PositiveCount = Field(
        default=1009,
        description="Actions of one copy of the sequence, without the creation of users.",
    )
    copies: PositiveCount | None = Field(
        default=None,
        description="Copies of the sequence, each a session under its own prefix; "
        "default: one for each thread of the load.",
    )
    size_bytes: PositiveSize | None = Field(
        default=None, alias="size", description="Size of each object; default: that of the dataset."
    )
    recipients: Annotated[tuple[PositiveCount, PositiveCount], BeforeValidator(_read_bounds)] = (
        Field(default=(1, 9), description="Minimum and maximum number of recipients of a share.")
    )
    contents: PositiveCount = Field(
        default=10, description="Number of different contents of objects."
    )
    types: dict[str, UserType] = Field(
        default={},
        description="Types of users, each with its share of the users and its mix of "
        "actions; actions are dealt to types like users. Reports have rows "
        "for each.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        for name in self.types:
            if not name or not name.isprintable():
                yield KeyMistake(("types",), repr(name), "names that can be printed")
        most = min(self.users, TYPES_MAX)
        if len(self.types) > most:
            allowed = f"at most {most}" + (", as there are users" if most < TYPES_MAX else "")
            yield KeyMistake(("types",), f"{len(self.types)} types", allowed)
        fewest, most = self.recipients
        if fewest > most or most >= self.users:
            allowed = f"two numbers that rise, up to {self.users - 1}: one less than the users"
            yield KeyMistake(("recipients",), f"{fewest} to {most}", allowed)


class Script(Section):
    """A script instead of an operation: by a generator, or from a file."""

    generator: Literal["users"] | None = Field(
        default=None, description="The generator that makes the script."
    )
    settings: Users | None = Field(
        default=None, description="The generator's settings; default: those of the generator."
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        description="Instead: a script in Parquet or CSV, such as loadstone script "
        "writes; its path is relative to the campaign's folder.",
    )
    speed: PositiveNumber | None = Field(
        default=None,
        description="Actions are due at the script's times, which pass this many times "
        "as fast. Without it, each action follows the one before in its "
        "session.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if (self.generator is None) == (self.file is None):
            actual = "neither" if self.file is None else "both generator and file"
            yield KeyMistake((), actual, "one of generator and file")
        if self.settings is not None and self.generator is None:
            yield KeyMistake(("settings",), "this key without generator", "this key with one")
        if self.speed is not None and self.generator is not None:
            allowed = "this key with a file that has times: a generated script has none"
            yield KeyMistake(("speed",), f"this key with generator {self.generator}", allowed)
