"""Tests compare kinds, places, names and numbers, not sentences: those may get better any day."""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PRODUCT = TESTS.parent / "python" / "loadstone"
WORDS = 3
"""From so many words on, a text of one line that a test asks for is prose."""

OTHERS = "# others' words"
"""Marks a line that compares with what a format or another program defines: it stays as it is."""

SEARCHES = {"startswith", "endswith", "count", "find", "index", "partition", "rpartition"} | {
    "search", "match", "fullmatch", "findall"
}  # fmt: skip
"""Methods of texts and patterns that look for a text."""

_WORD = re.compile(r"[\"'(`]*[A-Za-z][A-Za-z'-]*[\"')`:;,.?!]*")
_COMMAND = re.compile(r"(?:.*: |.*`)?(?:loadstone|ceph|aws|apt-get|rm) ")


@pytest.fixture(scope="module")
def ids() -> Collection[str]:
    return frozenset(
        text for path in PRODUCT.rglob("*.py") for text in literals_of(ast.parse(path.read_text()))
    )


def test_no_assertion_asks_for_prose(ids: Collection[str]) -> None:
    mistakes = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("test_*.py")
        for look in (prose_of, prose_of_cases)
        for line in look(path.read_text(), ids)
    ]
    assert not mistakes, "compare kinds, fields, names and numbers instead"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('assert "there is no bucket" in error', [1]),
        ('assert error == f"no bucket {name} there"', [1]),
        ('assert errors == ["ok", "there is no bucket"]', [1]),
        ('x = 1\nwith raises(E, match="there is no bucket"):\n    pass', [2]),
        ('assert error.startswith("there is no bucket")', [1]),
        ('assert re.search("there is no bucket", error)', [1]),
        ('with raises(E, match=f"there is no {name} in it"):\n    pass', [1]),
        ('with raises(E, match=re.escape("there is no bucket")):\n    pass', [1]),
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


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('@p.parametrize("a", ["no bucket is there"])\ndef test(a):\n    assert a in text', [1]),
        ('@p.parametrize("a, b", [(1, "no bucket is there")])\ndef t(b):\n    assert b == x', [1]),
        (
            '@p.parametrize("a, b", [(1, "no bucket is there")])\ndef t(b):\n    assert f(b) == x',
            [],
        ),
        ('def test():\n    for a in ("ok", "no bucket is there"):\n        assert a in x', [2]),
        ('def test():\n    for a in ("ok", "bucket"):\n        assert a in x', []),
    ],
)
def test_prose_is_found_in_what_cases_give(code: str, lines: list[int]) -> None:
    assert list(prose_of_cases(code)) == lines


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


def prose_of_cases(code: str, ids: Collection[str] = ()) -> Iterator[int]:
    """Yield the line of each value of a parametrized test, or of a loop, that asks for prose."""
    lines = code.splitlines()
    for test in ast.walk(ast.parse(code)):
        if isinstance(test, ast.FunctionDef):
            names = set(_names_compared(test))
            for name, value in (*_parameters(test), *_looped(test)):
                is_prose = any(_is_prose(text) for text in _texts(value) if text not in ids)
                if name in names and is_prose and OTHERS not in lines[value.lineno - 1]:
                    yield value.lineno


def _names_compared(test: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(test):
        match node:
            case ast.Assert(test=asked):
                sides = [side for node in ast.walk(asked) for side in _sides(node)]
                yield from (side.id for side in sides if isinstance(side, ast.Name))
            case ast.keyword(arg="match", value=ast.Name(id=name)):
                yield name


def _parameters(test: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield what `parametrize` gives: a name, and a value for it, case by case."""
    for mark in test.decorator_list:
        match mark:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"),
                args=[named, ast.List(elts=cases) | ast.Tuple(elts=cases), *_],
            ):
                names = [name for text in _texts(named) for name in text.replace(",", " ").split()]
                for case in cases:
                    row = case.args if isinstance(case, ast.Call) else [case]
                    if len(names) > 1 and isinstance(case, ast.Tuple | ast.List):
                        row = case.elts
                    yield from zip(names, row, strict=False)


def _looped(test: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(test):
        match node:
            case (
                ast.For(
                    target=ast.Name(id=name), iter=ast.Tuple(elts=values) | ast.List(elts=values)
                )
                | ast.comprehension(
                    target=ast.Name(id=name), iter=ast.Tuple(elts=values) | ast.List(elts=values)
                )
            ):
                yield from ((name, value) for value in values)


def _compared(tree: ast.AST, ids: Collection[str]) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test):
                sides = (side for node in ast.walk(test) for side in _sides(node))
                if any(
                    _is_prose(text) for side in sides for text in _texts(side) if text not in ids
                ):
                    yield node.lineno
            case ast.keyword(arg="match", value=value) if any(map(_is_prose, _all_texts(value))):
                yield value.lineno


def _sides(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a comparison compares, and what a call looks for in a text."""
    match node:
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case ast.Call(func=ast.Attribute(attr=name), args=asked) if name in SEARCHES:
            yield from asked


def _texts(side: ast.expr) -> Iterator[str]:
    """Yield the texts that are written in one side of a comparison."""
    match side:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            # Placeholders stand for values of the test, not for words.
            yield "".join(
                str(value.value) if isinstance(value, ast.Constant) else "0" for value in values
            )
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _texts(part)


def _all_texts(side: ast.expr) -> Iterator[str]:
    """Yield the texts written anywhere in it, as in `re.escape("…")`."""
    yield from _texts(side)
    for call in ast.walk(side):
        if isinstance(call, ast.Call):
            yield from (text for given in call.args for text in _texts(given))


def _is_prose(text: str) -> bool:
    words = [word for word in text.split() if _WORD.fullmatch(word)]
    return len(words) >= WORDS and "\n" not in text.strip() and not _COMMAND.match(text)
