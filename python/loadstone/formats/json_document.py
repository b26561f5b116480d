"""Typed access to JSON of other programs, with errors that name the value's path.

A document is traversed as a tree of nodes that know their path, so that a value of the wrong type
is refused as `jobs.0.read.iops` of its file, and never causes an internal error.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from loadstone.formats.reading import EDITED, LARGEST, TRUNCATED, FileLine, read_text

T = TypeVar("T")

WHOLE = "the file must hold what the tool wrote, and nothing else"


class _NumberError(ValueError):
    """A number that is invalid in JSON or out of range."""


@dataclass(frozen=True, slots=True)
class JsonNode:
    """One value of a document; `path` is its path from the top."""

    place: FileLine
    value: Any
    path: tuple[str, ...] = ()

    def at(self, *names: str) -> "JsonNode":
        """Return a required value below this one."""
        node = self
        for name in names:
            if not isinstance(node.value, Mapping) or name not in node.value:
                self.place.refuse(f'has no "{".".join((*node.path, name))}"', TRUNCATED)
            node = JsonNode(self.place, node.value[name], (*node.path, name))
        return node

    def find(self, name: str) -> "JsonNode | None":
        """Return a direct child of this value; None if it is absent or null."""
        if not isinstance(self.value, Mapping):
            self._refuse("an object")
        value = self.value.get(name)
        return None if value is None else JsonNode(self.place, value, (*self.path, name))

    def items(self) -> list["JsonNode"]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            self._refuse("a list")
        return [JsonNode(self.place, v, (*self.path, str(n))) for n, v in enumerate(self.value)]

    def entries(self) -> Iterator[tuple[str, "JsonNode"]]:
        """Yield the names and values of an object."""
        if not isinstance(self.value, Mapping):
            self._refuse("an object")
        for name, value in self.value.items():
            yield name, JsonNode(self.place, value, (*self.path, name))

    def mapping(self) -> Mapping[str, Any]:
        """Return an object unchanged."""
        if not isinstance(self.value, Mapping):
            self._refuse("an object")
        members: Mapping[str, Any] = self.value
        return members

    def read_as(self, kind: TypeAdapter[T]) -> T:
        """Validate an object by a type, which contains only the used keys."""
        try:
            return kind.validate_python(self.mapping())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong = JsonNode(self.place, first["input"], (*self.path, *map(str, first["loc"])))
            wrong._refuse(first["msg"].removeprefix("Input should be "))

    def whole(self, smallest: int = 0, largest: int = LARGEST) -> int:
        """Return a whole number, which some programs write as text."""
        number = self.number(math.inf)
        if number != number // 1:
            self._refuse("a whole number")
        # Converting through a float would round a large number.
        exact = int(self.value) if isinstance(self.value, int) else int(number)
        if not smallest <= exact <= largest:
            self._refuse(f"a number from {smallest} to {largest}")
        return exact

    def number(self, largest: float = float(LARGEST)) -> float:
        """Return a number that is not negative; some programs write it as text."""
        try:
            if isinstance(self.value, bool):
                raise TypeError
            number = float(self.value)
        except (TypeError, ValueError, OverflowError):
            self._refuse("a number")
        if not 0 <= number <= largest:
            self._refuse(f"a number from 0 to {largest:g}")
        return number

    def positive(self) -> float:
        """Return a number that is used as a divisor."""
        number = self.number()
        if number == 0:
            self._refuse("a number above 0")
        return number

    def _refuse(self, expected: str) -> NoReturn:
        shown = json.dumps(self.value, default=str)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        self.place.refuse(f"found {shown}, expected {expected}", EDITED, ".".join(self.path))


def read_document(path: Path) -> JsonNode:
    """Read a file's last JSON object; earlier ones are intermediate reports."""
    return read_documents(path)[-1]


def read_documents(path: Path) -> list[JsonNode]:
    """Read the JSON objects of a file, at least one; errors name the line.

    Programs print messages before and after their JSON. Those lines are skipped; an object begins
    at the beginning of a line.
    """
    text = read_text(path)
    documents = []
    end = 0
    while not text.lstrip().startswith("[") and (match := _OBJECT.search(text, end)) is not None:
        document, end = _parse(FileLine(path), text, match.start(1))
        documents.append(document)
    return documents or [parse_document(FileLine(path), text)]


_OBJECT = re.compile(r"^[ \t]*(\{)", re.MULTILINE)


def parse_document(begin: FileLine, text: str) -> JsonNode:
    """Parse one JSON object from text that begins at a place of a file."""
    document, end = _parse(begin, text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        line = text.count("\n", 0, end) + (begin.line or 1)
        FileLine(begin.path, line).refuse("not valid JSON: more text follows its end", WHOLE)
    return document


_DECODER = json.JSONDecoder(
    parse_constant=lambda text: _refuse_number(text), parse_float=lambda text: _parse_float(text)
)


def _parse(begin: FileLine, text: str, at: int) -> tuple[JsonNode, int]:
    """Parse the object at an offset of a text; return it and the offset after its end."""
    path, above = begin.path, (begin.line or 1) - 1
    try:
        document, end = _DECODER.raw_decode(text, at)
    except _NumberError as error:
        token = str(error)
        match = re.search(rf'(?<![\w"]){re.escape(token)}', text)
        line = text.count("\n", 0, match.start()) + 1 + above if match else begin.line
        FileLine(path, line).refuse(f"found {token}, expected a number", EDITED)
    except RecursionError:
        begin.refuse("not JSON of any tool: it is nested too deeply", WHOLE)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        at_end = getattr(error, "pos", 0) >= len(text.rstrip()) - 1
        hint = TRUNCATED if at_end else WHOLE
        line = getattr(error, "lineno", None)
        FileLine(path, line + above if line is not None else begin.line).refuse(
            f"not valid JSON: {reason}", hint
        )
    if not isinstance(document, dict):
        begin.refuse("does not contain a JSON object")
    return JsonNode(begin, document), end


def _parse_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise _NumberError(text)
