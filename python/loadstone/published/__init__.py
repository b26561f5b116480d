"""Five published reports as data: their numbers, their hardware and their tables.

Numbers are kept as printed. They become an Account for analysis, or the report's own tables byte
for byte. The package also has the layouts of these tables and charts for runs (`LAYOUTS`), and
rules on printed numbers (`rules.judge`). Only the command line imports it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.numbers import with_standings
from loadstone.errors import InputError
from loadstone.published import cern, datasafe, hummingbird, read, skyhook, theflash
from loadstone.published.tables.templates import LAYOUTS, find_layout

__all__ = [
    "LAYOUTS",
    "PREFIX",
    "PUBLISHED",
    "Published",
    "find",
    "find_all",
    "find_layout",
    "is_published",
]

PREFIX = "published:"


class ReportModule(Protocol):
    """The module of a report."""

    FILE: str

    def facts(self) -> read.ReportFacts: ...
    def account(self) -> Account: ...
    def render(self) -> str: ...
    def details(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published report, or one system of it; `tables` may be Markdown."""

    name: str
    file: str
    facts: Callable[[], read.ReportFacts]
    account: Callable[[], Account]
    render: Callable[[], str]
    details: Callable[[], str]
    is_markdown: bool = True

    @property
    def title(self) -> str:
        """The title of the report."""
        return self.facts().title

    @property
    def source(self) -> str:
        """The place of publication."""
        return self.facts().source


def _published(report: ReportModule, *, is_markdown: bool = True) -> Published:
    return Published(
        name=report.FILE,
        file=report.FILE,
        facts=report.facts,
        account=lambda: with_standings(report.account()),
        render=report.render,
        details=report.details,
        is_markdown=is_markdown,
    )


def _system(name: str) -> Published:
    """Return one system of the report on TheFlash."""
    return replace(
        _published(theflash),
        name=f"{theflash.FILE}-{name.lower()}",
        account=lambda: with_standings(theflash.account((name,))),
        render=partial(theflash.render, (name,)),
    )


PUBLISHED: Mapping[str, Published] = {
    report.name: report
    for report in (
        _published(hummingbird),
        _published(theflash),
        *map(_system, theflash.SYSTEMS),
        _published(cern, is_markdown=False),
        _published(datasafe, is_markdown=False),
        _published(skyhook),
    )
}


def find_all(names: Sequence[str]) -> list[Published]:
    """Return several reports; all systems of a report are combined into that report."""
    chosen = list(dict.fromkeys(find(name).name for name in names))
    for whole in PUBLISHED.values():
        systems = [
            report.name for report in PUBLISHED.values() if report.file == whole.name != report.name
        ]
        if systems and set(systems) <= set(chosen):
            first = chosen.index(systems[0])
            chosen[first:first] = [whole.name]
            chosen = [name for name in chosen if name not in systems]
    return [PUBLISHED[name] for name in chosen]


def is_published(text: str) -> bool:
    """Tell whether an argument names a published report instead of a run folder."""
    return text.startswith(PREFIX)


def find(name: str) -> Published:
    """Return a published report by its name, with or without the prefix "published:"."""
    bare = name.removeprefix(PREFIX)
    if bare not in PUBLISHED:
        raise InputError(
            f'there is no published report "{bare}"', f"known are {', '.join(PUBLISHED)}"
        )
    return PUBLISHED[bare]
