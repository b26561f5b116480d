"""A node: a machine behind a target, or a client, and how it is reached to be described."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.campaign.schema.systems.node_probe import NodeProbe, read_host
from loadstone.campaign.schema.values import Flag
from loadstone.errors import InputError

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")


def _read_user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise InputError.of_value(value, "a user's name")
    return value


class Node(BaseModel):
    """One machine. Without `host` it is the one that runs the campaign."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    host: Annotated[str, AfterValidator(read_host)] | None = Field(
        default=None, description="Its name or address for ssh; absent: this machine."
    )
    user: Annotated[str, AfterValidator(_read_user)] | None = Field(
        default=None, description="Whom to log in as; else what ssh's own configuration says."
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="The port of its sshd; else what ssh's own configuration says."
    )
    roles: tuple[str, ...] = Field(
        default=(), description='What runs there, such as "mon", "osd", "client".'
    )
    sudo: Flag = Field(
        default=False,
        description="Whether memory modules, and devices that are probed, are read by sudo, which "
        "must not ask for a password.",
    )
    probes: tuple[NodeProbe, ...] = Field(
        default=(), description="What is measured there before any load; nothing when absent."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        networks = [index for index, one in enumerate(self.probes) if one.kind == "network"]
        if len(networks) > 1:
            wrong = KeyMistake(
                path=("probes", networks[1]), found="a second network", allowed="one of a node"
            )
            raise KeyMistakesError([wrong])
        return self
