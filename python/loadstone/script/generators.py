"""Generators make a script from settings and a seed; GENERATORS has a line for each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from loadstone.campaign.reading.mistakes import KnownKeys, SourceFile, translate
from loadstone.campaign.schema.script import Users
from loadstone.documents.json_schema import schema_of
from loadstone.errors import CampaignError, InputError
from loadstone.script import users
from loadstone.script.table import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A generator: the type of its settings, and a function of settings and seed."""

    name: str
    summary: str
    settings: type[BaseModel]
    make: Callable[[Any, int], Iterator[Action]]


GENERATORS: Mapping[str, Generator] = {
    generator.name: generator
    for generator in (
        Generator(
            name="users",
            summary="users who write, read, list, delete and share objects of private spaces and"
            " inboxes",
            settings=Users,
            make=users.make,
        ),
    )
}


def find_generator(name: str) -> Generator:
    """Return a generator by its name."""
    if name not in GENERATORS:
        raise InputError.of_value(name, f"a generator: {', '.join(GENERATORS)}")
    return GENERATORS[name]


def read_settings(generator: Generator, given: Mapping[str, Any]) -> Any:
    """Return a generator's settings; raise all mistakes in them at once."""
    try:
        return generator.settings.model_validate(dict(given))
    except ValidationError as error:
        known = KnownKeys(schema_of(generator.settings))
        source = SourceFile()
        raise CampaignError(
            [source.place(mistake) for mistake in translate(error, known)]
        ) from error
