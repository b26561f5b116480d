"""The judgement of a run: its results, the limit of each, and the findings.

It depends on the measurements alone, so that every command judges a run alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from loadstone.analysis.accounts.account import Account, KnownCeiling
from loadstone.analysis.accounts.run_account import account_of, ceilings_of_run
from loadstone.analysis.cells.actions import ActionCell, ActionPart, summarise_actions
from loadstone.analysis.cells.cell import Cell, in_order
from loadstone.analysis.cells.summary import (
    ALL_OPERATIONS,
    summarise,
    summarise_mixes,
    summarise_totals,
)
from loadstone.analysis.grouping import grouped_pairs
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.labels import LEFT_OUT, VOIDING
from loadstone.analysis.judgements.left_out import Reasons, spoiled_trials, without_spoiled
from loadstone.analysis.judgements.result import Result, chosen_verdict, judged
from loadstone.analysis.judgements.run_view import RunView
from loadstone.analysis.judgements.trial_findings import judge
from loadstone.analysis.limits.cell_verdicts import NullRates, decide_cells, tried_by_sweep
from loadstone.analysis.limits.interventions import InterventionEffect, compare_changes, tried_of
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import Measured
from loadstone.results.record import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResults:
    """The actions of scripts: each one, by space and type of user, and all together."""

    rounds: tuple[ActionCell, ...]
    groups: tuple[ActionCell, ...]
    cases: tuple[ActionCell, ...]
    together: tuple[ActionCell, ...]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The results of a run, and the findings that follow from them.

    `results` are cases with all rounds added up, `rounds` and `iterations` each round and iteration
    by itself, and `mixes` the phases of several operations as the operation "all". All are sums of
    `parts`.
    """

    parts: Sequence[Part]
    targets: Sequence[str]
    results: tuple[Result, ...]
    rounds: tuple[Result, ...]
    iterations: tuple[Result, ...]
    mixes: tuple[Result, ...]
    actions: ScriptResults
    changes: tuple[InterventionEffect, ...]
    account: Account
    view: RunView

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all rules."""
        return judge(self.view)


def judge_measured(
    run: Run,
    measured: Measured,
    *,
    ceilings: Sequence[KnownCeiling] = (),
    null_rates: NullRates | None = None,
) -> Judgement:
    """Judge what was measured in a run.

    `ceilings` were measured outside of the run; `null_rates` are the rates of the same client
    against a null target.
    """
    spoiled = spoiled_trials(measured.parts)
    parts = without_spoiled(measured.parts, spoiled)
    targets = list((run.manifest.get("campaign") or {}).get("targets") or ())
    iterations, rounds = (in_order(cells, targets) for cells in summarise(parts, measured.peaks))
    changes = compare_changes(rounds, measured.changed, measured.peaks)
    tried = tried_by_sweep(rounds)
    for key, tried_of_cell in tried_of(changes).items():
        tried.setdefault(key, []).extend(tried_of_cell)
    known = (*ceilings_of_run(run), *ceilings)
    verdicts = decide_cells(
        rounds, parts, measured, ceilings=known, null_rates=null_rates or {}, tried=tried
    )
    examples = {part.record.id: part.record for part in parts}
    judged_rounds = tuple(judged(cell, verdict, examples) for cell, verdict in verdicts)
    by_trial = _by_trial(judged_rounds)

    def as_results(cells: Iterable[Cell]) -> tuple[Result, ...]:
        return tuple(judged(cell, _verdict_of(cell, by_trial), examples) for cell in cells)

    results = judged_rounds
    if len({cell.round for cell in rounds}) > 1:
        usable = usable_parts(parts, judged_rounds)
        cases = summarise_totals(usable, measured.peaks, by_round=False)
        results = as_results(in_order(cases, targets))
    actions = _actions(measured, spoiled, targets, by_trial)
    account = replace(account_of(run, results, actions.cases), ceilings=known)
    return Judgement(
        parts=parts,
        targets=targets,
        results=results,
        rounds=judged_rounds,
        iterations=as_results(iterations),
        mixes=as_results(in_order(summarise_mixes(parts, measured.peaks), targets)),
        actions=actions,
        changes=changes,
        account=account,
        view=RunView(
            account=account,
            parts=measured.parts,
            flags=measured.flags,
            rounds=judged_rounds,
            contradictory=measured.contradictory,
            empty=measured.empty,
        ),
    )


ByTrial = Mapping[str, Sequence[Result]]
"""The results of rounds, by the ids of their trials."""


def _by_trial(rounds: Sequence[Result]) -> ByTrial:
    return grouped_pairs((trial, result) for result in rounds for trial in result.trials)


def _verdict_of(
    cell: Cell, by_trial: ByTrial, is_of: Callable[[Cell, Result], bool] | None = None
) -> Verdict | None:
    """Return the limit of a cell, chosen from those of its rounds."""
    results = {id(result): result for trial in cell.trials for result in by_trial.get(trial, ())}
    is_of = is_of or _is_of
    return chosen_verdict(
        [
            (result.requests, result.verdict)
            for result in results.values()
            if result.verdict is not None and is_of(cell, result)
        ]
    )


def _is_of(cell: Cell, result: Result) -> bool:
    return cell.operation in (ALL_OPERATIONS, result.operation)


def _actions(
    measured: Measured, spoiled: Reasons, targets: Sequence[str], by_trial: ByTrial
) -> ScriptResults:
    """Return the actions of scripts, with the labels and limits of their requests."""

    def result_of(cell: Cell) -> Result:
        results = {
            id(result): result for trial in cell.trials for result in by_trial.get(trial, ())
        }
        labels = (label for result in (cell, *results.values()) for label in result.labels)
        named = replace(cell, labels=tuple(dict.fromkeys(labels)))
        verdict = _verdict_of(cell, by_trial, lambda *_: True)
        return judged(named, verdict, {})

    def of(parts: Sequence[ActionPart], *, by_round: bool) -> tuple[ActionCell, ...]:
        usable = without_spoiled(parts, spoiled)
        return summarise_actions(usable, targets, by_round=by_round, judge=result_of)

    rounds = of(measured.actions, by_round=True)
    has_rounds = len({result.cell.round for result in rounds}) > 1
    return ScriptResults(
        rounds=rounds,
        groups=of(measured.action_groups, by_round=True),
        cases=of(measured.actions, by_round=False) if has_rounds else rounds,
        together=of(measured.actions_together, by_round=False),
    )


def usable_parts(parts: Sequence[Part], rounds: Sequence[Result]) -> list[Part]:
    """Return the parts without void rounds, if their case has other rounds.

    Only rounds that the client or the record spoiled are left out: a failing target stays in.
    """
    void = {
        (trial, result.operation)
        for result in rounds
        if _is_spoiled(result)
        for trial in result.trials
    }
    if not void:
        return list(parts)
    left_out: dict[tuple[str, ...], dict[str, None]] = {}
    cases = set()
    for part in parts:
        if (part.record.id, part.operation) in void:
            left_out.setdefault(part.case, {})[part.record.id] = None
        else:
            cases.add(part.case)
    return [
        replace(part, left_out=(*part.left_out, *left_out.get(part.case, ())))
        if part.case in cases
        else part
        for part in parts
        if (part.record.id, part.operation) not in void or part.case not in cases
    ]


def _is_spoiled(result: Result) -> bool:
    """Tell whether only the client or the record made a round void."""
    reasons = VOIDING & set(result.labels)
    is_failing = result.verdict is not None and result.verdict.limit == "INVALID(errors)"
    return bool(reasons) and reasons <= LEFT_OUT and not is_failing
