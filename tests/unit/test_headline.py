"""The first screen's sentence and tiles, from runs whose truth is known."""

import re
from dataclasses import replace

import pytest

from loadstone import units
from loadstone.analysis import analyse
from loadstone.analysis.accounts.comparison import compare
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.answers.answer import answer_of
from loadstone.analysis.answers.headline import headline_of, ratio_words
from loadstone.analysis.limits.searches import describe_answer
from loadstone.analysis.rules import view
from loadstone.report import REPORTS, Options
from loadstone.results.store import read_run
from tests.unit.runs_of_all_kinds import write_search
from tests.unit.synthetic_run import Folder, trial, trial_rows, write_rounds, write_sweep


def first_screen(path):
    findings = analyse(read_run(path))
    return headline_of(findings, answer_of(findings))


def closed(folder):
    return folder.close(campaign={"targets": {"one": {}, "other": {}}}, campaign_file="")


def in_turns(path, *, blocks=6, rounds=1, rate_of=None):
    """Return a run of two targets in blocks, each of them in another order."""
    folder = Folder(path, "turns", seconds=4)
    number = 0
    for block in range(1, blocks + 1):
        for target in ("one", "other")[:: 1 if block % 2 else -1]:
            for round_ in range(1, rounds + 1):
                number += 1
                # Differences between blocks and rounds are the same for both targets.
                rate = (100 if target == "one" else 300 + block) * block * round_
                rate = rate if rate_of is None else rate_of(target, block)
                folder.add(trial(number, target, "get", block=block, round=round_), rate)
    return closed(folder)


@pytest.mark.parametrize("rounds", [1, 2])
def test_targets_that_took_turns_have_a_paired_ratio_with_its_interval(tmp_path, rounds):
    screen = first_screen(in_turns(tmp_path / "run", rounds=rounds))
    of = screen.ratio.of
    assert (screen.ratio.over.target, screen.ratio.under.target) == ("other", "one")
    # A block is a pair, however many rounds are in it.
    assert (of.verdict, of.ratio.n_a, of.ratio.is_paired) == ("faster", 6, True)
    assert of.ratio.low <= of.ratio.ratio <= of.ratio.high
    assert re.match(r"other\b.* 3\.03× .*\bget\b.*\bone\b", screen.sentence)


def test_a_printed_ratio_is_that_of_the_printed_rates(tmp_path):
    screen = first_screen(in_turns(tmp_path / "run"))
    of = screen.ratio.of
    assert of.ratio.ratio == pytest.approx(of.b / of.a)
    assert of.b == pytest.approx(screen.ratio.over.requests_per_s)
    assert of.a == pytest.approx(screen.ratio.under.requests_per_s)
    for rate in (of.a, of.b):
        assert units.format_rate(rate) in screen.sentence


def test_blocks_that_one_target_lacks_count_for_neither(tmp_path):
    path = in_turns(tmp_path / "run")
    for file in path.glob("*/0012.*"):
        file.unlink()
    findings = analyse(read_run(path))
    headline = headline_of(findings, answer_of(findings))
    of = headline.ratio.of
    assert (of.ratio.n_a, headline.ratio.over.rate.n, headline.ratio.under.rate.n) in (
        (5, 5, 6),
        (5, 6, 5),
    )
    assert of.ratio.ratio == pytest.approx(of.b / of.a)
    assert units.format_rate(of.a) in headline.sentence
    assert units.format_rate(of.b) in headline.sentence
    assert "5 common blocks" in headline.sentence


def test_without_a_ratio_the_rates_are_those_of_the_table(tmp_path):
    folder = Folder(tmp_path / "run", "turns", seconds=4)
    busy = {"thread_cpu_ns": [4 * 10**9], "thread_run_delay_ns": [0], "thread_awake_ns": [0]}
    turns = [(target, block) for block in range(1, 7) for target in ("one", "other")]
    # The last block lacks its second target.
    for number, (target, block) in enumerate(turns[:-1], start=1):
        document = trial(number, target, "get", block=block)
        rows = trial_rows(document, 100 * block * (1 + (target == "other")), 4)
        folder.write(document, rows, changes=busy if target == "other" else {})
    screen = first_screen(closed(folder))
    assert screen.ratio.of.verdict == "no ratio"
    assert screen.ratio.of.a != pytest.approx(screen.ratio.under.requests_per_s)
    for result in (screen.ratio.over, screen.ratio.under):
        assert units.format_rate(result.requests_per_s) in screen.sentence


def test_the_headline_claims_what_compare_claims(tmp_path):
    """Few trials, and intervals that touch 1, give no headline."""
    rates = {"one": [100, 140, 90, 130, 100, 120], "other": [130, 110, 150, 100, 125, 105]}
    path = in_turns(tmp_path / "run", rate_of=lambda target, block: rates[target][block - 1])
    few = in_turns(tmp_path / "few", blocks=4)
    for folder, verdict in ((path, "not resolved"), (few, "too few trials")):
        account = read_account(read_run(folder))
        compared = compare(account.only("one"), account.only("other")).comparisons[0]
        screen = first_screen(folder)
        assert (screen.ratio.of.verdict, compared.verdict) == (verdict, verdict)
        assert not screen.ratio.is_claimed
        assert "reached" not in screen.sentence
        assert "×" not in screen.sentence + screen.tiles[1].value


def test_targets_whose_rounds_ran_one_after_the_other_are_no_pairs(tmp_path):
    """Rounds repeat a target's phases: in between, the other one waits."""
    screen = first_screen(write_rounds(tmp_path / "run", seconds=4))
    assert (screen.ratio.over.target, screen.ratio.under.target) == ("hummingbird", "ceph")
    assert (screen.ratio.of.verdict, screen.ratio.of.ratio.is_paired) == ("too few trials", False)
    assert ratio_words(screen.ratio) in screen.sentence
    assert ratio_words(screen.ratio) in screen.tiles[1].note
    keys = [tile.key for tile in screen.tiles]
    assert keys == ["rate", "ratio", "p99", "failed", "confidence"]
    assert screen.tiles[1].name == "hummingbird ÷ ceph"
    assert {"get"} <= set(screen.tiles[0].name.split()) & set(screen.tiles[2].name.split())


def test_one_trial_of_each_target_is_no_claim(tmp_path):
    folder = Folder(tmp_path / "run", "two", seconds=4)
    folder.add(trial(1, "one", "get"), 100)
    folder.add(trial(2, "other", "get"), 250)
    screen = first_screen(closed(folder))
    assert screen.ratio.of.verdict == "single trial"
    assert ratio_words(screen.ratio) in screen.sentence
    assert "2.5" not in screen.sentence
    assert screen.confidence == 1


def test_one_limit_of_two_targets_is_named_once(tmp_path):
    folder = Folder(tmp_path / "run", "two", seconds=4)
    busy = {"thread_cpu_ns": [4 * 10**9], "thread_run_delay_ns": [0], "thread_awake_ns": [0]}
    for number, target in enumerate(("one", "other"), start=1):
        document = trial(number, target, "get")
        folder.write(document, trial_rows(document, 100 * number, 4), changes=busy)
    screen = first_screen(closed(folder))
    assert screen.ratio.of.verdict == "no ratio"
    limits = {arm.limit_words for arm in (screen.ratio.over, screen.ratio.under)}
    assert [screen.sentence.count(limit) for limit in limits] == [1]


def test_a_sweep_has_its_knee_instead_of_a_ratio(tmp_path):
    screen = first_screen(write_sweep(tmp_path / "run", seconds=4))
    assert screen.ratio is None
    assert screen.best.parameters["threads"] == 16
    assert "12 threads" in screen.sentence
    assert "knee" in screen.sentence.lower()
    assert screen.tiles[1].key == "knee"


def test_a_target_without_a_good_request_is_named_with_what_came_back(tmp_path):
    folder = Folder(tmp_path / "run", "two", seconds=4)
    folder.add(trial(1, "one", "get"), 100)
    broken = trial(2, "other", "get")
    rows = trial_rows(broken, 100, 4, failed_per_s=50, kind="connect")
    folder.write(
        broken,
        [row for row in rows if row["outcome"] != "ok"],
        changes={"error_examples": {"connect": "connection refused"}},
    )
    screen = first_screen(closed(folder))
    assert [arm.target for arm in screen.failed] == ["other"]
    assert re.match(r"other\b.*\b200 × connect: connection refused\. one\b", screen.sentence)
    assert screen.tiles[-2].is_bad


def test_a_run_without_results_has_a_sentence_and_no_confidence(tmp_path):
    folder = Folder(tmp_path / "run", "nothing", seconds=4)
    folder.skip(trial(1, "one", "get"))
    screen = first_screen(closed(folder))
    assert screen.standing == "void"
    assert screen.confidence == 0
    assert "no result" in screen.sentence


def broken_round(tmp_path, rounds):
    folder = Folder(tmp_path / "run", "rounds", seconds=4)
    for number, is_broken in enumerate(rounds, start=1):
        document = trial(number, "one", "get", round=number)
        rows = trial_rows(document, 100 * number, 4)
        if is_broken:
            # More requests in flight than clients: the books do not agree.
            rows = trial_rows(document, 900, 4)
            document["load"]["clients"] = 1
        folder.write(document, rows)
    return analyse(read_run(closed(folder)))


def test_one_void_round_does_not_spoil_its_case_and_is_named(tmp_path):
    findings = broken_round(tmp_path, [False, True, False])
    (result,) = answer_of(findings).results
    assert not result.is_void
    assert result.trials == ("0001", "0003")
    assert result.requests_per_s == pytest.approx((100 * 300) ** 0.5)
    assert "LEFT_OUT" in result.labels
    (caution, *_) = answer_of(findings).cautions
    assert (caution.weight, caution.results) == ("caution", 1)
    assert view("label")["LEFT_OUT"].short in caution.reasons


def test_a_case_whose_rounds_are_all_void_is_void(tmp_path):
    findings = broken_round(tmp_path, [True, True])
    (result,) = answer_of(findings).results
    assert result.is_void
    assert headline_of(findings, answer_of(findings)).standing == "void"


def void_trial(folder, number, operation, target="ceph", **place):
    """Add a trial with more requests in flight than clients: the books do not agree."""
    document = trial(number, target, operation, **place)
    rows = trial_rows(document, 900, 4)
    document["load"]["clients"] = 1
    folder.write(document, rows)


def test_operations_beside_void_reads_and_writes_are_not_the_headline(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    void_trial(folder, 1, "get")
    folder.add(trial(2, "ceph", "head"), 3)
    screen = first_screen(closed(folder))
    assert screen.best is None
    assert screen.standing == "void"
    assert "3.00/s" not in screen.sentence


def test_without_a_usable_result_the_sentence_says_once_why(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    void_trial(folder, 1, "get")
    screen = first_screen(closed(folder))
    (result,) = analyse(read_run(tmp_path / "run")).results
    assert screen.sentence.count(result.limit_words) == 1


def test_a_target_that_failed_before_its_first_trial_is_named_with_the_reason(tmp_path):
    folder = Folder(tmp_path / "run", "turns", seconds=4)
    folder.add(trial(1, "one", "get"), 100)
    folder.plan.append(trial(2, "other", "get"))
    reason = 'open "/x": no such file'
    path = folder.close(campaign={}, campaign_file="", failed={"0002": f'target "other": {reason}'})
    run = read_run(path)
    findings = analyse(run)
    (failed,) = headline_of(findings, answer_of(findings)).failed
    assert (failed.target, failed.reason) == ("other", reason)
    assert findings.trials[1].reason.endswith(failed.reason)
    assert failed.reason in REPORTS["terminal"].render(run, findings, Options()).decode()


def test_an_operation_without_a_result_is_named_beside_the_best(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    void_trial(folder, 1, "put")
    folder.add(trial(2, "ceph", "get"), 100)
    screen = first_screen(closed(folder))
    assert screen.best.operation == "get"
    assert re.search(r"\bNo result\b.*\bput\b", screen.sentence)


def test_a_void_trial_leaves_the_other_rounds_paired(tmp_path):
    folder = Folder(tmp_path / "run", "rounds", seconds=4)
    for round_ in (1, 2, 3):
        folder.add(trial(2 * round_, "one", "get", round=round_), 100 + round_)
        if round_ < 3:
            folder.add(trial(2 * round_ + 1, "other", "get", round=round_), 200 + 5 * round_)
    void_trial(folder, 7, "get", target="other", round=3)
    screen = first_screen(closed(folder))
    assert (screen.ratio.of.ratio.n_a, screen.ratio.of.ratio.is_paired) == (2, True)
    assert screen.ratio.of.ratio.ratio == pytest.approx((205 / 101 * 210 / 102) ** 0.5, rel=0.01)


def test_a_search_that_is_not_over_has_no_failed_target(tmp_path):
    run = read_run(write_search(tmp_path / "run"))
    cut = replace(run, records=tuple(record for record in run.records if "-00" in record.id))
    findings = analyse(cut)
    (search,) = findings.searches
    assert not search.is_over
    headline = headline_of(findings, answer_of(findings))
    assert headline.failed == ()
    assert headline.sentence == f"{search.name}: {describe_answer(search)}."
