"""Tests compare kinds, places, names and numbers, not sentences: those may get better any day."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WORDS = 3
"""From so many words on, a text of one line that a test asks for is prose."""

PROSE_MAX = {"calibration": 7, "conformance": 11, "docs": 3, "system": 56, "unit": 68}
"""So many assertions of each folder may ask for prose. These numbers only ever get smaller."""

_WORD = re.compile(r"[\"'(`]*[A-Za-z][A-Za-z'-]*[\"')`:;,.?!]*")
_COMMAND = re.compile(r"(?:.*: |.*`)?(?:loadstone|ceph|aws|apt-get) ")


def test_assertions_that_ask_for_prose_get_fewer() -> None:
    found = Counter(
        path.relative_to(TESTS).parts[0]
        for path in TESTS.rglob("test_*.py")
        for _ in prose_of(ast.parse(path.read_text()))
    )
    too_many = {name: count for name, count in found.items() if count > PROSE_MAX.get(name, 0)}
    assert not too_many, f"compare kinds, fields, names and numbers instead: {too_many}"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('assert "there is no bucket" in error', [1]),
        ('assert error == f"no bucket {name} there"', [1]),
        ('assert errors == ["ok", "there is no bucket"]', [1]),
        ('x = 1\nwith raises(E, match="there is no bucket"):\n    pass', [2]),
        ('assert error.kind == "no-bucket"', []),
        ('assert "bucket 3 of 5" in error', []),
        ('assert "loadstone clean the run" in error', []),
        ('assert is_right, "there is no bucket"', []),
    ],
)
def test_prose_is_found_where_an_assertion_asks_for_it(code: str, lines: list[int]) -> None:
    assert list(prose_of(ast.parse(code))) == lines


def prose_of(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each assertion that compares with prose, or looks for it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test):
                sides = (
                    side
                    for one in ast.walk(test)
                    if isinstance(one, ast.Compare)
                    for side in (one.left, *one.comparators)
                )
                if any(_is_prose(text) for side in sides for text in _texts(side)):
                    yield node.lineno
            case ast.keyword(arg="match", value=ast.Constant(value=str(text))) if _is_prose(text):
                yield node.lineno


def _texts(side: ast.expr) -> Iterator[str]:
    """Yield the texts that are written in one side of a comparison."""
    match side:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "X" for one in values
            )
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _texts(part)


def _is_prose(text: str) -> bool:
    words = [word for word in text.split() if _WORD.fullmatch(word)]
    return len(words) >= WORDS and "\n" not in text.strip() and not _COMMAND.match(text)
