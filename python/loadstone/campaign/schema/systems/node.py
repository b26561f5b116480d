"""A node: a machine behind a target, or a client, and how it is reached to be described."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loadstone.campaign.schema.values import Flag
from loadstone.errors import InputError

# Nothing that ssh would take for a flag, a command or a list of hops.
_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")


def _read_host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise InputError.of_value(value, "a host's name or address, as ssh takes it")
    return value


def _read_user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise InputError.of_value(value, "a user's name")
    return value


class Node(BaseModel):
    """One machine. Without `host` it is the one that runs the campaign."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    host: Annotated[str, AfterValidator(_read_host)] | None = Field(
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
        description="Whether memory modules are read by sudo, which must not ask for a password.",
    )
