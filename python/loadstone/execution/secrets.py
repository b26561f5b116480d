"""Resolves secrets for the commands that need them; values are never recorded."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from loadstone import _loadgen
from loadstone.errors import InputError

KEPT_FROM_PROGRAMS = frozenset(
    {
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LOADSTONE_PASSWORD",
        "LOADSTONE_SECRET_KEY",
        "OS_APPLICATION_CREDENTIAL_SECRET",
        "OS_AUTH_TOKEN",
        "OS_PASSWORD",
        "OS_TOKEN",
        "ST_KEY",
    }
)
"""Variables that always hold secrets, whatever the campaign."""

_NAMED: set[str] = set()


def resolve(reference: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the value of a reference to a secret."""
    match reference:
        case {"env": name}:
            if name not in environ:
                named = _loadgen.variable_named(name)
                raise InputError(f"the environment has no variable {named}", "set it, and start")
            return environ[name]
        case {"file": path}:
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not valid UTF-8"
                named = _loadgen.file_named(path)
                raise InputError(
                    f"cannot read the secret in the file {named}: {reason}",
                    "give the path of a file that is there: {file: PATH}",
                ) from error
    raise InputError("found no reference to a secret, allowed {env: NAME} or {file: PATH}")


def resolved(document: object, environ: Mapping[str, str]) -> object:
    """Return a document with each reference to a secret replaced by its value."""
    match document:
        case {"env": str()} | {"file": str()} if isinstance(document, dict) and len(document) == 1:
            return resolve(document, environ)
        case dict():
            return {name: resolved(value, environ) for name, value in document.items()}
    return document


def hide(text: str, values: Iterable[str]) -> str:
    """Return a text fit for a record: secrets masked, control characters escaped."""
    return _loadgen.plain(_loadgen.blot(text, list(values)))


def values_in(document: object, environ: Mapping[str, str]) -> list[str]:
    """Return the values of all secrets that a document names and that this host has."""
    values = []
    for reference in references_in(document):
        try:
            values.append(resolve(reference, environ))
        except InputError:
            continue
    return values


def keep_from_programs(document: object) -> None:
    """Remove the campaign's secret variables from the environment that programs inherit."""
    _NAMED.update(reference["env"] for reference in references_in(document) if "env" in reference)


def inherited() -> dict[str, str]:
    """Return the environment for programs that a run starts, without secrets.

    A program that needs a secret gets it explicitly, like a hook by its `env`.
    """
    hidden = KEPT_FROM_PROGRAMS | _NAMED
    return {name: value for name, value in os.environ.items() if name not in hidden}


def references_in(document: object) -> Iterable[Mapping[str, str]]:
    """Yield every reference to a secret in a campaign's document."""
    match document:
        case {"env": str()} | {"file": str()} if isinstance(document, dict) and len(document) == 1:
            yield document
        case dict():
            for value in document.values():
                yield from references_in(value)
        case list() | tuple():
            for value in document:
                yield from references_in(value)
