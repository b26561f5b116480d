"""Queries by real engines on tables in a directory and in a bucket."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any, get_type_hints

import jsonschema
import pytest

from loadstone.analysis import analyse
from loadstone.cli.messages import FORM
from loadstone.documents.python_types import (
    QuerySummary,
    StreamQuery,
    StreamsSummary,
    TablesSummary,
)
from loadstone.execution.cleaning import what_is_left
from loadstone.report.tables.query_results import three_digits
from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, CommandResult, assert_secret_absent, loadstone

# One process makes the tables, for all of them.
pytestmark = pytest.mark.xdist_group("queries")

ENGINES = "engine: [duckdb, datafusion], only: [1, 6, 13], loops: 2"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of generated tables, shared by all tests."""
    return tmp_path_factory.mktemp("made") / "tables"


def written(
    folder: Path, made: Path, queries: str, *, more: str = "", path: Path | None = None
) -> Path:
    data = path or folder / "data"
    data.mkdir(exist_ok=True)
    return campaigns.write(
        folder,
        f"name: flash\ntargets: {{disk: {{driver: file, path: {data}}}}}\n"
        f"queries: {{scale: 0.01, {queries}, data: {made}}}\n{more}",
    )


def run(file: Path, folder: Path, *flags: str, code: int = 0) -> CommandResult:
    finished = loadstone("run", file, "-o", folder, *flags)
    assert finished.code == code, finished.err
    return finished


def report_of(folder: Path) -> dict[str, Any]:
    finished = loadstone("report", folder, "-f", "json")
    assert finished.code == 0, finished.err
    report: dict[str, Any] = json.loads(finished.out)
    assert not untyped(folder)
    return report


def untyped(folder: Path) -> set[str]:
    """Return the keys of query results in records that their types lack."""
    unnamed: set[str] = set()
    for record in read_run(folder).records:
        parts: list[tuple[type, Any]] = [
            (QuerySummary, record.summary.get("query")),
            (StreamsSummary, record.summary.get("streams")),
            (TablesSummary, record.summary.get("data")),
        ]
        parts += [
            (StreamQuery, query) for _, part in parts for query in (part or {}).get("queries", ())
        ]
        for kind, part in parts:
            unnamed |= set(part or ()) - set(get_type_hints(kind))
    return unnamed


def test_engines_agree_and_leave_nothing(tmp_path: Path, made: Path) -> None:
    finished = run(written(tmp_path, made, f"{ENGINES}, cache: warm"), tmp_path / "run")
    assert "3/3" in finished.out
    results = analyse(read_run(tmp_path / "run")).queries
    assert results is not None
    assert [arm.arm.engine for arm in results.arms] == ["datafusion", "duckdb"]
    for arm in results.arms:
        assert arm.is_whole
        assert [len(query.seconds) for query in arm.queries] == [2, 2, 2]
        assert all(query.is_compared and (query.cpu_s or 0) > 0 for query in arm.queries)
        assert arm.total_s == pytest.approx(sum(query.mean_s or 0 for query in arm.queries))
    assert list((tmp_path / "data").iterdir()) == []
    document = report_of(tmp_path / "run")
    [first, second] = document["queries"]["arms"]
    assert {query["query"] for query in first["queries"]} == {"Q01", "Q06", "Q13"}
    assert second["right"] == 3
    cases = {iteration["parameters"]["query"] for iteration in document["iterations"]}
    assert cases == {"Q01", "Q06", "Q13"}
    for form in ("markdown", "html", "csv", "parquet", "text"):
        assert loadstone("report", tmp_path / "run", "-f", form, "-o", tmp_path / form).code == 0
    page = loadstone("report", tmp_path / "run", "-f", "html").out
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert {query["query"] for query in data["queries"]} == {"Q01", "Q06", "Q13"}
    assert re.search(r"\b3 queries\b.* datafusion; .* duckdb .*×", page)


STREAMS = "engine: [duckdb, datafusion], only: [1, 6, 13, 22], loops: 2, streams: [1, 3]"


def test_streams_run_beside_each_other_and_have_a_rate(tmp_path: Path, made: Path) -> None:
    finished = run(written(tmp_path, made, f"{STREAMS}, cache: warm"), tmp_path / "run")
    assert "Queries/h" in finished.out
    assert "24/24" in finished.out
    report = report_of(tmp_path / "run")
    schema = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
    jsonschema.validate(report, json.loads(schema.read_text()))
    runs = report["queries"]["streams"]
    assert [(stream_run["engine"], stream_run["streams"]) for stream_run in runs] == [
        ("datafusion", 1), ("datafusion", 3), ("duckdb", 1), ("duckdb", 3),
    ]  # fmt: skip
    for stream_run in runs:
        assert stream_run["right"] == stream_run["asked"] == 2 * 4 * stream_run["streams"]
        assert stream_run["compared"]
        rates = [4 * stream_run["streams"] * 3600 / seconds for seconds in stream_run["elapsed_s"]]
        assert stream_run["queries_per_hour_by_run"] == pytest.approx(rates)
        assert stream_run["queries_per_hour"] == pytest.approx(geometric_mean(rates))
        assert len(stream_run["stream_s"]) == stream_run["streams"]
        assert set(stream_run["query_mean_s"]) == {"Q01", "Q06", "Q13", "Q22"}
    assert {iteration["parameters"]["streams"] for iteration in report["iterations"]} == {1, 3}
    for record in read_run(tmp_path / "run").records:
        if record.trial["phase"] != "streams" or len(record.trial["queries"]["streams"] or []) < 3:
            continue
        queries = record.summary["streams"]["queries"]
        spans = [(query["start_ns"], query["end_ns"], query["stream"]) for query in queries]
        assert any(
            a < d and c < b for a, b, span in spans for c, d, other in spans if span != other
        ), "no two streams had a query at the same time"
    for form in ("markdown", "html", "csv", "text"):
        assert loadstone("report", tmp_path / "run", "-f", form, "-o", tmp_path / form).code == 0
    page = (tmp_path / "html").read_text()
    assert all(
        f"{three_digits(stream_run['queries_per_hour'])} queries" in page for stream_run in runs
    )


def test_streams_that_are_stopped_leave_a_run_that_goes_on(tmp_path: Path, made: Path) -> None:
    """A hook of the second trial of streams sends Ctrl-C."""
    mark = tmp_path / "once"
    stop = tmp_path / "stop"
    stop.write_text(
        "#!/bin/sh\n"
        f"[ -e {mark}2 ] && exit 0\n[ -e {mark}1 ] || {{ touch {mark}1; exit 0; }}\n"
        f"touch {mark}2\nkill -INT $PPID\n"
    )
    stop.chmod(0o755)
    hook = f"hooks: [{{at: before_phase, phases: [streams], name: stop, run: [{stop}]}}]\n"
    queries = "engine: duckdb, only: [1, 6, 13, 22], loops: 3, streams: 2, cache: warm"
    file = written(tmp_path, made, queries, more=hook)
    finished = loadstone("run", file, "-o", tmp_path / "run", "--allow-commands")
    assert finished.code == 130, finished.err
    [runs] = report_of(tmp_path / "run")["queries"]["streams"]
    assert len(runs["elapsed_s"]) == 1
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume", "--allow-commands")
    assert finished.code == 0, finished.err
    [runs] = report_of(tmp_path / "run")["queries"]["streams"]
    assert len(runs["elapsed_s"]) == 3
    assert runs["right"] == runs["asked"] == 3 * 2 * 4
    assert list((tmp_path / "data").iterdir()) == []


def test_a_wrong_answer_in_a_stream_leaves_its_run_without_a_rate(
    tmp_path: Path, made: Path
) -> None:
    answer = tmp_path / "run" / "answers" / "Q06.json"
    spoil = tmp_path / "spoil"
    spoil.write_text(f"#!/bin/sh\nsed -i 's/\"rows\": \\[\\[/&9/' {answer}\n")
    spoil.chmod(0o755)
    hook = f"hooks: [{{at: before_phase, phases: [streams], name: spoil, run: [{spoil}]}}]\n"
    queries = "engine: duckdb, only: [1, 6], loops: 1, streams: 2, cache: warm"
    file = written(tmp_path, made, queries, more=hook)
    finished = run(file, tmp_path / "run", "--allow-commands", code=1)
    assert "2/4" in finished.out
    report = report_of(tmp_path / "run")
    [runs] = report["queries"]["streams"]
    assert (runs["elapsed_s"], runs["queries_per_hour"]) == ([], None)
    assert [
        (failure["query"], failure["outcome"], failure["count"]) for failure in runs["failures"]
    ] == [("Q06", "wrong_answer", 2)]
    assert "wrong-answer" in {finding["rule"] for finding in report["findings"]}


def test_a_wrong_answer_has_no_time(tmp_path: Path, made: Path) -> None:
    """A hook spoils the reference of one answer."""
    answer = tmp_path / "run" / "answers" / "Q06.json"
    spoil = tmp_path / "spoil"
    spoil.write_text(f"#!/bin/sh\nsed -i 's/\"rows\": \\[\\[/&9/' {answer}\n")
    spoil.chmod(0o755)
    hook = f"hooks: [{{at: before_phase, phases: [query], name: spoil, run: [{spoil}]}}]\n"
    file = written(tmp_path, made, "engine: duckdb, only: [1, 6], loops: 1, cache: warm", more=hook)
    finished = run(file, tmp_path / "run", "--allow-commands", code=1)
    assert "wrong" in finished.out
    report = report_of(tmp_path / "run")
    assert "wrong-answer" in {finding["rule"] for finding in report["findings"]}
    [arm] = report["queries"]["arms"]
    [right, wrong] = sorted(arm["queries"], key=lambda query: str(query["query"]))
    assert (len(right["seconds"]), right["failures"]) == (1, {})
    assert (wrong["seconds"], wrong["failures"]) == ([], {"wrong_answer": 1})
    assert (arm["total_s"], arm["right"]) == (None, 1)


def test_a_cold_query_that_reads_nothing_is_marked(tmp_path: Path, made: Path) -> None:
    """Tables in memory are never read from storage."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("no /dev/shm to put tables in")
    folder = memory / f"loadstone-test-{os.getpid()}"
    try:
        file = written(
            tmp_path, made, "engine: duckdb, only: [6], loops: 2, cache: cold", path=folder
        )
        run(file, tmp_path / "run")
    finally:
        folder.rmdir()
    report = report_of(tmp_path / "run")
    assert "cold-not-proven" in {finding["rule"] for finding in report["findings"]}


def test_somebody_elses_directory_is_refused(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_data = "keep_data: true\n"
    file = written(
        tmp_path, made, "engine: duckdb, only: [6], loops: 1, cache: warm", more=keep_data
    )
    theirs = tmp_path / "data" / "loadstone-tpch-0-01-parquet-1"
    theirs.mkdir()
    (theirs / "nation.parquet").write_text("mine")
    monkeypatch.setenv(FORM, "json")
    finished = run(file, tmp_path / "run", code=1)
    assert "not-ours" in finished.kinds
    assert str(theirs) in finished.errors[0]["message"]
    assert (theirs / "nation.parquet").read_text() == "mine"


def test_kept_tables_are_found_again_and_cleaned_by_their_run_alone(
    tmp_path: Path, made: Path
) -> None:
    keep_data = "keep_data: true\n"
    file = written(
        tmp_path, made, "engine: duckdb, only: [6], loops: 1, cache: warm", more=keep_data
    )
    run(file, tmp_path / "one")
    run(file, tmp_path / "two")
    loads = [load["was_there"] for load in report_of(tmp_path / "two")["queries"]["loads"]]
    assert loads == [True]
    assert loadstone("clean", tmp_path / "two", "--yes").code == 0
    assert len(list((tmp_path / "data").iterdir())) == 1
    assert loadstone("clean", tmp_path / "one", "--yes").code == 0
    assert list((tmp_path / "data").iterdir()) == []


def test_answers_of_files_are_compared_too(tmp_path: Path, made: Path) -> None:
    """Files as TPC-H's tools have them, rounded to cents, made of another run's answers."""
    run(written(tmp_path, made, "engine: duckdb, only: [1, 6], loops: 1"), tmp_path / "one")
    files = tmp_path / "official"
    files.mkdir()
    for query in ("Q01", "Q06"):
        document = json.loads((tmp_path / "one" / "answers" / f"{query}.json").read_text())
        lines = ["|".join(f"c{number}" for number in range(len(document["rows"][0])))]
        for row in document["rows"]:
            cells = (f"{value:20.2f}" if isinstance(value, float) else f"{value} " for value in row)
            lines.append("|".join(cells))
        (files / f"q{int(query[1:])}.out").write_text("\n".join(lines) + "\n")
    queries = f"engine: datafusion, only: [1, 6], loops: 1, answers: {files}"
    run(written(tmp_path, made, queries), tmp_path / "two")
    [arm] = arms_of(tmp_path / "two")
    assert arm["right"] == 2
    assert all(query["compared"] for query in arm["queries"])
    q6 = files / "q6.out"
    q6.write_text(q6.read_text().replace(".", "1."))
    run(written(tmp_path, made, queries), tmp_path / "three", code=1)
    [arm] = arms_of(tmp_path / "three")
    assert arm["right"] == 1
    q6.unlink()
    finished = run(written(tmp_path, made, queries), tmp_path / "four", "--dry-run", code=1)
    assert "Q06" in finished.err
    assert not list((tmp_path / "data").iterdir())


def arms_of(folder: Path) -> list[dict[str, Any]]:
    arms: list[dict[str, Any]] = report_of(folder)["queries"]["arms"]
    return arms


DIES_IN_Q21 = """
import os
from loadstone.engines.datafusion_engine import DataFusion
run = DataFusion.run
def killed(self, query):
    if "numwait" in query:
        os.kill(os.getpid(), 9)
    return run(self, query)
DataFusion.run = killed
"""


@pytest.mark.parametrize("streams", ["", ", streams: 2"])
def test_an_engine_that_is_killed_in_query_21_fails_that_and_the_rest_goes_on(
    tmp_path: Path, made: Path, streams: str
) -> None:
    """Killed as the kernel kills what runs out of memory; Q22 comes after it."""
    (tmp_path / "sitecustomize.py").write_text(DIES_IN_Q21)
    queries = "engine: datafusion, only: [1, 21, 22], loops: 1, order: rounds, cache: cold"
    file = written(tmp_path, made, queries + streams)
    finished = loadstone(
        "run", file, "-o", tmp_path / "run", environment={"PYTHONPATH": str(tmp_path)}
    )
    assert finished.code == 1
    report = report_of(tmp_path / "run")
    died = [finding for finding in report["findings"] if finding["rule"] == "query-failed"]
    assert any(
        "Q21" in finding["statement"] and "SIGKILL" in finding["statement"] for finding in died
    )
    if streams:
        [runs] = report["queries"]["streams"]
        assert runs["asked"] == 6
        failed = {failure["query"]: failure["count"] for failure in runs["failures"]}
        assert failed.pop("Q21") == 2
        # Beside it another stream may have had a query running, which then died with it.
        assert 6 - runs["right"] == 2 + sum(failed.values()) <= 4
        assert runs["queries_per_hour"] is None
    else:
        assert len(died) == 1
        [arm] = report["queries"]["arms"]
        right = {query["query"]: len(query["seconds"]) for query in arm["queries"]}
        assert right == {"Q01": 1, "Q21": 0, "Q22": 1}
        assert (arm["right"], arm["total_s"]) == (2, None)
    full = loadstone("report", tmp_path / "run", "--full").out
    assert "engine died" in full
    assert list((tmp_path / "data").iterdir()) == []


def test_conflicts_are_reported_before_anything_is_written(tmp_path: Path, made: Path) -> None:
    file = written(tmp_path, made, "engine: duckdb, only: [6], loops: 1")
    finished = loadstone(
        *ERRORS_AS_JSON, "run", file, "--dry-run", "--set", "queries.scale=10000000"
    )
    assert finished.code == 1
    assert finished.kinds == ["no-space"]
    assert list((tmp_path / "data").iterdir()) == []


KEYS = {"LOADSTONE_ACCESS_KEY": "me", "LOADSTONE_SECRET_KEY": "a-secret-of-tests"}


@pytest.fixture
def store() -> Iterator[str]:
    """The address of the embedded store."""
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", "serve", "--port", "0"],
        env={**os.environ, **KEYS},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield str(re.search(r"http://[0-9.:]+", server.stdout.readline())[0])  # type: ignore[index]
        finally:
            server.terminate()


def written_for(url: str, folder: Path, queries: str) -> Path:
    return campaigns.write(
        folder,
        f"name: flash\ntargets: {{s3: {{driver: s3, endpoint: '{url}', access_key: me, "
        "secret_key: {env: LOADSTONE_SECRET_KEY}}}\n"
        f"queries: {{scale: 0.01, {queries}}}\n",
    )


CUT_OFF = """
import os
from loadstone.engines.places import PLACE
write, count = PLACE.write, 0
def cut_off(self, name, source):
    global count
    write(self, name, source)
    count += 1
    if count == 3:
        os.kill(os.getpid(), 9)
PLACE.write = cut_off
"""


def cut_off_in_its_load(file: Path, folder: Path, place: str) -> None:
    """Begin a run that is killed when it has written three of its eight tables."""
    (folder / "sitecustomize.py").write_text(CUT_OFF.replace("PLACE", place))
    keys = {**KEYS, "PYTHONPATH": str(folder)}
    finished = loadstone("run", file, "-o", folder / "run", environment=keys)
    assert finished.code == -9, finished.err


def test_tables_whose_load_was_cut_off_are_gone_on_with(tmp_path: Path, made: Path) -> None:
    """A file of the right size with other bytes is written again, and so is half a file."""
    file = written(tmp_path, made, "engine: duckdb, only: [6], loops: 1")
    cut_off_in_its_load(file, tmp_path, "DirectoryPlace")
    whole, changed, half = sorted((tmp_path / "data").rglob("*.parquet"))
    changed.write_bytes(bytes(changed.stat().st_size))
    half.write_bytes(half.read_bytes()[:-1])
    at = whole.stat().st_mtime_ns
    site_customize = NOTES_MTIME.replace("FILE", str(whole)).replace("SEEN", str(tmp_path / "seen"))
    (tmp_path / "sitecustomize.py").write_text(site_customize)
    finished = loadstone(
        "run", file, "-o", tmp_path / "run", "--resume",
        environment={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert finished.code == 0, finished.err
    queries = report_of(tmp_path / "run")["queries"]
    [load] = queries["loads"]
    assert (load["files"], load["files_kept"]) == (8, 1)
    assert load["bytes_kept"] < load["bytes"]
    assert load["seconds"] is not None
    assert (tmp_path / "seen").read_text() == str(at)
    assert queries["arms"][0]["right"] == 1
    full = loadstone("report", tmp_path / "run", "--full").out
    assert "1 file of" in full
    assert list((tmp_path / "data").iterdir()) == []


NOTES_MTIME = """
import os
from loadstone.engines.duckdb_engine import DuckDb
run = DuckDb.run
def noting(self, query):
    if os.path.exists("FILE"):
        open("SEEN", "w").write(str(os.stat("FILE").st_mtime_ns))
    return run(self, query)
DuckDb.run = noting
"""


def test_objects_of_a_load_that_was_cut_off_are_kept_by_their_hash(
    tmp_path: Path, made: Path, store: str
) -> None:
    file = written_for(store, tmp_path, f"engine: datafusion, only: [6], loops: 1, data: {made}")
    cut_off_in_its_load(file, tmp_path, "BucketPlace")
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume", environment=KEYS)
    assert finished.code == 0, finished.err
    queries = report_of(tmp_path / "run")["queries"]
    [load] = queries["loads"]
    assert (load["files"], load["files_kept"]) == (8, 3)
    assert queries["arms"][0]["right"] == 1


def test_a_bucket_is_read_over_its_connections(tmp_path: Path, made: Path, store: str) -> None:
    engine = f"engine: datafusion, only: [1, 6], loops: 2, data: {made}, storage: {{partitions: 2}}"
    file = written_for(store, tmp_path, engine)
    finished = loadstone("run", file, "-o", tmp_path / "run", environment=KEYS)
    assert finished.code == 0, finished.err
    assert not what_is_left(tmp_path / "run")
    assert loadstone("clean", tmp_path / "run", "--yes", environment=KEYS).code == 0
    assert_secret_absent(KEYS["LOADSTONE_SECRET_KEY"], finished, tmp_path / "run")
    [arm] = report_of(tmp_path / "run")["queries"]["arms"]
    assert arm["right"] == 2
    assert all(query["read_bytes"] > 50_000 for query in arm["queries"])
    refused = loadstone(
        "run", file, "--dry-run", "--set", "queries.engine=duckdb", environment=KEYS
    )
    assert refused.code == 1
    assert 'engine "duckdb"' in refused.err
