"""Values of secrets, for the commands that need them; never for a record."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from loadstone.errors import InputError

HIDDEN = "***"
# A shorter value would be found in words that have nothing to do with it.
SHORTEST = 4


def resolve(reference: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the value that a reference leads to."""
    match reference:
        case {"env": name}:
            if name not in environ:
                raise InputError(f'the environment has no variable "{name}"', "set it, and start")
            return environ[name]
        case {"file": path}:
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text"
                raise InputError(f'cannot read the secret in "{path}": {reason}') from error
    raise InputError(f"found {reference}, allowed a reference: {{env: NAME}} or {{file: PATH}}")


def hide(text: str, values: Iterable[str]) -> str:
    """Return a text with the values of secrets blotted out."""
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, HIDDEN)
    return text


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
