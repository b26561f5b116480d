"""The types of libraries that have none of their own are those of the library that is installed."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STUBS = Path(__file__).parents[2] / "stubs"
WITHOUT_CLASS = {"ChunkedDictionary"}
"""What only our types tell apart."""


def members(body: list[ast.stmt]) -> Iterator[str]:
    """Name the functions and attributes that a stub promises."""
    for one in body:
        if isinstance(one, ast.FunctionDef):
            yield one.name
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id


@pytest.mark.parametrize("path", sorted(STUBS.rglob("*.pyi")), ids=lambda path: path.stem)
def test_every_name_of_a_stub_is_in_the_library(path: Path) -> None:
    module: Any = importlib.import_module(
        ".".join(path.relative_to(STUBS).with_suffix("").parts).removesuffix(".__init__")
    )
    body = ast.parse(path.read_text()).body
    missing = [name for name in members(body) if not hasattr(module, name)]
    for one in body:
        if not isinstance(one, ast.ClassDef) or one.name in WITHOUT_CLASS:
            continue
        if one.name.startswith("_"):
            continue
        there = getattr(module, one.name, None)
        missing += [
            f"{one.name}.{name}" for name in ["__name__", *members(one.body)]
            if not hasattr(there, name)
        ]  # fmt: skip
    assert not missing
