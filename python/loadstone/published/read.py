"""Reads the package's own data files into the types of each report."""

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter

from loadstone.analysis.accounts.account import Disclosure, StatedLoad, StatedRatio, Statement

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """Keys of the TOML file of any report, extended by each report.

    `ratios` are ratios in words, `loads` statements on threads, `text` quoted parts of the report.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    title: str
    source: str
    disclosure: Disclosure = field(default_factory=Disclosure)
    statements: tuple[Statement, ...] = ()
    ratios: tuple[StatedRatio, ...] = ()
    loads: tuple[StatedLoad, ...] = ()
    text: Mapping[str, str] = field(default_factory=dict)


def read_rows(name: str, kind: type[T]) -> tuple[T, ...]:
    """Return the rows of a CSV file, with text as printed."""
    adapter = TypeAdapter(kind)
    return tuple(map(adapter.validate_python, csv.DictReader(_data(f"{name}.csv").splitlines())))


def read_facts(name: str, kind: type[T]) -> T:
    """Return the contents of a TOML file."""
    return TypeAdapter(kind).validate_python(tomllib.loads(_data(f"{name}.toml")))


def _data(name: str) -> str:
    return resources.files("loadstone.published").joinpath("data", name).read_text("utf-8")
