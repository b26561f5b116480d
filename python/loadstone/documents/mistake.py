"""What is wrong with a document that was checked against its type."""

from pydantic import ValidationError


def first_mistake(error: ValidationError, *place: int | str) -> str:
    """Return the first value that does not fit, by its way from `place` on, and why not."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, (*place, *first["loc"]))), first["msg"])))
