"""Mistakes in a campaign, each with its file, line and key."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from loadstone.campaign.operations import OPERATIONS
from loadstone.documents.json_schema import JsonSchema
from loadstone.errors import InputError, Mistake, shown

Path = tuple[str | int, ...]

SET_ORIGIN = "set"
UNKNOWN_KEY = "an unknown key"

# Alternative spellings of keys: mistakes are reported at the spelling that was used.
SYNONYMS: Mapping[str | int, str] = {"buckets": "containers", "endpoints": "endpoint"}

_PHRASES: Mapping[str, str] = {
    "missing": "a value; this key is required",
    "model_type": "a map of keys",
    "dict_type": "a map of keys",
    "mapping_type": "a map of keys",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "too_short": "a list with at least one entry",
}


@dataclass(frozen=True, slots=True)
class KeyMistake:
    """One wrong key: its path below the checked section, the actual value, and what is allowed."""

    path: Path
    actual: str
    allowed: str
    hint: str | None = None

    def below(self, path: Path) -> "KeyMistake":
        """Return the same mistake with its path extended by the parent path."""
        return self.at((*path, *self.path))

    def at(self, path: Path) -> "KeyMistake":
        """Return the same mistake at another place."""
        return replace(self, path=path)


class KeyMistakesError(ValueError):
    """Several keys of one place that do not fit together."""

    def __init__(self, mistakes: Sequence[KeyMistake]) -> None:
        super().__init__("; ".join(f"{mistake.path}: {mistake.allowed}" for mistake in mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The source of a campaign: its file, the line of each key, and the overridden keys."""

    origin: str = ""
    lines: Mapping[Path, int] = field(default_factory=dict)
    overridden: frozenset[Path] = frozenset()

    def place(self, mistake: KeyMistake) -> Mistake:
        """Return a mistake with the line of its key, or of the nearest enclosing key."""
        path = self._as_written(mistake.path)
        origin, line = self.origin, None
        for length in range(len(path), -1, -1):
            part = path[:length]
            if part in self.overridden:
                origin = SET_ORIGIN
                break
            if part in self.lines:
                line = self.lines[part]
                break
        return Mistake(
            origin=origin,
            line=line,
            key=".".join(str(step) for step in path),
            actual=mistake.actual,
            allowed=mistake.allowed,
            hint=mistake.hint,
        )

    def _as_written(self, path: Path) -> Path:
        written: Path = ()
        for step in path:
            synonym = SYNONYMS.get(step, "")
            exact = (*written, step)
            is_known = exact in self.lines or exact in self.overridden
            other = (*written, synonym)
            is_other = synonym and (other in self.lines or other in self.overridden)
            written = other if is_other and not is_known else exact
        return written


def listed(names: Iterable[object]) -> str:
    """Return names as a comma-separated list for a sentence."""
    return ", ".join(str(name) for name in names)


def nearest(name: object, names: Iterable[str]) -> str | None:
    """Return a hint with the name that was probably meant."""
    # In a name of two characters such as "s3", one typo is half of the name.
    cutoff = 0.5 if len(str(name)) <= 3 else 0.6
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=cutoff)
    return f'did you mean "{close[0]}"?' if close else None


def translate(error: ValidationError, known_keys: "KnownKeys") -> list[KeyMistake]:
    """Return pydantic's errors as mistakes in this project's wording."""
    mistakes: list[KeyMistake] = []
    for detail in error.errors(include_url=False):
        path = tuple(detail["loc"])
        cause = (detail.get("ctx") or {}).get("error")
        if isinstance(cause, KeyMistakesError):
            mistakes += [mistake.below(path) for mistake in cause.mistakes]
        elif isinstance(cause, InputError):
            mistakes.append(mistake_of(path, cause))
        elif detail["type"] == "extra_forbidden":
            mistakes.append(unknown_key(path, known_keys.below(path[:-1])))
        else:
            mistakes.append(_of_detail(path, detail))
    return mistakes


def unknown_key(path: Path, allowed: Sequence[str]) -> KeyMistake:
    """Return the mistake for a key that is not allowed at its place."""
    names = [name for name in allowed if name != path[-1]]
    is_operation = "op" in names and path[-1] in OPERATIONS
    hint = f"write op: {path[-1]}, with its keys beside it" if is_operation else None
    return KeyMistake(
        path, UNKNOWN_KEY, listed(names) or "no keys here", hint=hint or nearest(path[-1], names)
    )


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The allowed keys at each place, read from a campaign's JSON Schema."""

    schema: JsonSchema

    def below(self, path: Path) -> list[str]:
        """Return the keys allowed in the map at `path`."""
        node = self.schema
        for step in path:
            node = self._resolved(node)
            properties = node.get("properties", {})
            if isinstance(step, int):
                node = node.get("items", {})
            elif step in properties:
                node = properties[step]
            else:
                extra = node.get("additionalProperties", False)
                node = JsonSchema() if isinstance(extra, bool) else extra
        return list(self._resolved(node).get("properties", {}))

    def _resolved(self, node: JsonSchema) -> JsonSchema:
        while True:
            if "$ref" in node:
                node = self.schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
                continue
            for choice in node.get("anyOf", ()):
                if "$ref" in choice or choice.get("type") in ("object", "array"):
                    node = choice
                    break
            else:
                return node


def mistake_of(path: Path, error: InputError) -> KeyMistake:
    """Return an error about a value as the mistake of its key."""
    actual, allowed = error.actual, error.allowed
    if actual is None or allowed is None:
        actual, _, allowed = error.message.removeprefix("found ").partition(", allowed ")
    return KeyMistake(path, actual, allowed, hint=error.hint)


def _of_detail(path: Path, detail: ErrorDetails) -> KeyMistake:
    kind = detail["type"]
    actual = "nothing" if kind == "missing" else shown(detail["input"])
    context = detail.get("ctx") or {}
    hint = None
    if kind in ("literal_error", "enum"):
        allowed = str(context["expected"]).replace("'", '"')
        names = [name.strip(' "') for name in allowed.replace(" or ", ",").split(",")]
        hint = nearest(detail["input"], names)
    elif kind == "string_pattern_mismatch":
        allowed = f"text that matches {context['pattern']}"
    else:
        allowed = _PHRASES.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])
    return KeyMistake(path, actual, allowed, hint=hint)
