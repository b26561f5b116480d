"""TheFlash on a local SSD and on CephFS: every time of 22 queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from loadstone.analysis.accounts.account import SECONDS, Account, Measurement
from loadstone.analysis.accounts.case_means import case_means
from loadstone.published import read
from loadstone.published.tables.layouts import queries_table, repetitions_block

FILE = "theflash"
SYSTEMS = ("SSD", "Ceph")


@dataclass(frozen=True, slots=True, kw_only=True)
class TheflashTime:
    """One run of one query."""

    system: str
    query: int
    repetition: int
    seconds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TheflashFacts(read.ReportFacts):
    """The text of the document around its times."""

    block_title: str


facts = cache(partial(read.read_facts, FILE, TheflashFacts))
_runs = cache(partial(read.read_rows, FILE, TheflashTime))


def account(systems: Sequence[str] = SYSTEMS) -> Account:
    """Return the times of these systems, in the order they ran."""
    name = FILE if len(systems) > 1 else f"{FILE}-{systems[0].lower()}"
    return Account(
        name=name,
        title=facts().title,
        measurements=tuple(_measurements(systems)),
        statements=facts().statements,
        disclosure=facts().disclosure,
    )


def render(systems: Sequence[str] = SYSTEMS) -> str:
    """Return the table of averages when there are several systems, and all times of each."""
    title = facts().block_title
    times = {system: _times(system) for system in systems}
    parts = [queries_table(times)] if len(systems) > 1 else []
    parts += [repetitions_block(f"{system}: {title}", times[system]) for system in systems]
    return "\n".join(parts)


def details() -> str:
    """Return the configuration and the environment."""
    return f"{facts().text['configuration']}\n{facts().text['environment']}"


def _times(system: str) -> dict[str, list[float]]:
    cases = case_means(_measurements([system]))
    return {str(case.first.parameters["query"]): case.values for case in cases}


def _measurements(systems: Sequence[str]) -> Iterator[Measurement]:
    for run in _runs():
        if run.system not in systems:
            continue
        query = f"Q{run.query:02d}"
        yield Measurement(
            target=run.system,
            workload="TPC-H derived, scale factor 100",
            operation="query",
            parameters={"query": query},
            metric=SECONDS,
            value=float(run.seconds),
            text=run.seconds,
            repetition=run.repetition,
            place=f"{run.system}, {query}, repetition {run.repetition}",
        )
