"""Mistakes of a refused campaign by their fields, so that the wording may change."""

from collections.abc import Iterable

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.errors import Mistake

Place = tuple[str, int | None, str]


def places(mistakes: Iterable[Mistake]) -> list[Place]:
    """Return the file, the line and the key of each."""
    return [(mistake.origin, mistake.line, mistake.key) for mistake in mistakes]


def findings(mistakes: Iterable[Mistake]) -> list[tuple[int | None, str, str]]:
    """Return the line, the key and the actual value of each."""
    return [(mistake.line, mistake.key, mistake.actual) for mistake in mistakes]


def names(text: str | None, *facts: str) -> bool:
    """Return whether a text, such as a hint, names all of these facts."""
    return text is not None and all(fact in text for fact in facts)


def is_reported(mistakes: Iterable[Mistake | KeyMistake], key: str, *facts: str) -> bool:
    """Return whether there is one mistake, at a key, and its text names these facts.

    The text is the actual value, an arrow, the allowed ones, and the hint.
    """
    (mistake,) = mistakes
    place = mistake.key if isinstance(mistake, Mistake) else ".".join(map(str, mistake.path))
    return place == key and names(f"{mistake.actual} -> {mistake.allowed}\n{mistake.hint}", *facts)
