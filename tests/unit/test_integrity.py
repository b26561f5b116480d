"""A changed file of a run is found and named, and its numbers are void."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from loadstone.analysis import analyse
from loadstone.analysis.judgements.contradictions import contradictions
from loadstone.analysis.judgements.labels import label_trial
from loadstone.analysis.measured.rows import Rows
from loadstone.cli import main
from loadstone.errors import ResultError
from loadstone.results.record import INTERVAL_SCHEMA, Record
from loadstone.results.store import RunWriter, read_run
from tests.unit import synthetic_run

S = 1_000_000_000


@pytest.fixture
def run_path(tmp_path: Path, written: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with numbers that mean something, written by the writer itself."""
    tmp_path = tmp_path_factory.mktemp("written")
    synthetic_run.write_rounds(tmp_path / "made", seconds=4)
    made = read_run(tmp_path / "made")
    path = tmp_path / "run"
    with RunWriter.create(path, made.manifest) as writer:
        for record in made.records:
            trial = writer.begin_trial(record.trial)
            trial.write_intervals(record.intervals)
            trial.write_probes(record.probes)
            trial.finish(record.summary, record.labels, record.absent_probes)
        writer.finish({"state": "finished"})
    return path


def _first(run_path: Path) -> tuple[Path, dict]:
    path = min((run_path / "trials").glob("*.json"))
    return path, json.loads(path.read_text())


def _rewrite_table(run_path: Path) -> str:
    """Double the bytes that a trial moved, as somebody with pyarrow at hand would."""
    path = min((run_path / "trials").glob("*.parquet"))
    table = pa.parquet.read_table(path)
    at = table.schema.get_field_index("requests")
    table = table.set_column(at, "requests", pa.compute.multiply(table["requests"], 2))
    pa.parquet.write_table(table, path)
    return f"trials/{path.name}"


def test_a_run_as_it_was_written_has_no_altered_file(run_path: Path) -> None:
    run = read_run(run_path)
    assert run.altered == ()
    assert "ALTERED" not in {label for record in run.records for label in record.labels}
    assert {finding.rule for finding in analyse(run).findings}.isdisjoint(
        {"ALTERED", "CONTRADICTORY"}
    )
    assert main(["report", str(run_path), "-f", "json", "-o", str(run_path.parent / "x.json")]) == 0


def test_an_edited_table_is_named_and_its_trial_is_void(
    run_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = _rewrite_table(run_path)
    run = read_run(run_path)
    assert run.altered == (name,)
    assert "ALTERED" in label_trial(run.records[0])
    assert "ALTERED" not in label_trial(run.records[1])
    assert main(["report", str(run_path), "-f", "csv"]) == 1
    output = capsys.readouterr()
    assert name in output.err
    assert output.out, "what can be read is still reported"
    assert "ALTERED" in {finding.rule for finding in analyse(run).findings}


def test_an_edited_record_is_named_by_the_manifest(run_path: Path) -> None:
    path, record = _first(run_path)
    record["summary"]["iterations"][0]["measure_end_ns"] //= 2
    path.write_text(json.dumps(record))
    run = read_run(run_path)
    assert run.altered == (f"trials/{path.name}",)
    assert "ALTERED" in label_trial(run.records[0])


def test_a_file_that_went_away_is_named_too(run_path: Path) -> None:
    probes = min((run_path / "probes").glob("*.parquet"))
    probes.unlink()
    assert read_run(run_path).altered == (f"probes/{probes.name}",)


def test_no_flipped_bit_of_a_table_passes_unseen(run_path: Path) -> None:
    path = min((run_path / "trials").glob("*.parquet"))
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert read_run(run_path).altered
        except ResultError as error:
            assert path.name in error.message


def test_a_flipped_bit_in_a_page_is_refused_where_it_is_read(run_path: Path) -> None:
    """Tables of earlier builds have checksums in their pages."""
    path = min((run_path / "trials").glob("*.parquet"))
    rows = pa.parquet.read_table(path)
    pa.parquet.write_table(rows, path, compression="zstd", write_page_checksum=True)
    column = pa.parquet.ParquetFile(path).metadata.row_group(0).column(10)
    assert column.path_in_schema == "service"
    # The last bytes of the column's last page.
    start = column.dictionary_page_offset or column.data_page_offset
    place = start + column.total_compressed_size - 3
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ResultError) as caught:
        _ = read_run(run_path).records[0].intervals
    assert "CRC" in caught.value.message
    assert path.name in caught.value.message


def test_runs_without_digests_are_read_as_before(run_path: Path) -> None:
    for path in [run_path / "manifest.json", *(run_path / "trials").glob("*.json")]:
        document = json.loads(path.read_text())
        document.pop("files")
        document.pop("manifest_sha256", None)
        path.write_text(json.dumps(document))
    assert read_run(run_path).altered == ()


def test_a_digest_never_reaches_outside_of_the_run(run_path: Path) -> None:
    path, record = _first(run_path)
    record["files"] = {"../../secret": {"bytes": 1, "sha256": "0"}}
    path.write_text(json.dumps(record))
    assert "../../secret" in read_run(run_path).altered


def _interrupt(run_path: Path) -> None:
    """Leave a run as an interruption does."""
    with RunWriter.lock(run_path) as writer:
        writer.amend({"state": "interrupted"})


def test_an_edited_manifest_is_named(run_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_path / "manifest.json"
    manifest = json.loads(path.read_text())
    for key, value in (
        ("started", "2020-01-01T00:00:00+00:00"),
        ("plan", [{**manifest["plan"][0], "phase": "other"}, *manifest["plan"][1:]]),
        ("failed_requests", 0),
        ("a key of their own", 1),
    ):
        assert manifest.get(key) != value
        path.write_text(json.dumps({**manifest, key: value}))
        assert read_run(run_path).altered == ("manifest.json",), key
    assert main(["report", str(run_path), "-f", "csv"]) == 1
    assert "manifest.json" in capsys.readouterr().err
    # Indented, sorted and encoded in another way it says the same.
    path.write_text(json.dumps(dict(sorted(manifest.items())), indent=7))
    assert read_run(run_path).altered == ()


def test_a_run_that_goes_on_does_not_hide_an_edit_of_its_manifest(run_path: Path) -> None:
    _interrupt(run_path)
    path = run_path / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "started": "2020-01-01T00:00:00+00:00"}))
    with RunWriter.reopen(run_path) as writer:
        writer.amend({"more": 1})
        assert read_run(run_path).altered == ("manifest.json",)
        writer.finish({"state": "finished"})
    assert read_run(run_path).altered == ("manifest.json",)


def test_a_run_that_goes_on_has_the_digests_of_its_new_end(run_path: Path) -> None:
    _interrupt(run_path)
    with RunWriter.reopen(run_path) as writer:
        (run_path / "hooks.jsonl").write_text('{"hook": "one"}\n')
        assert read_run(run_path).altered == ()
        writer.finish({"state": "finished"})
    assert read_run(run_path).altered == ()
    (run_path / "hooks.jsonl").write_text('{"hook": "two"}\n')
    assert read_run(run_path).altered == ("hooks.jsonl",)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"iterations": [{"iteration": 1, "measure_start_ns": 2 * S, "measure_end_ns": S}]}, 1),
        ({"iterations": [{"iteration": 1, "start_ns": 0, "end_ns": -1}]}, 1),
        (
            {
                "iterations": [
                    {"iteration": 1, "start_ns": 0, "end_ns": 3 * S},
                    {"iteration": 2, "start_ns": 2 * S, "end_ns": 4 * S},
                ]
            },
            1,
        ),
        ({"requests": 11}, 1),
        ({"started_unix_ns": 9, "ended_unix_ns": 8}, 1),
        ({"iterations": [{"iteration": 1, "start_ns": 0, "end_ns": S // 2}]}, 1),
    ],
)
def test_impossible_settings_are_named(changes: dict, count: int) -> None:
    iteration = {
        "iteration": 1,
        "start_ns": 0,
        "measure_start_ns": 0,
        "measure_end_ns": 3 * S,
        "end_ns": 3 * S,
    }
    summary = {"iterations": [iteration], "requests": 10, **changes}
    intervals = Rows(INTERVAL_SCHEMA.of_rows([{"requests": 5, "second": at} for at in (0, 2)]))
    record = Record(trial={"id": "0001"}, summary=summary)
    assert len(contradictions(record, intervals)) == count
