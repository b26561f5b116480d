"""Long tests in turn: each commit draws some, the same ones each time, within its budget."""

from tests.rotation import drawn

COSTS = {f"test-{number}": 1.0 + number % 7 for number in range(60)}
COMMITS = [f"{number:040x}" for number in range(200)]


def test_a_commit_draws_the_same_tests_wherever_it_runs() -> None:
    for commit in COMMITS[:20]:
        there = drawn(reversed(COSTS.items()), commit, 40)
        assert drawn(COSTS.items(), commit, 40) == there
    assert drawn(COSTS.items(), COMMITS[0], 40) != drawn(COSTS.items(), COMMITS[1], 40)


def test_drawn_tests_use_nearly_all_of_the_budget_and_no_more() -> None:
    for commit in COMMITS:
        cost_s = sum(COSTS[name] for name in drawn(COSTS.items(), commit, 40))
        assert 39 <= cost_s <= 40


def test_every_test_has_its_turn_unless_it_costs_more_than_all_of_the_budget() -> None:
    costs = COSTS | {"far-too-long": 41.0}
    turns = [drawn(costs.items(), commit, 40) for commit in COMMITS]
    assert set().union(*turns) == COSTS.keys()
