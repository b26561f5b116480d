"""How bench/ runs programs beside each other, and what it reports of their costs."""

import sys
import threading
from collections.abc import Callable

import pytest
import ratios
import trials


def test_in_turns_one_run_of_ours_counts_beside_all_and_who_goes_first_changes() -> None:
    order: list[str] = []

    def program(name: str) -> Callable[[], str]:
        def run() -> str:
            order.append(name)
            return f"{name}{order.count(name)}"

        return run

    theirs = {"a": program("a"), "b": program("b")}
    rounds_of = trials.in_rounds(program("ours"), theirs, 2, at_once=False)
    assert order == ["ours", "a", "b", "a", "b", "ours"]
    assert rounds_of == {
        "a": [("ours1", "a1"), ("ours2", "a2")],
        "b": [("ours1", "b1"), ("ours2", "b2")],
    }


def test_at_once_each_of_theirs_runs_beside_a_run_of_ours() -> None:
    both_are_here = threading.Barrier(2, timeout=60)
    rounds_of = trials.in_rounds(
        both_are_here.wait, {"a": both_are_here.wait, "b": both_are_here.wait}, 3, at_once=True
    )
    # A barrier gives each of the two another number; alone it would break.
    assert {name: [sum(pair) for pair in pairs] for name, pairs in rounds_of.items()} == {
        "a": [1, 1, 1],
        "b": [1, 1, 1],
    }


def test_a_program_that_fails_at_once_ends_the_comparison() -> None:
    def fail() -> None:
        raise SystemExit("fio failed")

    with pytest.raises(SystemExit, match="fio failed"):
        trials.in_rounds(lambda: None, {"fio": fail}, 1, at_once=True)


def test_cpu_time_is_that_of_the_program_alone_while_another_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "ON_CLIENT_CORE", [])
    burn = "import time\nwhile time.process_time() < 1: pass\nprint('burnt')"

    def burnt() -> tuple[float, str]:
        return trials.cpu_of([sys.executable, "-c", burn])

    def idle() -> tuple[float, str]:
        return trials.cpu_of([sys.executable, "-c", "import time; time.sleep(1.5)"])

    (((burnt_s, printed), (idle_s, nothing)),) = trials.in_rounds(
        burnt, {"idle": idle}, 1, at_once=True
    )["idle"]
    assert (printed, nothing) == ("burnt\n", "")
    assert burnt_s >= 1.0
    assert idle_s < 0.5


def test_the_error_of_a_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "ON_CLIENT_CORE", [])
    failing = [sys.executable, "-c", "import sys; print('out'); sys.exit('why')"]
    with pytest.raises(SystemExit, match=r"failed:\nout\nwhy"):
        trials.cpu_of(failing)
    assert trials.cpu_of(failing, may_fail=True)[1] == "out\n"


def test_ratios_are_taken_within_rounds() -> None:
    cost = ratios.Cost
    rounds = [(cost(10, 50), cost(20, 100)), (cost(30, 90), cost(30, 60)), (cost(9, 1), cost(6, 1))]
    row = ratios.compare("case", "peer", rounds)
    assert row["cpu_ratio"] == 1.0
    assert (row["cpu_ratio_min"], row["cpu_ratio_max"]) == (0.5, 1.5)
    assert row["rate_ratio"] == 1.0
    assert (row["loadstone_us"], row["peer_us"]) == (10, 20)


@pytest.mark.parametrize(("at_once", "met"), [(False, "0 of 1"), (True, "1 of 1")])
def test_programs_that_share_a_core_have_no_rates_to_reach(
    at_once: bool, met: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios.print_met([{"cpu_ratio": 0.9, "rate_ratio": 0.5}], "fio", at_once=at_once)
    printed = capsys.readouterr().out
    assert printed.startswith(met)
    assert ("rate" in printed) is not at_once
