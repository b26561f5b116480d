"""The account of a run for comparisons and histories: its results, with their trials' times."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loadstone.analysis.accounts.account import Account, Measurement
from loadstone.analysis.accounts.run_account import account_of, measurements_of_action
from loadstone.analysis.cells.actions import ActionCell, Group
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import read_measured
from loadstone.analysis.statistics.latency import merge
from loadstone.results.record import Run


def read_account(run: Run) -> Account:
    """Read a run's tables, one trial at a time, judge it, and return it as an account."""
    measured = read_measured(run)
    judgement = judge_measured(run, measured)
    parts = _by_trial(judgement.parts)

    def times(result: Result, trial: str, kind: str) -> bytes | None:
        return _histogram(parts[trial, result.operation], kind)

    account = account_of(run, judgement.results, times=times)
    order = {target: place for place, target in enumerate(account.targets)}

    def of(actions: Sequence[ActionCell], parts: Iterable[Part]) -> list[Measurement]:
        parts_of_trial = _by_trial(parts)
        return sorted(
            (
                m
                for action in actions
                for m in measurements_of_action(
                    action,
                    lambda _, trial, kind, action=action: _histogram(  # type: ignore[misc]
                        parts_of_trial[trial, _operation(action)], kind
                    ),
                )
            ),
            # A target may have actions, and no request that succeeded.
            key=lambda m: order.get(m.target, len(order)),
        )

    groups = [group for group in judgement.actions.groups if group.user_type]
    return replace(
        account,
        measurements=(*account.measurements, *of(judgement.actions.cases, measured.actions)),
        of_user_types=tuple(of(groups, measured.action_groups)),
    )


def _operation(action: ActionCell) -> str:
    return Group(action.action, action.space, action.user_type).text.rstrip("\t")


def _histogram(parts: Sequence[Part], kind: str) -> bytes | None:
    """Return one kind of time in all iterations of a trial."""
    if len(parts) == 1:
        return parts[0].histograms[kind]
    merged = merge(part.histograms[kind] for part in parts)
    return merged.pack() if merged is not None else None


def _by_trial(parts: Iterable[Part]) -> dict[tuple[str, str], list[Part]]:
    return grouped(parts, lambda part: (part.record.id, part.operation.rstrip("\t")))
