"""Rules of the standard that take more than one look: ratios, repetition, families, audits.

Each is decided from what the run holds. Where the run cannot tell, the answer is `unknown`, with
what is missing; where it has nothing that the rule speaks of, `not applicable`.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from loadstone.analysis import Findings
from loadstone.analysis.accounts.comparability import differences
from loadstone.analysis.accounts.comparison import Comparison, compare
from loadstone.analysis.accounts.run_account import twins_of
from loadstone.analysis.judgements.result import Result
from loadstone.errors import InputError
from loadstone.results.record import Run

Status = Literal["met", "not met", "unknown", "not applicable"]
Answer = tuple[Status, str]

FACTORS_MAX = 1
SHOWN_MAX = 4
OF_THE_TARGET = ("redundancy", "consistency")
"""What a reader must know of both sides of a ratio, and only people can state."""

CHANGING = frozenset(
    {"put", "post", "copy", "delete", "bulk_delete", "multipart_put", "write", "append"}
)
"""Operations that a target acknowledges, and may lose afterwards."""


def ratios_are_comparable(
    run: Run, findings: Findings, statements: Mapping[str, str | None]
) -> Answer:
    """Tell whether the targets of a run may stand in one ratio."""
    absent = [name for name in OF_THE_TARGET if not statements.get(name)]
    targets = _targets(findings)
    if not targets:
        return "unknown", "nothing was measured"
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what was alike"
    accounts = {name: findings.account.only(name) for name in targets}
    fields = {
        difference.field
        for one, other in combinations(accounts.values(), 2)
        for difference in differences(one, other)
    }
    if len(fields) > FACTORS_MAX:
        named = _listed(sorted(fields))
        return "not met", f"the targets differ in {len(fields)} fields of the key: {named}"
    factor = f", and differ in {fields.pop()} alone" if fields else ""
    alike = (
        f"{len(targets)} targets under the same workload, client and settings{factor}"
        if len(targets) > 1
        else "one target: the run holds no ratio"
    )
    if absent:
        return "unknown", f"{alike}; not stated: {', '.join(absent)}"
    told = "; ".join(f"{name}: {statements[name]}" for name in OF_THE_TARGET)
    return "met", f"{alike}; {told}"


def intervals_count_trials(run: Run, findings: Findings) -> Answer:
    """Tell whether what n counts in every interval are trials of different times."""
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what its trials share"
    repeated = [cell for cell in findings.results if len(cell.trial_rates) > 1]
    if not repeated:
        return (
            "not applicable",
            "no interval is given: every result is from one trial, and the ± of its seconds is"
            " called a standard deviation",
        )
    crowded = [
        cell.name
        for cell in repeated
        if len({one.block for one in cell.trial_rates}) < len(cell.trial_rates)
    ]
    if crowded:
        return (
            "not met",
            f"{len(crowded)} results count trials of one block as repetitions, such as"
            f" {crowded[0]}",
        )
    counts = [len(cell.trial_rates) for cell in repeated]
    return (
        "met",
        f"the {len(repeated)} intervals have n = {_range(counts)} trials, each in a block of its"
        " own; requests and seconds are never n",
    )


def families_are_corrected(run: Run, findings: Findings) -> Answer:
    """Tell whether the targets of a run were compared as families."""
    twins = {second for _, second in twins_of(run)}
    targets = [name for name in _targets(findings) if name not in twins]
    if len(targets) < 2:
        halved = f"; {len(findings.changes)} halvings are evidence of verdicts, no comparisons"
        return (
            "not applicable",
            "one target: nothing is compared inside this run"
            + (halved if findings.changes else ""),
        )
    first = findings.account.only(targets[0])
    found: list[Comparison] = []
    for name in targets[1:]:
        try:
            found.append(compare(first, findings.account.only(name), is_together=False))
        except InputError as error:
            return "unknown", f"the targets cannot be compared: {error}"
    cases = [case for one in found for case in one.comparisons]
    tested = [case for case in cases if case.p_holm is not None]
    if not tested:
        return (
            "unknown",
            f"{len(cases)} cases in pairs of targets, and none was repeated to test it",
        )
    verdicts = [case.verdict for case in cases]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    return (
        "met",
        f"{len(tested)} tests over {targets[0]}, Holm over the cases of each pair of targets, and"
        f" equivalence by two one-sided tests: {counts}",
    )


def writes_are_audited(run: Run, findings: Findings) -> Answer:
    """Tell whether acknowledged writes were kept in a ledger and read back."""
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say"
    writes = sum(cell.good for cell in findings.results if _word(cell) in CHANGING)
    if not writes:
        return "not applicable", "no measured request changed anything"
    if (run.path / "ledger").exists():
        return "unknown", "the run folder has a ledger, which this version does not read"
    checked = sum(record.summary.get("verified_requests") or 0 for record in run.records)
    also = f"; {checked:,} reads were checked, which finds wrong data and no lost one"
    return (
        "not met",
        f"{writes:,} requests that changed something were acknowledged, and the run folder has no"
        f" ledger of them{also if checked else ''}",
    )


def _word(cell: Result) -> str:
    return cell.operation.partition(" ")[0]


def _targets(findings: Findings) -> list[str]:
    return list(findings.account.targets)


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    return f"{shown} and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else shown
