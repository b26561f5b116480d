"""The five published reports as data: their numbers, their hardware and their tables.

Their numbers come out as an Account for analysis, and as the report's own tables byte for byte;
they are kept as they were printed and never repaired. Beside them stand what else such reports ask
for: their layouts of tables and charts, which a run's numbers can take (`LAYOUTS`), and the rules
on numbers that others printed (`rules.judge`). Only the command line knows this package.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from loadstone.analysis.accounts.account import Account
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published report, or one system of it; its tables may be Markdown of themselves."""

    name: str
    file: str
    facts: Callable[[], read.ReportFacts]
    account: Callable[[], Account]
    render: Callable[[], str]
    details: Callable[[], str]
    is_markdown: bool = True

    @property
    def title(self) -> str:
        """What was measured."""
        return self.facts().title

    @property
    def source(self) -> str:
        """Where the numbers were published."""
        return self.facts().source


PUBLISHED: Mapping[str, Published] = {
    report.name: report
    for report in (
        Published(
            name="hummingbird",
            file=hummingbird.FILE,
            facts=hummingbird.facts,
            account=hummingbird.account,
            render=hummingbird.render,
            details=hummingbird.details,
        ),
        Published(
            name="theflash",
            file=theflash.FILE,
            facts=theflash.facts,
            account=theflash.account,
            render=theflash.render,
            details=theflash.details,
        ),
        *(
            Published(
                name=f"theflash-{system.lower()}",
                file=theflash.FILE,
                facts=theflash.facts,
                account=partial(theflash.account, (system,)),
                render=partial(theflash.render, (system,)),
                details=theflash.details,
            )
            for system in theflash.SYSTEMS
        ),
        Published(
            name="cern",
            file=cern.FILE,
            facts=cern.facts,
            account=cern.account,
            render=cern.render,
            details=cern.details,
            is_markdown=False,
        ),
        Published(
            name="datasafe",
            file=datasafe.FILE,
            facts=datasafe.facts,
            account=datasafe.account,
            render=datasafe.render,
            details=datasafe.details,
            is_markdown=False,
        ),
        Published(
            name="skyhook",
            file=skyhook.FILE,
            facts=skyhook.facts,
            account=skyhook.account,
            render=skyhook.render,
            details=skyhook.details,
        ),
    )
}


def find_all(names: Sequence[str]) -> list[Published]:
    """Return several reports; all systems of one report, named together, are that report."""
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
    """Tell whether an argument names a published report and not a run folder."""
    return text.startswith(PREFIX)


def find(name: str) -> Published:
    """Return a published report by its name, with or without "published:" before it."""
    bare = name.removeprefix(PREFIX)
    if bare not in PUBLISHED:
        raise InputError(
            f'there is no published report "{bare}"', f"known are {', '.join(PUBLISHED)}"
        )
    return PUBLISHED[bare]
