"""The first screen's sentence and tiles, from runs whose truth is known."""

import re
from dataclasses import replace

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.answers import headline
from loadstone.analysis.answers.answer import answer_of
from loadstone.analysis.answers.headline import headline_of, ratio_words
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial, trial_rows, write_rounds, write_sweep


def first_screen(path):
    findings = analyse(read_run(path))
    return headline_of(findings, answer_of(findings))


def closed(folder):
    return folder.close(campaign={"targets": {"one": {}, "other": {}}}, campaign_file="")


def in_turns(path, *, rounds=1):
    """Return a run of two targets in two blocks, the second of them in another order."""
    folder = Folder(path, "turns", seconds=4)
    number = 0
    for block, order in ((1, ("one", "other")), (2, ("other", "one"))):
        for target in order:
            for round_ in range(1, rounds + 1):
                number += 1
                # What differs between blocks and rounds differs for both alike.
                rate = (100 if target == "one" else 300) * block * round_
                folder.add(trial(number, target, "get", block=block, round=round_), rate)
    return closed(folder)


@pytest.mark.parametrize("rounds", [1, 2])
def test_targets_that_took_turns_have_a_paired_ratio_with_its_interval(tmp_path, rounds):
    found = first_screen(in_turns(tmp_path / "run", rounds=rounds))
    assert (found.ratio.over.cell.target, found.ratio.under.cell.target) == ("other", "one")
    assert found.ratio.ratio == pytest.approx(3, rel=0.01)
    assert found.ratio.low <= found.ratio.ratio <= found.ratio.high
    # A block is a pair, however many rounds are in it.
    assert found.ratio.pairs == 2
    assert re.match(r"other\b.* 3\.00× .*\bget\b.*\bone\b", found.sentence)


def test_targets_whose_rounds_ran_one_after_the_other_are_no_pairs(tmp_path):
    """Rounds repeat a target's phases: in between, the other one waits."""
    found = first_screen(write_rounds(tmp_path / "run", seconds=4))
    assert (found.ratio.over.cell.target, found.ratio.under.cell.target) == ("hummingbird", "ceph")
    assert (found.ratio.low, found.ratio.high, found.ratio.pairs) == (None, None, 0)
    # The medians are (1716 + 2072) / 2 and (323 + 283) / 2.
    assert found.ratio.ratio == pytest.approx(1894 / 303, rel=0.01)
    assert re.match(r"hummingbird\b.* 6\.25× .*\bget\b.*\bceph\b", found.sentence)
    assert found.ratio.is_one_by_one
    words = ratio_words(found.ratio)
    assert words != ratio_words(replace(found.ratio, is_one_by_one=False))
    assert words in found.sentence
    assert words in found.tiles[1].note
    keys = [tile.key for tile in found.tiles]
    assert keys == ["rate", "ratio", "p99", "failed", "confidence"]
    assert found.tiles[1].name == "hummingbird ÷ ceph"
    assert {"get"} <= set(found.tiles[0].name.split()) & set(found.tiles[2].name.split())


def test_trials_that_do_not_say_when_they_ran_are_no_pairs(tmp_path):
    """Files of another tool count up; in which order they were made they do not say."""
    findings = analyse(read_run(in_turns(tmp_path / "run")))
    trials = tuple(replace(one, started_unix_ns=None) for one in findings.trials)
    findings = replace(findings, trials=trials)
    ratio = headline_of(findings, answer_of(findings)).ratio
    assert (ratio.low, ratio.pairs, ratio.is_one_by_one) == (None, 0, True)


def test_one_trial_of_each_target_has_a_ratio_of_medians_that_says_so(tmp_path):
    folder = Folder(tmp_path / "run", "two", seconds=4)
    folder.add(trial(1, "one", "get"), 100)
    folder.add(trial(2, "other", "get"), 250)
    found = first_screen(closed(folder))
    assert found.ratio.ratio == pytest.approx(2.5)
    assert found.ratio.low is None
    assert not found.ratio.is_one_by_one
    assert ratio_words(found.ratio) in found.sentence
    assert found.confidence == 1


def test_a_sweep_has_its_knee_instead_of_a_ratio(tmp_path):
    found = first_screen(write_sweep(tmp_path / "run", seconds=4))
    assert found.ratio is None
    assert found.best.cell.parameters["threads"] == 16
    assert "12 threads" in found.sentence
    assert "knee" in found.sentence
    assert found.tiles[1].key == "knee"


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
    found = first_screen(closed(folder))
    assert [one.target for one in found.failed] == ["other"]
    assert re.match(r"other\b.*\b200 × connect: connection refused\. one\b", found.sentence)
    assert found.tiles[-2].is_bad


def test_a_run_without_results_has_a_sentence_and_no_confidence(tmp_path):
    folder = Folder(tmp_path / "run", "nothing", seconds=4)
    folder.skip(trial(1, "one", "get"))
    found = first_screen(closed(folder))
    assert found.standing == "void"
    assert found.confidence == 0
    assert "no result" in found.sentence


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
    assert result.cell.trials == ("0001", "0003")
    assert result.rate == pytest.approx(200)
    (caution, *_) = answer_of(findings).cautions
    assert (caution.effect, caution.results) == ("invalid", 1)


def test_a_case_whose_rounds_are_all_void_is_void(tmp_path):
    findings = broken_round(tmp_path, [True, True])
    (result,) = answer_of(findings).results
    assert result.is_void
    assert headline_of(findings, answer_of(findings)).standing == "void"


def test_a_ratio_against_its_medians_does_not_say_which_target_is_faster(tmp_path):
    found = first_screen(in_turns(tmp_path / "run"))
    ratio = replace(found.ratio, ratio=0.99, low=0.5, high=2.0)
    first, *_ = headline._main_sentence(found.best, ratio, None, None)
    assert re.search(r"\bget\b.*\bother\b.*\bone\b", first)
    assert "ratio 0.990×" in first
    assert "reached" not in first


def void_trial(folder, number, operation, target="ceph", **place):
    """Add a trial with more requests in flight than clients: the books do not agree."""
    document = trial(number, target, operation, **place)
    rows = trial_rows(document, 900, 4)
    document["load"]["clients"] = 1
    folder.write(document, rows)


def test_what_goes_beside_void_reads_and_writes_is_no_headline(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    void_trial(folder, 1, "get")
    folder.add(trial(2, "ceph", "head"), 3)
    found = first_screen(closed(folder))
    assert found.best is None
    assert found.standing == "void"
    assert "3.00/s" not in found.sentence


def test_an_operation_without_a_result_is_named_beside_the_best(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    void_trial(folder, 1, "put")
    folder.add(trial(2, "ceph", "get"), 100)
    found = first_screen(closed(folder))
    assert found.best.cell.operation == "get"
    assert re.search(r"\bNo result\b.*\bput\b", found.sentence)


def test_a_void_trial_leaves_the_other_rounds_paired(tmp_path):
    folder = Folder(tmp_path / "run", "rounds", seconds=4)
    for round_ in (1, 2, 3):
        folder.add(trial(2 * round_, "one", "get", round=round_), 100 + round_)
        if round_ < 3:
            folder.add(trial(2 * round_ + 1, "other", "get", round=round_), 200 + 5 * round_)
    void_trial(folder, 7, "get", target="other", round=3)
    found = first_screen(closed(folder))
    assert found.ratio.pairs == 2
    assert found.ratio.ratio == pytest.approx((205 / 101 * 210 / 102) ** 0.5, rel=0.01)
    assert found.ratio.low is not None
