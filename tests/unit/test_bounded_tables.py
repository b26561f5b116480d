"""A table of a run that is longer than its trial can have made it is refused before it is read."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from loadstone._loadgen import Schema, TooLargeError
from loadstone.cli import main
from loadstone.errors import ResultError
from loadstone.results.files import tables
from loadstone.results.record import INTERVAL_SCHEMA, PROBE_SCHEMA, Record
from loadstone.results.store import read_run
from tests.unit import synthetic_run

NUMBERS = pa.schema([("a", pa.int64())])
S = 1_000_000_000


def forge(path: Path, rows: int) -> None:
    """Make a table of so many equal rows: a file of some KiB."""
    row = pa.parquet.read_table(path).slice(0, 1)
    columns = {
        name: pa.nulls(rows, row[name].type)
        if not row[name][0].is_valid
        else pa.repeat(row[name][0], rows)
        for name in row.column_names
    }
    pa.parquet.write_table(pa.table(columns), path, compression="zstd")


@pytest.mark.parametrize("folder", ["trials", "probes"])
def test_a_table_with_more_rows_than_the_trial_has_seconds_for_is_refused_by_each_command(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    synthetic_run.write_rounds(run, seconds=4)
    path = min((run / folder).glob("*.parquet"))
    assert read_run(run).records[0].intervals.num_rows
    forge(path, 8_000_000 if folder == "probes" else 400_000)

    messages = set()
    for command in (["report", "-f", "csv"], ["report", "-f", "json"], ["compare"]):
        assert main([command[0], str(run), *command[1:]]) == 1
        messages.add(capsys.readouterr().err)
    (message,) = messages
    assert path.name in message
    # Refused by its footer, and not for what it unpacks to.
    assert "rows" in message


@pytest.mark.parametrize(
    "summary",
    [
        {},
        {"started_unix_ns": 5, "ended_unix_ns": None, "iterations": None, "hosts": None},
        {"started_unix_ns": 9 * S, "ended_unix_ns": 0},
        {"iterations": [{"iteration": 1, "end_ns": 3 * S}]},
        {"hosts": [{"name": "a"}, {"name": "b"}]},
    ],
)
def test_a_trial_of_any_length_has_room_for_its_rows(summary: dict, tmp_path: Path) -> None:
    for schema, name in ((INTERVAL_SCHEMA, "intervals"), (PROBE_SCHEMA, "probes")):
        path = tmp_path / f"{name}.parquet"
        columns = pa.schema(schema)
        nulls = pa.table([pa.nulls(200_000, kind) for kind in columns.types], columns.names)
        pa.parquet.write_table(nulls.cast(columns), path)
        record = Record(trial={"id": "0001"}, summary=summary, **{f"{name}_path": path})
        assert getattr(record, name).num_rows == 200_000


def test_a_long_trial_has_more_rows(tmp_path: Path) -> None:
    short = Record(trial={"id": "1"}, summary={"iterations": [{"iteration": 1, "end_ns": S}]})
    hours = {"iterations": [{"iteration": 1, "end_ns": 24 * 3600 * S}], "hosts": [{}] * 20}
    # A day of twenty hosts with eight operations of four outcomes each.
    assert Record(trial={"id": "1"}, summary=hours)._rows_max(4096) > 24 * 3600 * 20 * 32
    assert short._rows_max(4096) < 300_000


def test_a_width_of_each_column_bounds_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    pa.parquet.write_table(pa.table({"a": pa.repeat(7, 1_000_000)}), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "TABLE_BYTES_MAX", 7_999_999)
        with pytest.raises(ResultError) as caught:
            tables.read_table(path, Schema(NUMBERS))
    assert isinstance(caught.value.__cause__, TooLargeError)


def test_a_stream_with_compressed_columns_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "0001.arrows"
    batch = pa.record_batch([pa.repeat(0, 1 << 20)], NUMBERS.names)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(path, NUMBERS, options=options) as writer:
        writer.write_batch(batch)
    assert path.stat().st_size < 2000
    with pytest.raises(ResultError, match="compressed"):
        tables.read_table(path, Schema(NUMBERS))


def test_a_batch_of_a_compressed_stream_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "0001.arrow.zst"
    batch = pa.record_batch([pa.repeat(0, 1 << 20)], NUMBERS.names)
    with (
        pa.CompressedOutputStream(path, "zstd") as packed,
        pa.ipc.new_stream(packed, NUMBERS) as writer,
    ):
        writer.write_batch(batch.slice(0, 10))
        writer.write_batch(batch)
    assert [batch.num_rows for batch in tables.read_stream(path, is_packed=True)] == [10, 1 << 20]
    monkeypatch.setattr(tables, "BATCH_BYTES_MAX", 1 << 22)
    batches = tables.read_stream(path, is_packed=True)
    assert next(batches).num_rows == 10
    with pytest.raises(ResultError, match="batch"):
        next(batches)
