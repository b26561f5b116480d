"""Reading the package's own data files."""

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from typing import Any

from loadstone.analysis.accounts.account import Disclosure, StatedLoad, StatedRatio, Statement

Row = Mapping[str, str]


@cache
def read_rows(name: str) -> tuple[Row, ...]:
    """Return the rows of a CSV file by their column names."""
    text = _data(f"{name}.csv")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def read_facts(name: str) -> Mapping[str, Any]:
    """Return what stands in a TOML file."""
    return tomllib.loads(_data(f"{name}.toml"))


def disclosure(facts: Mapping[str, Any]) -> Disclosure:
    """Return what a report says of how its numbers were made."""
    stated = facts.get("disclosure", {})
    known = {field.name for field in fields(Disclosure)}
    assert set(stated) <= known, f"unknown facts: {set(stated) - known}"
    return Disclosure(**stated)


def statements(facts: Mapping[str, Any]) -> tuple[Statement, ...]:
    """Return what a report says of its set-up in numbers."""
    return tuple(Statement(**entry) for entry in facts.get("statements", ()))


def ratios(facts: Mapping[str, Any]) -> tuple[StatedRatio, ...]:
    """Return the ratios that a report gives in words."""
    return tuple(StatedRatio(**entry) for entry in facts.get("ratios", ()))


def loads(facts: Mapping[str, Any]) -> tuple[StatedLoad, ...]:
    """Return what a report says of its numbers of threads."""
    return tuple(StatedLoad(**entry) for entry in facts.get("loads", ()))


def _data(name: str) -> str:
    return resources.files("loadstone.published").joinpath("data", name).read_text("utf-8")
