"""Every output of a run prints the model's numbers: rates, spreads, standings and times.

Twenty runs of all kinds go through every output. What a program reads is held to the model field by
field; what people read may hold no rate that is not one of the model's.
"""

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

import loadstone
from loadstone import units
from loadstone.analysis import Findings, analyse
from loadstone.analysis.accounts.comparison import compare
from loadstone.analysis.accounts.history import Entry, trace
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.answers.answer import answer_of, answer_of_scripts
from loadstone.analysis.answers.headline import headline_of
from loadstone.analysis.cells.agents import AgentCell
from loadstone.analysis.cells.queries import ratio_of
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.thresholds import judge, parse_threshold
from loadstone.analysis.statistics.latency import QUANTILES, Latency
from loadstone.cli import exit_code, fail_if
from loadstone.published import find_layout
from loadstone.report import REPORTS, Options
from loadstone.report.formats.tabular import CLIENT_COLUMNS, COLUMNS, LATENCIES
from loadstone.report.result_words import MARKS, ends_words, quantile_words, rate_words
from loadstone.report.tables.layout import Column, Table
from loadstone.report.tables.results import results_table, rounds_table
from loadstone.results.record import Run
from loadstone.results.store import read_run
from loadstone.view.rendering import PageRenderer
from loadstone.view.run_list import RunList
from tests.unit.runs_of_all_kinds import (
    RUNS,
    SECONDS,
    Write,
    closed,
    write_queries,
    write_script,
    write_streams,
)
from tests.unit.synthetic_run import Folder, trial, trial_rows


def test_the_runs_of_all_kinds_are_of_all_standings(tmp_path: Path) -> None:
    standings = {
        name: {result.standing for result in analyse(read_run(RUNS[name](tmp_path / name))).results}
        for name in ("six trials", "bound", "void by the client", "void by failures")
    }
    assert standings == {
        "six trials": {"valid"},
        "bound": {"bound"},
        "void by the client": {"void"},
        "void by failures": {"void"},
    }


def test_totals_of_arms_of_queries_are_of_usable_times(tmp_path: Path) -> None:
    queries = analyse(read_run(write_queries(tmp_path / "run"))).queries
    assert queries is not None
    first, other = queries.arms
    assert {query.query for query in other.queries if query.standing == "void"} == {"Q13"}
    assert (first.is_whole, other.is_whole, other.total_s) == (True, False, None)
    ratio = ratio_of(first, other)
    assert ratio is not None
    assert ratio.n_a == 2


@pytest.fixture(scope="module", params=RUNS)
def made(request, tmp_path_factory):  # type: ignore[no-untyped-def]
    path = RUNS[request.param](tmp_path_factory.mktemp("runs") / "run")
    run = read_run(path)
    return path, run, analyse(run)


def rendered(run: Run, findings: Findings, name: str, **chosen: Any) -> str:
    return REPORTS[name].render(run, findings, Options(**chosen)).decode()


def test_the_model_is_what_its_definition_says(made: tuple[Path, Run, Findings]) -> None:
    _, _, findings = made
    for result in every(findings):
        rates = [rate.requests_per_s for rate in result.trial_rates if rate.requests_per_s]
        mean = 1.0
        for rate in rates:
            mean *= rate ** (1 / len(rates))
        # Over days of as many trials each, the mean of the days' means is that of all trials.
        assert result.requests_per_s == pytest.approx(mean if rates else 0.0)
        assert result.rate.is_interval == (len(rates) >= 5)
        if 1 < len(rates) < 5:
            assert (result.rate.low, result.rate.high) == (min(rates), max(rates))
        assert result.rate.low <= result.requests_per_s * (1 + 1e-12)
        assert result.requests_per_s <= result.rate.high * (1 + 1e-12)
        assert (result.standing == "valid") == (not result.reasons)


def every(findings: Findings) -> list[Result]:
    return [*findings.results, *findings.rounds, *findings.iterations, *findings.mixes] + [
        action.cell for action in (*findings.action_cases, *findings.action_totals)
    ]


COUNTS = {
    "requests": "requests",
    "good_requests": "good",
    "failed_requests": "failed_if_stated",
    "objects": "objects",
    "bytes": "bytes",
    "duration_s": "duration_s",
}


def times_of(shown: Any) -> list[Any]:
    """Return percentiles, longest and mean, of a latency or of a document's."""
    if shown is None:
        return []
    if isinstance(shown, Latency):
        shown = {**shown.quantiles, "max": shown.max_ns, "mean": shown.mean_ns}
    return [shown[name] for name in (*QUANTILES, "max", "mean")]


def test_json_has_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    _, run, findings = made
    document = json.loads(rendered(run, findings, "json"))
    for key in ("results", "rounds", "iterations", "mixes"):
        results: tuple[Result, ...] = getattr(findings, key)
        for row, result in zip(document[key], results, strict=True):
            assert row["requests_per_s"] == result.requests_per_s
            assert row["bytes_per_s"] == result.bytes_per_s
            assert row["pooled_requests_per_s"] == pytest.approx(result.good / result.duration_s)
            assert (row["standing"], row["reasons"]) == (result.standing, list(result.reasons))
            spread = row["requests_per_s_spread"]
            assert (spread is not None) == result.rate.is_spread
            assert not spread or (spread["low"], spread["high"]) == (
                result.rate.low,
                result.rate.high,
            )
            for name, attribute in COUNTS.items():
                assert row[name] == getattr(result, attribute), name
            assert [rate["requests_per_s"] for rate in row["trial_rates"]] == [
                rate.requests_per_s for rate in result.trial_rates
            ]
            for kind in LATENCIES:
                assert times_of(row[f"{kind}_ns"]) == times_of(getattr(result, kind)), kind
    for row, action in zip(document["actions"], findings.actions, strict=True):
        assert row["completed_per_s"] == action.completed_per_s
        assert row["standing"] == action.cell.standing


def test_rows_have_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    path, run, findings = made
    rows = list(csv.DictReader(io.StringIO(rendered(run, findings, "csv"))))
    content = REPORTS["parquet"].render(run, findings, Options())
    typed = pq.read_table(io.BytesIO(content)).to_pylist()
    for row, exact in zip(rows, typed, strict=True):
        for name, value in exact.items():
            is_number = isinstance(value, float | int)
            assert not is_number or float(row[name]) == pytest.approx(value, rel=1e-9), name
    agents = [agent for iteration in findings.iterations for agent in iteration.agents]
    rows_of_agents = [exact for exact in typed if exact["agent"] is not None]
    for exact, agent in zip(rows_of_agents, agents, strict=True):
        assert (exact["agent"], exact["requests_per_s"]) == (agent.agent, agent.requests_per_s)
    whole = [exact for exact in typed if exact["agent"] is None]
    rows = [row for row in rows if not row["agent"]]
    for row, exact, iteration in zip(rows, whole, findings.iterations, strict=True):
        assert exact["requests_per_s"] == iteration.requests_per_s
        assert (row["standing"], exact["standing"]) == (iteration.standing, iteration.standing)
        spread = iteration.rate.spread
        low_high = exact["requests_per_s_low"], exact["requests_per_s_high"]
        assert low_high == ((spread.low, spread.high) if spread else (None, None))
        for name, attribute in COUNTS.items():
            assert exact[name] == getattr(iteration, attribute), name
        for kind in LATENCIES:
            shown = [exact[f"{kind}_{name}_ns"] for name in (*QUANTILES, "max", "mean")]
            assert [value for value in shown if value is not None] == [
                value for value in times_of(getattr(iteration, kind)) if value is not None
            ], kind
    for row, action_case in zip(
        loadstone.open_run(path).table().to_pylist(), findings.results, strict=True
    ):
        assert (row["requests_per_s"], row["standing"]) == (
            action_case.requests_per_s,
            action_case.standing,
        )


@pytest.mark.parametrize("column", [*COLUMNS, *CLIENT_COLUMNS])
def test_each_column_of_rows_is_a_value_of_the_model(column: str) -> None:
    name = {**COLUMNS, **CLIENT_COLUMNS}[column].partition(".")[0]
    assert any(
        hasattr(kind, name) or name in kind.__dataclass_fields__ for kind in (Result, AgentCell)
    )


def test_metrics_have_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    _, run, findings = made
    text = rendered(run, findings, "openmetrics")
    gauges = re.findall(r"^loadstone_requests_per_second\{.*\} (\S+)$", text, re.MULTILINE)
    rates = [f"{iteration.requests_per_s:.10g}" for iteration in findings.iterations]
    assert gauges == rates
    for end in ("low", "high"):
        gauges = re.findall(rf"^loadstone_requests_per_second_{end}\{{.*\}} (\S+)$", text, re.M)
        spreads = [iteration.rate.spread for iteration in findings.iterations]
        assert gauges == [f"{getattr(spread, end):.10g}" for spread in spreads if spread]
    tails = re.findall(
        r'^loadstone_request_seconds\{.*"service",quantile="0.99"\} (\S+)$', text, re.M
    )
    assert tails == [
        f"{tail / 1e9:.10g}"
        for iteration in findings.iterations
        if iteration.service is not None and (tail := iteration.service.quantiles["p99"])
    ]
    counted = re.findall(r"^loadstone_requests_total\{.*\} (\d+)$", text, re.M)
    assert [int(count) for count in counted] == [
        count
        for iteration in findings.iterations
        for count in (iteration.good, *iteration.errors.values())
    ]
    standings = re.findall(r'^loadstone_standing\{.*standing="(\w+)"\} 1$', text, re.MULTILINE)
    assert standings == [iteration.standing for iteration in findings.iterations]


def test_junit_has_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    _, run, findings = made
    suite = ElementTree.fromstring(rendered(run, findings, "junit"))[0]
    results = [result for result in findings.results if result.requests]
    assert [case.get("name") for case in suite] == [result.name for result in results]
    assert [case.find("error") is not None for case in suite] == [
        result.is_void for result in results
    ]
    for case, result in zip(suite, results, strict=True):
        assert units.format_rate(result.requests_per_s) in (case.findtext("system-out") or "")


def test_people_read_no_rate_but_the_models(made: tuple[Path, Run, Findings]) -> None:
    _, run, findings = made
    known = {units.format_rate(result.requests_per_s) for result in every(findings)}
    known |= {units.format_byte_rate(result.bytes_per_s) for result in every(findings)}
    for width in (80, 100):
        text = rendered(run, findings, "terminal", width=width)
        rates_read = re.findall(r"\d[\d,.]*(?: [KMGT]iB)?/s", text)
        assert rates_read or not findings.results or findings.queries
        compared = {units.format_rate(rate) for rate in compared_rates(findings)}
        assert not set(rates_read) - known - compared, text
    first = headline_of(findings, answer_of(findings))
    rates_in_sentence = re.findall(r"\d[\d,.]*(?: [KMGT]iB)?/s", first.sentence)
    allowed = known | {units.format_rate(rate) for rate in compared_rates(findings)}
    assert not set(rates_in_sentence) - allowed, first.sentence


def compared_rates(findings: Findings) -> Iterable[float]:
    """Yield the two rates of the headline: of the blocks that both targets have."""
    ratio = headline_of(findings, answer_of(findings)).ratio
    return () if ratio is None else (ratio.of.a, ratio.of.b)


def write_put_and_get(path: Path) -> Path:
    """A mix of two targets, whose puts are fewer than its gets and come first."""
    folder = Folder(path, "truth", SECONDS)
    for block in range(1, 7):
        for place, (target, rate) in enumerate((("one", 300), ("other", 500))):
            document = trial(2 * block + place - 1, target, "get", block=block)
            document["phase"] = "mixed"
            document["mix"] = [
                {"operation": "put", "weight": 1.0}, {"operation": "get", "weight": 3.0}
            ]  # fmt: skip
            gets = [row | {"operation": "get"} for row in trial_rows(document, rate, SECONDS)]
            puts = trial_rows(document, rate // 3 + block, SECONDS)
            folder.write(document, [*puts, *gets])
    return closed(folder, "one", "other")


@pytest.mark.parametrize("write", [write_put_and_get, write_script])
def test_a_headline_compares_what_it_names(tmp_path: Path, write: Write) -> None:
    findings = analyse(read_run(write(tmp_path / "run")))
    answer = answer_of(findings)
    scripts = answer_of_scripts(findings, answer)
    ratio = headline_of(findings, scripts.whole if scripts else answer).ratio
    assert ratio is not None
    assert ratio.of.a == pytest.approx(ratio.under.requests_per_s)
    assert ratio.of.b == pytest.approx(ratio.over.requests_per_s)


def test_each_result_stands_in_the_whole_report_with_its_mark(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    whole = rendered(run, findings, "terminal", is_full=True, width=200)
    markdown = rendered(run, findings, "markdown")
    for result in findings.results:
        rate = MARKS[result.standing] + units.format_number(result.requests_per_s)
        assert not result.good or rate in whole
        assert not result.good or rate in markdown
        assert not result.rate.is_spread or ends_words(result.rate) in markdown


def cells_of(table: Table) -> list[dict[str, float | None]]:
    """Return the numbers of a table's rows by their heads, in base units; bounds of times apart."""

    def number(column: Column, cell: str) -> float | None:
        known = re.fullmatch(r"[≥×]? ?([\d,.]+)", cell)
        return float(known[1].replace(",", "")) * SCALES.get(column.unit, 1) if known else None

    return [
        {
            column.head: number(column, cell)
            for column, cell in zip(table.columns, row, strict=True)
            if not (cell.startswith("≥") and column.unit in ("µs", "ms"))
        }
        for row in table.rows
    ]


def test_tables_have_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    """A number as read, in the unit of its head, is the model's to three digits."""
    _, _, findings = made
    for make, results in TABLES.items():
        table = make(findings)
        shown = results(findings) if table is not None else ()
        for row, result in zip(cells_of(table) if table else (), shown, strict=True):
            times = result.headline
            share = None if result.failed_if_stated is None else result.failed / result.requests
            expected = {
                "Requests": result.requests_per_s if result.good else None,
                "Trials": result.rate.n,
                "Data": result.bytes_per_s if result.bytes else None,
                "Failed": share,
                **({} if times is None else {**times.quantiles, "Max": times.max_ns}),
            }
            for head in expected.keys() & row.keys():
                assert row[head] == pytest.approx(expected[head], rel=0.006, abs=5e-5), head


TABLES: dict[Callable[[Findings], Table | None], Callable[[Findings], Sequence[Result]]] = {
    results_table: lambda findings: (*findings.mixes, *findings.results),
    rounds_table: lambda findings: findings.rounds,
}
SCALES = {"µs": 1e3, "ms": 1e6, "MiB/s": 2**20, "%": 0.01}


def test_pages_draw_and_list_the_numbers_of_the_model(made: tuple[Path, Run, Findings]) -> None:
    _, run, findings = made
    page = rendered(run, findings, "html")
    embedded = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    assert embedded is not None
    data = json.loads(embedded[1])
    if findings.queries is not None:
        queries = [query for arm in findings.queries.arms for query in arm.queries]
        for row, query in zip(data["queries"], queries, strict=True):
            assert row["value_ns"] == round((query.mean_s or 0) * 1e9)
        in_streams = [mean for runs in findings.queries.streams for mean in runs.mean_s.values()]
        assert [row["value_ns"] for row in data["streams"]] == [
            round(mean * 1e9) for mean in in_streams
        ]
        return
    shown = findings.action_cases if data["counted"] == "action" else None
    results = (
        [result for result in findings.results if result.requests]
        if shown is None
        else [result.cell for result in shown]
    )
    for row, result in zip(data["results"], results, strict=True):
        assert (row["rate"], row["bytes_per_s"]) == (result.requests_per_s, result.bytes_per_s)
        assert row["standing"] == result.standing
        assert (row["low"] is not None) == result.rate.is_interval
    table = page.partition('<table id="result-table"')[2].partition("</table>")[0]
    heads = [plain_of(head) for head in re.findall(r"<th.*?>(.*?)</th>", table, re.DOTALL)]
    rows = re.findall(r"<tr data-target.*?</tr>", table, re.DOTALL)
    listed = [result for result in findings.results if result.requests]
    assert len(rows) >= len(listed)
    for text, result in zip(rows, listed, strict=False):
        texts = [plain_of(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", text, re.DOTALL)]
        row = dict(zip(heads, texts, strict=True))
        assert row["Rate"] == rate_words(result)
        assert row["Trials"] == str(result.rate.n)
        for name in ("p50", "p99"):
            assert row[name] == quantile_words(result.headline, name)
        assert not result.rate.is_spread or ends_words(result.rate) in texts


def plain_of(cell: str) -> str:
    return html.unescape(re.sub("<.*?>", "", cell)).strip()


def test_a_comparison_prints_the_rates_of_what_was_paired(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    account = read_account(run)
    if len(account.targets) < 2:
        return
    a, b = account.targets[:2]
    compared = compare(account.only(a), account.only(b))
    of_a = {result.operation: result for result in findings.results if result.target == a}
    of_b = {result.operation: result for result in findings.results if result.target == b}
    for case in compared.comparisons:
        assert case.ratio.ratio == pytest.approx(case.b / case.a)
        sides = [side.get(str(case.case["operation"])) for side in (of_a, of_b)]
        is_whole = all(side and side.rate.n == case.ratio.n_a for side in sides)
        if compared.metric == "requests_per_s" and is_whole:
            assert case.a == pytest.approx(sides[0].requests_per_s)  # type: ignore[union-attr]
            assert case.b == pytest.approx(sides[1].requests_per_s)  # type: ignore[union-attr]


def test_history_and_thresholds_use_the_numbers_of_the_model(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    history = trace([Entry(name="run", started="2026-01-01", account=read_account(run))])
    points = [t.points[0].value for t in history.trends if t.metric == "requests_per_s"]
    valid = [result.requests_per_s for result in findings.results if result.standing == "valid"]
    points += [1 / t.points[0].value for t in history.trends if t.metric == "seconds"]
    assert sorted(points) == pytest.approx(sorted(valid))
    outcomes = judge(parse_threshold("rate < 1/s"), findings)
    judged = [result for result in findings.results if result.requests]
    for outcome, result in zip(outcomes, judged, strict=True):
        assert (outcome.is_crossed is None) == result.is_void
        rate = units.format_rate(result.requests_per_s)
        assert result.is_void or rate in outcome.what
    for outcome, result in zip(judge(parse_threshold("p99 > 1ns"), findings), judged, strict=True):
        tail = result.headline.quantiles["p99"] if result.headline is not None else None
        assert result.is_void or not tail or units.format_duration(tail) in outcome.what


@pytest.mark.parametrize("write", [write_queries, write_streams])
def test_engines_are_not_judged_as_our_load(write: Write, tmp_path: Path) -> None:
    """They state no load to vary, are no load of a calibrated client, and run a query once."""
    run = read_run(write(tmp_path / "run"))
    findings = analyse(run)
    rules = {finding.rule for finding in findings.findings}
    assert not rules & {"not-calibrated", "too-short-for-steadiness", "not-steady", "verdict"}
    assert not any(result.verdict and result.verdict.next for result in findings.rounds)
    assert findings.account.disclosure.steadiness is None


def test_queries_and_searches_have_the_numbers_of_their_results(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    document = json.loads(rendered(run, findings, "json"))
    by_trials = {frozenset(result.trials): result for result in findings.results}
    if findings.queries is not None:
        for arm, shown in zip(findings.queries.arms, document["queries"]["arms"], strict=True):
            of_target = [result for result in findings.results if result.target == arm.arm.target]
            for query, row in zip(arm.queries, shown["queries"], strict=True):
                (of_query,) = [
                    result for result in of_target if result.parameters["query"] == query.query
                ]
                assert row["mean_s"] == pytest.approx(1 / of_query.requests_per_s)
                low_high = row["seconds_spread"]["low"], row["seconds_spread"]["high"]
                assert low_high == pytest.approx((1 / of_query.rate.high, 1 / of_query.rate.low))
                assert (row["standing"], query.standing) == (
                    of_query.standing,
                    of_query.standing,
                )
        for streams, row in zip(
            findings.queries.streams, document["queries"]["streams"], strict=True
        ):
            (of_streams,) = findings.results
            assert streams.rate is not None
            assert row["queries_per_hour"] == pytest.approx(3600 * of_streams.requests_per_s)
            low_high = (streams.rate.low / 3600, streams.rate.high / 3600)
            assert low_high == pytest.approx((of_streams.rate.low, of_streams.rate.high))
    for search, row in zip(findings.searches, document["searches"], strict=True):
        of_capacity = by_trials[frozenset(search.confirming)]
        assert search.rate == of_capacity.rate
        assert row["requests_per_s"] == of_capacity.requests_per_s
        assert of_capacity.service is not None
        assert row["latency_ns"] == of_capacity.service.quantiles["p99"]


def test_a_percentile_is_of_all_requests_in_histories_and_comparisons_too(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    account = read_account(run)
    metrics = ("service_ns_p99", "service_ns_mean")
    history = trace([Entry(name="run", started="2026-01-01", account=account)], metrics=metrics)
    for metric, read in (
        ("service_ns_p99", lambda times: times.quantiles["p99"]),
        ("service_ns_mean", lambda times: times.mean_ns),
    ):
        points = [t.points[0].value for t in history.trends if t.metric == metric]
        if "seconds" in account.metrics:
            # Queries that ran once in each trial are compared by their times.
            continue
        known = [
            value
            for result in findings.results
            if result.standing == "valid"
            and result.service is not None
            and (value := read(result.service))
        ]
        assert sorted(points) == pytest.approx(sorted(known))
        if not {"one", "other"} <= {m.target for m in account.of(metric)}:
            continue
        compared = compare(account.only("one"), account.only("other"), metric=metric)
        for case in compared.comparisons:
            assert case.ratio.ratio == pytest.approx(case.b / case.a)
            for side, value in (("one", case.a), ("other", case.b)):
                (result_of_case,) = [
                    result
                    for result in findings.results
                    if (result.target, result.operation) == (side, case.case["operation"])
                ]
                if result_of_case.rate.n == case.ratio.n_a:
                    assert value == pytest.approx(read(result_of_case.service))


def test_the_list_of_a_view_has_the_numbers_of_a_result(
    made: tuple[Path, Run, Findings],
) -> None:
    path, _, findings = made
    (listed,) = RunList(path).read()
    row = PageRenderer(RunList(path)).answer(listed)
    actions = (action.cell for action in (*findings.action_cases, *findings.action_totals))
    known = {
        (result.requests_per_s, result.standing, rate_words(result)): result.headline
        for result in (*findings.results, *actions)
    }
    times = known[row["rate_value"], row["standing"], row["rate"]]
    assert row["p99"] == quantile_words(times, "p99")
    is_usable = any(result.good and not result.is_void for result in findings.results)
    assert is_usable == (row["standing"] != "void")


def test_the_exit_code_is_useful_for_jobs(made: tuple[Path, Run, Findings]) -> None:
    _, _, findings = made
    is_void = any(result.is_void for result in findings.results)
    code = fail_if.judge_standing(findings, are_failures_expected=False)
    assert code == (exit_code.VOID if is_void else 0)
    is_excused = all(
        fail_if.FAILURES.issuperset(result.reasons) for result in findings.results if result.is_void
    )
    code = fail_if.judge_standing(findings, are_failures_expected=True)
    assert code == (0 if is_excused else exit_code.VOID)


def test_a_run_in_whose_window_nothing_ended_says_how_long_to_measure(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "slow", 3)
    document = trial(1, "one", "get", clients=4)
    rows = [row | {"stage": "cool-down"} for row in trial_rows(document, 4, 3)[-1:]]
    folder.write(document, rows)
    run = read_run(closed(folder))
    findings = analyse(run)
    assert findings.results == ()
    (finding,) = [finding for finding in findings.findings if finding.rule == "NOTHING ENDED"]
    assert (finding.evidence[0].value, finding.evidence[0].threshold) == (
        pytest.approx(1, rel=0.3),
        3,
    )
    assert finding.statement in " ".join(rendered(run, findings, "terminal").split())
    assert finding.statement in rendered(run, findings, "html")
    code = fail_if.judge_standing(findings, are_failures_expected=True)
    assert code == exit_code.FAILED


def test_layouts_of_published_reports_name_what_must_not_be_used(
    made: tuple[Path, Run, Findings],
) -> None:
    _, run, findings = made
    for table in ("hummingbird", "cern", *(["datasafe"] if findings.actions else [])):
        form = "csv" if table != "hummingbird" else "markdown"
        text = rendered(run, findings, form, layout=find_layout(table))
        for cell in findings.rounds if table != "datasafe" else (a.cell for a in findings.actions):
            assert cell.standing == "valid" or cell.name in text, table
