"""Reads a YAML file into plain values with the line of every key, which pydantic does not keep."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from loadstone import regular_file
from loadstone.campaign.reading import mistakes
from loadstone.errors import CampaignError, Mistake

# Anchors let a small file expand without limit.
_NODES_MAX = 100_000
_DEPTH_MAX = 50
_BYTES_MAX = 4 * regular_file.MIB
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_TEXT_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp"))


@dataclass(slots=True)
class Document:
    """The values of a file, the line of each key, and the mistakes in its YAML."""

    origin: str
    data: dict[str, Any]
    lines: dict[mistakes.Path, int] = field(default_factory=dict)
    wrong: list[Mistake] = field(default_factory=list)


def read_document(path: str | Path) -> Document:
    """Read a YAML file whose top level is a map."""
    return parse_document(read_text(path), str(path))


def read_text(path: str | Path, stream: BinaryIO | None = None) -> str:
    """Return the text of a file, or of a stream up to its end; the size of both is limited."""
    try:
        if stream is None:
            content = regular_file.read(Path(path), _BYTES_MAX)
        else:
            content = regular_file.read_stream(stream, _BYTES_MAX)
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        actual = f"no readable file ({error.strerror or error})"
        raise _refuse(str(path), None, actual, "a campaign file") from error
    except UnicodeDecodeError as error:
        raise _refuse(str(path), None, "bytes that are not valid UTF-8", "text in UTF-8") from error


def parse_document(text: str, origin: str) -> Document:
    """Parse a text into a document."""
    yaml = _yaml()
    try:
        node = yaml.compose(text)
    except _TooDeepError as error:
        actual, allowed = "values nested deeper", f"at most {_DEPTH_MAX} levels"
        raise _refuse(origin, error.line, actual, allowed) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = str(error.problem or error.context or "a mistake")
        actual = f"{problem.removeprefix('found ')} (YAML syntax)"
        raise _refuse(origin, line, actual, "YAML", _hint_of_syntax(error)) from error
    except YAMLError as error:
        raise _refuse(origin, None, f"{error} (YAML syntax)", "YAML") from error
    if node is None:
        raise _refuse(origin, 1, "an empty file", "a map of keys, such as name: and targets:")
    if not isinstance(node, MappingNode):
        raise _refuse(origin, node.start_mark.line + 1, "no map of keys", "a map of keys")
    document = Document(origin, {})
    document.lines[()] = node.start_mark.line + 1
    document.data = _Reader(yaml, document).value(node, ())
    return document


def parse_value(text: str) -> Any:
    """Return one value written as YAML, such as the right side of `--set KEY=VALUE`."""
    yaml = _yaml()
    try:
        node = yaml.compose(text)
    except _TooDeepError as error:
        raise ValueError(f"values nested deeper than {_DEPTH_MAX} levels") from error
    except YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if node is None:
        return None
    document = Document("", {})
    value = _Reader(yaml, document).value(node, ())
    if document.wrong:
        raise ValueError(document.wrong[0].actual)
    return value


class _TooDeepError(Exception):
    """Values are nested too deeply; reading them would overflow the stack."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Composer(Composer):
    """Composes nodes up to a maximum depth."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        try:
            if self.depth > _DEPTH_MAX:
                raise _TooDeepError(self.parser.peek_event().start_mark.line + 1)
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    return yaml


class _Reader:
    """Converts nodes to values, records lines, and collects mistakes."""

    def __init__(self, yaml: YAML, document: Document) -> None:
        self._yaml = yaml
        self._document = document
        self._open: list[Node] = []
        self._count = 0

    def value(self, node: Node, path: mistakes.Path) -> Any:
        self._count += 1
        if self._count > _NODES_MAX or any(node is outer for outer in self._open):
            line = node.start_mark.line + 1
            actual = "anchors that unfold without end"
            raise _refuse(self._document.origin, line, actual, f"at most {_NODES_MAX} values")
        self._open.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._map(node, path)
            if isinstance(node, SequenceNode):
                return [
                    self._entry(child, (*path, index)) for index, child in enumerate(node.value)
                ]
            assert isinstance(node, ScalarNode), "YAML has no fourth kind of node"
            return self._scalar(node, path)
        finally:
            self._open.pop()

    def _entry(self, node: Node, path: mistakes.Path) -> Any:
        self._document.lines[path] = node.start_mark.line + 1
        return self.value(node, path)

    def _map(self, node: MappingNode, path: mistakes.Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                for source in _merge_sources(value_node):
                    merged = {**self._map(source, path), **merged}
                continue
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            line = key_node.start_mark.line + 1
            if key in values:
                first = self._document.lines[(*path, key)]
                self._note((*path, key), line, f"the key again (first on line {first})", "it once")
                continue
            self._document.lines[(*path, key)] = line
            values[key] = self.value(value_node, (*path, key))
        return {**merged, **values}

    def _scalar(self, node: ScalarNode, path: mistakes.Path) -> Any:
        if node.tag in _PLAIN_TAGS:
            return self._yaml.constructor.construct_object(node, deep=True)
        if node.tag not in _TEXT_TAGS:
            self._note(path, node.start_mark.line + 1, f"the tag {node.tag}", "values without tags")
        return str(node.value)

    def _note(self, path: mistakes.Path, line: int, actual: str, allowed: str) -> None:
        key = ".".join(str(step) for step in path)
        self._document.wrong.append(
            Mistake(
                origin=self._document.origin, line=line, key=key, actual=actual, allowed=allowed
            )
        )


def _merge_sources(node: Node) -> Iterator[MappingNode]:
    sources = node.value if isinstance(node, SequenceNode) else [node]
    yield from (source for source in sources if isinstance(source, MappingNode))


def _hint_of_syntax(error: MarkedYAMLError) -> str | None:
    if "\\t" in str(error.problem):
        return "indent with spaces; YAML takes no tabs"
    if "mapping values are not allowed" in str(error.problem):
        return 'put a text that contains ": " in quotes'
    return None


def _refuse(
    origin: str, line: int | None, actual: str, allowed: str, hint: str | None = None
) -> CampaignError:
    return CampaignError(
        [Mistake(origin=origin, line=line, key="", actual=actual, allowed=allowed, hint=hint)]
    )
