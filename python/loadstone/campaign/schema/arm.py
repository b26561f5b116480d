"""An arm: the server behind one target, which loadstone starts for each leg and stops after it."""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.campaign.schema.hook import read_environment
from loadstone.campaign.schema.values import PositiveDuration, Words
from loadstone.errors import shown

DATA = "{data}"
"""Stands in a command for the directory that is made for the leg."""


class Arm(BaseModel):
    """How a server is started for a leg, when it is ready, and how it ends."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: Words = Field(
        min_length=1,
        description="The command that serves until it is stopped, as a list of words; no shell "
        f"reads it. {DATA} stands for a new, empty directory of the leg.",
    )
    ready: str = Field(
        pattern=r"^https?://[^/@\s]+(/\S*)?$",
        description="A URL that answers once the server is ready, with any status below 500.",
    )
    stop: Words = Field(
        default=(),
        description="The command that stops the server; default: SIGTERM to its process group.",
    )
    data: str | None = Field(
        default=None,
        description="Directory in which each leg gets a directory of its own; default: the run "
        "folder.",
    )
    ready_timeout_ns: PositiveDuration = Field(
        default=60_000_000_000, alias="ready_timeout", description="Most time until it is ready."
    )
    stop_timeout_ns: PositiveDuration = Field(
        default=30_000_000_000,
        alias="stop_timeout",
        description="Most time until it has ended; after that its process group is killed.",
    )
    env: Annotated[dict[str, str | dict[str, str]], BeforeValidator(read_environment)] = Field(
        default={},
        description="Variables for the commands; a secret as {env: NAME} or {file: PATH}.",
    )

    @model_validator(mode="after")
    def _uses_data(self) -> Self:
        if self.data is not None and not any(DATA in word for word in self.start):
            raise KeyMistakesError(
                [
                    KeyMistake(
                        path=("data",),
                        actual=shown(self.data),
                        allowed=f"{DATA} in the command of start, which says where it is used",
                    )
                ]
            )
        return self
