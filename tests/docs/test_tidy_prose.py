"""Tests compare kinds, places, names and numbers, not sentences: those may get better any day."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PRODUCT = TESTS.parent / "python" / "loadstone"
WORDS = 3
"""From so many words on, a text of one line that a test asks for is prose."""

PROSE_MAX = {"calibration": 0, "conformance": 1, "docs": 2, "system": 3, "unit": 0}
"""So many assertions of each folder may ask for prose. These numbers only ever get smaller."""

OTHERS = "# others' words"
"""Marks a line that compares with what a format or another program defines: it stays as it is."""

_WORD = re.compile(r"[\"'(`]*[A-Za-z][A-Za-z'-]*[\"')`:;,.?!]*")
_COMMAND = re.compile(r"(?:.*: |.*`)?(?:loadstone|ceph|aws|apt-get) ")


def test_assertions_that_ask_for_prose_get_fewer() -> None:
    ids = frozenset(
        text for path in PRODUCT.rglob("*.py") for text in literals_of(ast.parse(path.read_text()))
    )
    found = Counter(
        path.relative_to(TESTS).parts[0]
        for path in TESTS.rglob("test_*.py")
        for _ in prose_of(path.read_text(), ids)
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
        ('assert f"{path}, line {number}: {why}" in error', []),
        ('assert "bucket 3 of 5" in error', []),
        ('assert "loadstone clean the run" in error', []),
        ('assert is_right, "there is no bucket"', []),
        ('assert found.state == "not yet there"', []),
        ('assert "Buckets of this log" in text  # others\' words', []),
    ],
)
def test_prose_is_found_where_an_assertion_asks_for_it(code: str, lines: list[int]) -> None:
    (text,) = literals_of(ast.parse('State = Literal["not yet there"]'))
    assert list(prose_of(code, {text})) == lines


def literals_of(tree: ast.AST) -> Iterator[str]:
    """Yield the values of each `Literal` type: mypy checks them, so they are names, not prose."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
                yield from _texts(values)


def prose_of(code: str, ids: Collection[str] = ()) -> Iterator[int]:
    """Yield the line of each assertion that compares with prose, or looks for it."""
    lines = code.splitlines()
    for line in _compared(ast.parse(code), ids):
        if OTHERS not in lines[line - 1]:
            yield line


def _compared(tree: ast.AST, ids: Collection[str]) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test):
                sides = (
                    side
                    for one in ast.walk(test)
                    if isinstance(one, ast.Compare)
                    for side in (one.left, *one.comparators)
                )
                if any(
                    _is_prose(text) for side in sides for text in _texts(side) if text not in ids
                ):
                    yield node.lineno
            case ast.keyword(arg="match", value=ast.Constant(value=str(text))) if _is_prose(text):
                yield node.lineno


def _texts(side: ast.expr) -> Iterator[str]:
    """Yield the texts that are written in one side of a comparison."""
    match side:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            # What is filled in is a value of the test's own, and no word.
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "0" for one in values
            )
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _texts(part)


def _is_prose(text: str) -> bool:
    words = [word for word in text.split() if _WORD.fullmatch(word)]
    return len(words) >= WORDS and "\n" not in text.strip() and not _COMMAND.match(text)
