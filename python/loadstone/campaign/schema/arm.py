"""An arm: the server behind one target, which loadstone starts for each leg and stops after it."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import BeforeValidator, Field

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.hook import read_environment
from loadstone.campaign.schema.target import http_url
from loadstone.campaign.schema.values import URL_PATTERN, PositiveDuration, Section, Words
from loadstone.errors import shown

DATA = "{data}"
"""Stands in a command for the directory that is made for the leg."""


class Arm(Section):
    """How a server is started for a leg, when it is ready, and how it ends."""

    start: Words = Field(
        min_length=1,
        description="The command that serves until it is stopped, as a list of words; no shell "
        f"reads it. {DATA} stands for a new, empty directory of the leg.",
    )
    ready: Annotated[str, BeforeValidator(http_url)] = Field(
        pattern=URL_PATTERN,
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

    def mistakes(self) -> Iterator[KeyMistake]:
        if self.data is not None and not any(DATA in word for word in self.start):
            allowed = f"{DATA} in the command of start, which says where it is used"
            yield KeyMistake(("data",), shown(self.data), allowed)
