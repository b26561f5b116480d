"""Checks of documents against their types, and what is wrong with one."""

from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

Document = TypeVar("Document")


def adapter_of(kind: type[Document]) -> TypeAdapter[Document]:
    """Return the adapter that checks documents of a type; building one takes milliseconds."""
    adapter: TypeAdapter[Document] = _adapter(cast(Any, kind))
    return adapter


@cache
def _adapter(kind: Any) -> Any:
    return TypeAdapter(kind)


def first_mistake(error: ValidationError, *place: int | str) -> str:
    """Return the first value that does not fit, by its way from `place` on, and why not."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, (*place, *first["loc"]))), first["msg"])))
