"""What a run's numbers say together: its cells, what limited each, and what is doubtful.

Made from what was measured alone, so that every command that judges a run comes to the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadstone.analysis.accounts.account import Account, KnownCeiling
from loadstone.analysis.accounts.run_account import account_of
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.order import in_order
from loadstone.analysis.cells.summary import summarise, summarise_cases
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.labels import LEFT_OUT, VOIDING
from loadstone.analysis.judgements.left_out import case_of, spoiled_trials, without_spoiled
from loadstone.analysis.judgements.seen import Seen
from loadstone.analysis.judgements.trial_findings import judge
from loadstone.analysis.limits.cell_verdicts import NullRates, decide_cells
from loadstone.analysis.limits.interventions import InterventionEffect, compare_changes, tried_of
from loadstone.analysis.limits.more_hosts import tried_by_sweep
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import Measured
from loadstone.results.record import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The cells of a run with the verdict on each, and the findings that follow from them.

    `parts` are what the cells are the sums of.
    """

    account: Account
    parts: Sequence[Part]
    targets: Sequence[str]
    cells: tuple[Cell, ...]
    totals: tuple[Cell, ...]
    changes: tuple[InterventionEffect, ...]
    cases: tuple[Cell, ...]
    verdicts: Sequence[tuple[Cell, Verdict]]
    seen: Seen

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules find in the measurements alone."""
        return judge(self.seen)


def judge_measured(
    run: Run,
    measured: Measured,
    *,
    ceilings: Sequence[KnownCeiling] = (),
    null_rates: NullRates | None = None,
) -> Judgement:
    """Judge what was measured in a run.

    `ceilings` were measured apart from it, and `null_rates` are what the same client reaches
    against a null target.
    """
    parts = without_spoiled(measured.parts, spoiled_trials(measured.parts))
    made = summarise(parts, measured.peaks)
    account = account_of(run, measured, made[1])
    account = replace(account, ceilings=(*account.ceilings, *ceilings))
    targets = list((run.manifest.get("campaign") or {}).get("targets") or ())
    cells, totals = (in_order(found, targets) for found in made)
    changes = compare_changes(totals, measured.changed, measured.peaks)
    tried = tried_by_sweep(totals)
    for key, found in tried_of(changes).items():
        tried.setdefault(key, []).extend(found)
    verdicts = decide_cells(
        account,
        parts,
        measured.flags,
        null_rates,
        totals=totals,
        servers=measured.servers,
        tried=tried,
    )
    return Judgement(
        account=account,
        parts=parts,
        targets=targets,
        cells=cells,
        totals=totals,
        changes=changes,
        verdicts=verdicts,
        cases=in_order(
            summarise_cases(usable_parts(parts, verdicts), measured.peaks, totals), targets
        ),
        seen=Seen(account=account, parts=measured.parts, flags=measured.flags, decided=verdicts),
    )


def usable_parts(parts: Sequence[Part], verdicts: Sequence[tuple[Cell, Verdict]]) -> list[Part]:
    """Return the parts without the rounds that must not be used, where a case has others.

    A round in which the client stalled does not spoil what the other rounds found. One in which the
    target failed is a part of what the target does, and stays.
    """
    void = {
        (trial, cell.operation)
        for cell, verdict in verdicts
        if _is_spoiled(cell, verdict)
        for trial in cell.trials
    }
    kept = {case_of(part) for part in parts if (part.record.id, part.operation) not in void}
    return [
        part
        for part in parts
        if (part.record.id, part.operation) not in void or case_of(part) not in kept
    ]


def _is_spoiled(cell: Cell, verdict: Verdict) -> bool:
    """Tell whether a round is void for reasons of the client or the record alone."""
    reasons = VOIDING & set(cell.labels)
    return bool(reasons) and reasons <= LEFT_OUT and verdict.limit != "INVALID(errors)"
