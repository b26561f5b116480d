"""The answer on one screen: it fits 80 × 24, merges rounds, and names what a sweep turns on."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.analysis import Findings, analyse
from loadstone.analysis.answers.answer import KNEE_SHARE, answer_of
from loadstone.analysis.answers.headline import headline_of
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import CHECKS, Standing
from loadstone.analysis.numbers import RULES as RULES_ON_NUMBERS
from loadstone.analysis.rules import UNKNOWN, find_rule, view
from loadstone.report import REPORTS, Options
from loadstone.report.next_step import next_step
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial, write_rounds, write_sweep

(SINGLE_TRIALS,) = (rule for rule in RULES_ON_NUMBERS if rule.id == "single-trials")

CODES = ("SHARED_HOST", "INSTRUMENT_CPU", "BEYOND_CLIENT", "n=1", "single-trials", "UNDETERMINED")


def shown(run: Run, findings: Findings, width: int = 80) -> list[str]:
    text = REPORTS["terminal"].render(run, findings, Options(width=width)).decode()
    return text.splitlines()


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Findings]:
    run = read_run(write_rounds(tmp_path_factory.mktemp("rounds"), seconds=4))
    return run, analyse(run)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Findings]:
    run = read_run(write_sweep(tmp_path_factory.mktemp("sweep"), seconds=4))
    return run, analyse(run)


def of_sizes(findings: Findings, count: int) -> Findings:
    """The cases of a sweep once more for each of several sizes: a matrix of size × threads."""
    cases = [
        replace(
            cell, parameters={**cell.parameters, "size": 4096 << (4 * at)}, bytes=cell.good << at
        )
        for at in range(count)
        for cell in findings.results
    ]
    return replace(findings, results=tuple(cases))


@pytest.mark.parametrize("name", ["rounds", "sweep"])
@pytest.mark.parametrize("width", [24, 40, 60])
def test_no_number_is_cut_on_a_narrow_screen(name: str, width: int, request) -> None:  # type: ignore[no-untyped-def]
    run, findings = request.getfixturevalue(name)
    head, *rows = _table_of(shown(run, findings, 120))
    narrow_head, *narrow = _table_of(shown(run, findings, width))
    # Only the last column, which is words, may be cut.
    of_words = head.split().index("Limited")
    assert narrow_head.split()[:of_words] == head.split()[:of_words]
    assert list(map(_numbers, narrow)) == list(map(_numbers, rows))


def _numbers(row: str) -> list[str]:
    return re.findall(r"\d[\d.,]*", row)


def _table_of(lines: list[str]) -> list[str]:
    """Return the head and the rows of the first table, without notes below it."""
    begin = next(at for at, line in enumerate(lines) if "Failed" in line)
    below = lines[begin + 1 : lines.index("", begin)]
    return [lines[begin], *(line for line in below if len(_numbers(line)) > 3)]


@pytest.mark.parametrize("name", ["rounds", "sweep"])
def test_the_answer_fits_one_screen_and_has_no_codes(name: str, request) -> None:  # type: ignore[no-untyped-def]
    run, findings = request.getfixturevalue(name)
    lines = shown(run, findings)
    folder = str(run.path)
    # A command or a path is never broken: it is there to be copied.
    assert all(len(line) <= 80 for line in lines if folder not in line and "calibrate" not in line)
    assert len(lines) <= 24
    assert not [code for code in CODES if any(code in line for line in lines)]


def test_rounds_of_a_case_are_one_row_with_their_spread(rounds: tuple[Run, Findings]) -> None:
    _, findings = rounds
    answer = answer_of(findings)
    assert len(answer.results) == len(findings.rounds) / 2
    for result in answer.results:
        rates = sorted(rate.requests_per_s for rate in result.trial_rates)
        assert len(rates) == 2
        assert result.requests_per_s == pytest.approx((rates[0] * rates[1]) ** 0.5)
        assert (result.rate.low, result.rate.high, result.rate.is_interval) == (*rates, False)
    # Repetition is not advised where there was some.
    assert view("label")["n=1"].short not in {
        why for caution in answer.cautions for why in caution.reasons
    }


def test_a_sweep_answers_with_least_time_knee_and_peak(sweep: tuple[Run, Findings]) -> None:
    _, findings = sweep
    (curve,) = answer_of(findings).curves
    points = dict(curve.points)
    rates = [result.requests_per_s for result in curve.results]
    assert points["peak"].requests_per_s == max(rates)
    assert points["knee"].requests_per_s >= KNEE_SHARE * max(rates)
    below = rates[: rates.index(points["knee"].requests_per_s)]
    assert all(rate < KNEE_SHARE * max(rates) for rate in below)
    assert points["least p50"].parameters["threads"] == 1


def test_the_peak_is_a_mean_and_not_the_luckiest_trial(sweep: tuple[Run, Findings]) -> None:
    _, findings = sweep
    first = findings.results[0]
    lucky = replace(first.trial_rates[0], requests_per_s=1e4)
    lucky_result = replace(
        first, trial_rates=(lucky, *first.trial_rates[1:], *first.trial_rates[1:])
    )
    answer = answer_of(replace(findings, results=(lucky_result, *findings.results[1:])))
    assert dict(answer.curves[0].points)["peak"].parameters != first.parameters


def test_size_and_threads_are_a_matrix_with_its_best_marked(sweep: tuple[Run, Findings]) -> None:
    run, findings = sweep
    many = of_sizes(findings, 3)
    (matrix,) = answer_of(many).matrices
    assert matrix.rows == (4096, 65536, 1048576)
    best = matrix.results[matrix.best]  # type: ignore[index]
    assert best.bytes_per_s == max(result.bytes_per_s for result in matrix.results.values())
    lines = shown(run, many, 100)
    assert len(lines) <= 24
    assert sum("*" in line for line in lines) == 2  # the cell, and the line on it
    # Numbers of a column end at one place, those of the last column too.
    head, *rows = lines[2 : 3 + len(matrix.rows)]
    assert head.split()[-4:-2] == [str(matrix.columns[-2]), "threads"]
    ends = {len(line.rstrip("* ")) for line in rows}
    assert ends == {len(head.rstrip())}


def test_a_matrix_too_wide_for_its_heads_keeps_every_number(sweep: tuple[Run, Findings]) -> None:
    run, findings = sweep
    lines = shown(run, of_sizes(findings, 3), 72)
    (head,) = [line for line in lines if line.endswith(", by threads")]
    loads, *rows = lines[lines.index(head) + 1 :][:4]
    assert loads.split() == ["1", "4", "8", "12", "16", "20"]
    assert all(len(row) <= 72 and len(row.split()) == 2 + 6 for row in rows)


def test_the_marks_of_a_matrix_are_explained_where_there_are_some(
    sweep: tuple[Run, Findings],
) -> None:
    run, findings = sweep
    assert not [line for line in shown(run, of_sizes(findings, 3)) if line.startswith(("×", "≥"))]
    first, second, *others = findings.results
    marked = (standing(first, "void", "OUTAGE"), standing(second, "bound", "HOST_LOST"), *others)
    lines = shown(run, of_sizes(replace(findings, results=marked), 3))
    assert len(lines) <= 24
    (key,) = [line for line in lines if line.startswith("×")]
    assert "≥" in key


def test_left_out_trials_are_named(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    many = replace(findings, results=findings.results * 9)
    lines = shown(run, many)
    assert len(lines) <= 24
    (line,) = [line for line in lines if "more results" in line]
    rows = [line for line in lines if "/s" in line and "Rate:" not in line]
    assert int(line.split()[1]) == len(many.results) - len(rows)


def standing(result: Result, word: Standing, *labels: str) -> Result:
    return replace(result, standing=word, reasons=labels, labels=(*result.labels, *labels))


def test_requests_for_unwritten_objects_are_one_line(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    assert not [line for line in shown(run, findings) if "unwritten" in line]
    first, *rest = findings.results
    lost = replace(first, requests=first.requests + 1200, errors={"unwritten": 1200})
    lines = shown(run, replace(findings, results=(lost, *rest)))
    assert len([line for line in lines if "unwritten" in line and "1,200" in line]) == 1
    assert len(lines) <= 24


def test_lost_races_are_one_line_and_no_failures(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    assert not [line for line in shown(run, findings) if "race" in line]
    first, *rest = findings.results
    lost = replace(first, requests=first.requests + 1200, errors={"lost_race": 1200})
    assert (lost.lost_races, lost.failed, lost.most_frequent_error) == (1200, 0, "")
    lines = shown(run, replace(findings, results=(lost, *rest)))
    assert len([line for line in lines if "race" in line and "1,200" in line]) == 1


def test_cautions_are_one_line_a_kind_the_gravest_first(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    first, second, *others = findings.results
    marked = (standing(first, "void", "STALLED"), standing(second, "bound", "HOST_LOST"), *others)
    marked_findings = replace(
        findings,
        results=marked,
        findings=(
            Finding(rule="STALLED", statement=""),
            Finding(rule="NOISY", statement=""),
            Finding(rule="single-trials", statement="", row=SINGLE_TRIALS),
            *findings.findings,
        ),
    )
    answer = answer_of(marked_findings)
    assert [caution.weight for caution in answer.cautions] == ["void", "bound", "caution"]
    assert answer.cautions[0].results == 1
    reasons = [reason for caution in answer.cautions for reason in caution.reasons]
    assert len(reasons) == len(set(reasons))
    # Rules on numbers are in no table of labels: the finding brings its own.
    assert UNKNOWN.says not in reasons
    # A client that stalled for long is not said to have stalled briefly, too.
    assert view("label")["NOISY"].short not in reasons
    lines = [line for line in shown(run, marked_findings) if line.startswith(" ! ")]
    assert [line.split()[1] for line in lines] == ["failed", "void", "bound", "caution"]
    assert max(map(len, lines)) <= 80


def test_the_most_frequent_error_is_on_the_first_screen(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    lines = shown(run, findings)
    (at,) = [at for at, line in enumerate(lines) if line.startswith(" ! failed")]
    (failing,) = [result for result in findings.results if result.failed]
    assert failing.example
    assert (failing.most_frequent_error,) == ("throttled",)
    assert f"{failing.failed} × throttled" in lines[at]
    assert failing.example in " ".join(lines[at : at + 2])


def test_a_long_error_keeps_its_request_and_its_reason(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    path = "/bench-1/" + "k" * 200
    reason = "HTTP 404 NoSuchBucket: the bucket does not exist"
    example = f"GET {path} at 127.0.0.1:9000: {reason}"
    results = [
        replace(result, example=example) if result.failed else result for result in findings.results
    ]
    lines = shown(run, replace(findings, results=results))
    (at,) = [at for at, line in enumerate(lines) if line.startswith(" ! failed")]
    assert lines[at + 1].split()[0] == "GET"
    assert lines[at + 1].endswith(reason)
    assert len(lines[at + 1]) == 80


def test_a_caution_with_a_long_reason_leaves_its_count_out(
    rounds: tuple[Run, Findings], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, findings = rounds
    answer = answer_of(findings)
    reasons = ("client and store share the host's processors", "the link was full")
    caution = replace(answer.cautions[0], weight="bound", results=1, reasons=reasons)
    monkeypatch.setattr(
        "loadstone.report.answer.answer_of", lambda _: replace(answer, cautions=(caution,))
    )
    (line,) = [line for line in shown(run, findings) if line.startswith(" ! bound")]
    assert line.endswith("processors; 1 more")
    assert len(line) <= 80


def test_a_result_with_too_many_failures_says_that_it_must_not_be_used(
    rounds: tuple[Run, Findings],
) -> None:
    run, findings = rounds
    first, *rest = findings.results
    assert first.verdict is not None
    failed = replace(
        first,
        verdict=replace(first.verdict, limit="INVALID(errors)"),
        standing="void",
        reasons=("INVALID(errors)",),
    )
    failed_findings = replace(findings, results=(failed, *rest))
    caution = answer_of(failed_findings).cautions[0]
    assert (caution.weight, caution.reasons) == ("void", (CHECKS["errors"],))
    assert failed.limit_words == CHECKS["errors"]
    assert any(
        f"loadstone report {run.path} --full" in line for line in shown(run, failed_findings)
    )


def test_durations_below_a_tenth_of_a_second_are_not_zero(
    rounds: tuple[Run, Findings],
) -> None:
    run, findings = rounds
    trials = tuple(replace(planned, duration_s=0.001) for planned in findings.trials)
    assert " 0 ns" not in shown(run, replace(findings, trials=trials))[0]


def test_the_next_step_repeats_what_was_typed(tmp_path: Path) -> None:
    folder = write_rounds(tmp_path / "run", seconds=2)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["command"] = "loadstone bench put http://127.0.0.1:9000 --blocks 1 -o here -n 10"
    manifest["plan"] = [entry for entry in manifest["plan"] if entry["round"] == 1]
    path.write_text(json.dumps(manifest))
    run = read_run(folder)
    once = replace(analyse(run), results=tuple(c for c in analyse(run).rounds if c.round == 1))
    (line,) = [line for line in shown(run, once) if "--blocks 6" in line]
    wanted = "loadstone bench put http://127.0.0.1:9000 -n 10 --blocks 6"
    assert line.strip() == wanted


def test_a_command_with_an_open_quote_costs_the_next_step_alone(tmp_path: Path) -> None:
    folder = write_rounds(tmp_path / "run", seconds=2)
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "command": 'loadstone run "a'}))
    run = read_run(folder)
    assert shown(run, analyse(run))


def test_a_page_does_not_send_its_reader_to_itself(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    findings = replace(findings, findings=())
    answer = replace(answer_of(findings), cautions=(), results=answer_of(findings).results[:1])
    on_screen = next_step(run, findings, answer, is_on_page=False)
    assert on_screen is not None
    assert "-f html" in on_screen[1]
    assert next_step(run, findings, answer, is_on_page=True) is None


def test_a_run_without_results_says_so(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    empty = replace(findings, results=(), rounds=(), mixes=(), iterations=())
    assert any("no result" in line for line in shown(run, empty))


def test_people_read_limits_in_words_and_programs_ids(rounds: tuple[Run, Findings]) -> None:
    run, findings = rounds
    limits = {
        measured.verdict.limit for measured in findings.rounds if measured.verdict is not None
    }
    assert limits
    for name in ("terminal", "markdown", "html"):
        text = REPORTS[name].render(run, findings, Options(is_full=True)).decode()
        # A cell of Markdown and of HTML; on a terminal cells stand two blanks apart.
        cells = re.split(r"[|<>]|  +|\n", text)
        assert not limits & {cell.strip() for cell in cells}
    document = REPORTS["json"].render(run, findings, Options()).decode()
    assert not [limit for limit in limits if f'"{limit}"' not in document]


def test_behaviour_of_the_store_has_a_line_of_its_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "closing", 4)
    folder.add(trial(1, "one", "get", clients=4), 200, changes={"connections_opened": 800})
    run = read_run(folder.close(campaign={"targets": {"one": {}}}, campaign_file=""))
    findings = analyse(run)
    (finding,) = [finding for finding in findings.findings if finding.rule == "connections-closed"]
    (line,) = [line for line in shown(run, findings, 100) if line.startswith(" ! store ")]
    assert finding.statement in line
    first = headline_of(findings, answer_of(findings)).sentence
    assert finding.statement[1:] in first
    words = find_rule("connections-closed").short
    assert all(words not in caution.reasons for caution in answer_of(findings).cautions)


def test_a_planned_audit_that_did_not_run_is_not_proposed(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "closing", 4)
    folder.add(trial(1, "one", "put", clients=4), 200, changes={"verified_requests": 0})
    run = read_run(folder.close(campaign={"targets": {"one": {}}}, campaign_file=""))
    audit = {**run.manifest["plan"][0], "id": "0002", "phase": "audit"}
    audited = replace(run, manifest={**run.manifest, "plan": [*run.manifest["plan"], audit]})
    for each, has_flag in ((run, True), (audited, False)):
        (line,) = [line for line in shown(each, analyse(each), 100) if line.startswith(" · data ")]
        assert ("--audit" in line) == has_flag
