"""The settings of scripts' generators, as a campaign and `loadstone script make` spell them."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.campaign.schema.values import PositiveCount, PositiveSize
from loadstone.errors import InputError

_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _read_bounds(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InputError.of_value(value, "the smallest and the largest number, like [1, 9]")
    return tuple(value)


class Users(BaseModel):
    """Users with private spaces and inboxes; the usual values are those of a published report."""

    model_config = _FROZEN

    users: PositiveCount = Field(default=10, description="How many users there are.")
    actions: PositiveCount = Field(
        default=1009, description="Actions of one copy of the sequence, making users apart."
    )
    copies: PositiveCount | None = Field(
        default=None,
        description="Copies of the sequence, each a session under a prefix of its own; as many as"
        " the load has threads when absent.",
    )
    size_bytes: PositiveSize | None = Field(
        default=None, alias="size", description="Size of each object; the dataset's when absent."
    )
    recipients: Annotated[tuple[PositiveCount, PositiveCount], BeforeValidator(_read_bounds)] = (
        Field(default=(1, 9), description="Fewest and most recipients of a share.")
    )
    contents: PositiveCount = Field(default=10, description="Different contents of objects.")

    @model_validator(mode="after")
    def _has_recipients(self) -> Self:
        fewest, most = self.recipients
        if fewest > most or most >= self.users:
            allowed = f"two numbers that rise, up to {self.users - 1}: one less than the users"
            raise KeyMistakesError(
                [KeyMistake(path=("recipients",), found=f"{fewest} to {most}", allowed=allowed)]
            )
        return self
