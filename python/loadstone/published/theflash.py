"""TheFlash on a local SSD and on CephFS: every time of 22 queries."""

from collections.abc import Iterator, Sequence

from loadstone.analysis.accounts.account import SECONDS, Account, Measurement
from loadstone.analysis.accounts.case_means import case_means
from loadstone.published import read
from loadstone.report.tables.published.queries import queries_table, repetitions_block

FILE = "theflash"
SYSTEMS = ("SSD", "Ceph")


def account(systems: Sequence[str] = SYSTEMS) -> Account:
    """Return the times of these systems, in the order they ran."""
    facts = read.read_facts(FILE)
    name = FILE if len(systems) > 1 else f"{FILE}-{systems[0].lower()}"
    return Account(
        name=name,
        title=facts["title"],
        measurements=tuple(_measurements(systems)),
        statements=read.statements(facts),
        disclosure=read.disclosure(facts),
    )


def render(systems: Sequence[str] = SYSTEMS) -> str:
    """Return the table of averages when there are several systems, and all times of each."""
    title = read.read_facts(FILE)["block_title"]
    times = {system: _times(system) for system in systems}
    parts = [queries_table(times)] if len(systems) > 1 else []
    parts += [repetitions_block(f"{system}: {title}", times[system]) for system in systems]
    return "\n".join(parts)


def details() -> str:
    """Return the configuration and the environment."""
    text = read.read_facts(FILE)["text"]
    return f"{text['configuration']}\n{text['environment']}"


def _times(system: str) -> dict[str, list[float]]:
    cases = case_means(_measurements([system]))
    return {str(case.first.parameters["query"]): case.values for case in cases}


def _measurements(systems: Sequence[str]) -> Iterator[Measurement]:
    for row in read.read_rows(FILE):
        if row["system"] not in systems:
            continue
        query = f"Q{int(row['query']):02d}"
        yield Measurement(
            target=row["system"],
            workload="TPC-H derived, scale factor 100",
            operation="query",
            parameters={"query": query},
            metric=SECONDS,
            value=float(row["seconds"]),
            text=row["seconds"],
            repetition=int(row["repetition"]),
            place=f"{row['system']}, {query}, repetition {row['repetition']}",
        )
