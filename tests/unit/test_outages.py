"""A target that is away for a while: outages, and what only looks like one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadstone.analysis.judgements import labels
from loadstone.analysis.rules import find_rule

STEADY = [1000] * 20


def had_outage(
    rates: list[int],
    *,
    p50_s: float = 0.002,
    errors: int = 3,
    kinds: tuple[str, ...] = ("connection_refused",),
    hooks: tuple[str, ...] = (),
) -> bool:
    """Judge one trial of so many good requests in each second."""
    cell: Any = SimpleNamespace(headline=SimpleNamespace(quantiles={"p50": int(p50_s * 1e9)}))
    part: Any = SimpleNamespace(
        rates=np.array(rates, dtype=np.float64),
        errors=dict.fromkeys(kinds, errors) if errors else {},
        record=SimpleNamespace(hooks=tuple({"at": at} for at in hooks)),
    )
    return labels.had_outage(cell, [part])


@pytest.mark.parametrize(
    "rates",
    [
        STEADY + [0] * 20,
        [0] * 2 + STEADY,
        STEADY + [0] * 3 + STEADY,
        [*STEADY, 0, *STEADY[:5], 0, *STEADY[:5]],
    ],
)
def test_a_target_that_was_away_for_a_twentieth_of_the_time_has_no_rate(rates: list[int]) -> None:
    assert had_outage(rates)
    assert find_rule("OUTAGE").effect == "invalid"


def test_a_moment_does_not_count() -> None:
    assert not had_outage(STEADY)
    assert not had_outage([*STEADY, 0])


def test_clients_in_step_that_answer_every_few_seconds_are_no_outage() -> None:
    in_step = [0, 0, 0, 64] * 10
    assert not had_outage(in_step, p50_s=3.5)
    assert had_outage(in_step, p50_s=0.02)


def test_few_requests_leave_seconds_without_any() -> None:
    assert not had_outage([1, 0, 2, 0, 0, 1, 3, 0])


def test_a_client_without_ports_is_no_outage_of_the_target() -> None:
    assert not had_outage(STEADY + [0] * 20, kinds=("no_ports",))
    assert had_outage(STEADY + [0] * 20, kinds=("no_ports", "connection_refused"))


def test_a_target_without_failures_was_not_away() -> None:
    assert not had_outage(STEADY + [0] * 20, errors=0)


def test_an_outage_that_a_hook_may_have_made_is_what_was_measured() -> None:
    assert not had_outage(STEADY + [0] * 20, hooks=("5s",))
    assert had_outage(STEADY + [0] * 20, hooks=("before_trial",))


def test_nothing_at_all_has_a_label_of_its_own() -> None:
    assert not had_outage([0] * 20)
