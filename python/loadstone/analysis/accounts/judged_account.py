"""The account of a run for comparisons and histories: its results, with their trials' times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loadstone.analysis.accounts.account import Account, Measurement
from loadstone.analysis.accounts.run_account import account_of, measurements_of_action
from loadstone.analysis.cells.actions import ActionCell, Group
from loadstone.analysis.cells.summary import times_of
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import read_measured
from loadstone.analysis.statistics.latency import Latency
from loadstone.results.record import Run

Times = Mapping[str, Latency | None]


def read_account(run: Run) -> Account:
    """Read a run's tables, one trial at a time, judge it, and return it as an account."""
    measured = read_measured(run)
    judgement = judge_measured(run, measured)
    parts = _by_trial(judgement.parts)

    def times(result: Result, trial: str) -> Times:
        if len(result.trials) == 1:
            return {name: getattr(result, name) for name in ("response", "service", "first_byte")}
        return times_of(parts[trial, result.operation])

    account = account_of(run, judgement.results, times=times)

    def of(actions: Sequence[ActionCell], own: Iterable[Part]) -> list[Measurement]:
        found = _by_trial(own)
        return sorted(
            (
                one
                for action in actions
                for one in measurements_of_action(
                    action,
                    lambda _, trial, action=action: times_of(found[trial, _operation(action)]),  # type: ignore[misc]
                )
            ),
            key=lambda one: account.targets.index(one.target),
        )

    groups = [one for one in judgement.actions.groups if one.user_type]
    return replace(
        account,
        measurements=(*account.measurements, *of(judgement.actions.cases, measured.actions)),
        of_user_types=tuple(of(groups, measured.action_groups)),
    )


def _operation(action: ActionCell) -> str:
    return Group(action.action, action.space, action.user_type).text.rstrip("\t")


def _by_trial(parts: Iterable[Part]) -> dict[tuple[str, str], list[Part]]:
    found: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        found.setdefault((part.record.id, part.operation.rstrip("\t")), []).append(part)
    return found
