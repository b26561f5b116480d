"""The types of libraries that have none of their own are those of the library that is installed."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STUBS = Path(__file__).parents[2] / "stubs"
WITHOUT_CLASS = {"ChunkedDictionary"}
"""Classes that exist only in the stubs."""


def members(body: list[ast.stmt]) -> Iterator[str]:
    """Name the functions and attributes that a stub promises."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


@pytest.mark.parametrize("path", sorted(STUBS.rglob("*.pyi")), ids=lambda path: path.stem)
def test_every_name_of_a_stub_is_in_the_library(path: Path) -> None:
    module: Any = importlib.import_module(
        ".".join(path.relative_to(STUBS).with_suffix("").parts).removesuffix(".__init__")
    )
    body = ast.parse(path.read_text()).body
    missing = [name for name in members(body) if not hasattr(module, name)]
    for statement in body:
        if not isinstance(statement, ast.ClassDef) or statement.name in WITHOUT_CLASS:
            continue
        if statement.name.startswith("_"):
            continue
        there = getattr(module, statement.name, None)
        missing += [
            f"{statement.name}.{name}" for name in ["__name__", *members(statement.body)]
            if not hasattr(there, name)
        ]  # fmt: skip
    assert not missing
