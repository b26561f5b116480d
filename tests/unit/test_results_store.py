"""A run folder is read back as it was written, and a damaged one is refused by name."""

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from loadstone.errors import ResultError
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.results.store import RunWriter, read_run
from tests.unit.sample_runs import document, interval, manifest, probe_values, write_trial

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    with RunWriter.create(path, manifest()) as writer:
        write_trial(writer, 1)
        write_trial(writer, 2)
        writer.finish({"state": "finished"})
    return path


def test_a_run_is_read_back_as_it_was_written(run_path: Path) -> None:
    run = read_run(run_path)
    assert (run.name, run.state, run.is_being_written) == ("sample", "finished", False)
    assert [record.id for record in run.records] == ["0001", "0002"]
    record = run.records[0]
    assert record.is_whole
    assert record.labels == ()
    assert record.absent_probes == {"pressure": "no /proc/pressure"}
    assert record.intervals.schema == INTERVAL_SCHEMA
    assert record.intervals["second"] == [0, 1, 2, 3, 4]
    assert record.read_intervals(["requests"]).column_names == ["requests"]
    assert record.probes["value"] == [0, 1, 2, 3, 4]


def test_the_manifest_itself_may_be_named(run_path: Path) -> None:
    assert read_run(run_path / "manifest.json").path == run_path


def test_a_run_keeps_control_characters_and_shows_none(tmp_path: Path) -> None:
    """A key with control characters is another key: resumption and clean-up must know it."""
    path, name = tmp_path / "run", "a\x1b[2J\u202eb\r\nc"
    trial = document(1) | {"dataset": {"object_prefix": name}}
    with RunWriter.create(path, manifest() | {"name": name, "plan": [trial]}):
        pass
    with RunWriter.reopen(path) as writer:
        assert writer.manifest["plan"] == [trial]
    written = json.loads((path / "manifest.json").read_text())
    assert (written["name"], written["plan"]) == (name, [trial])
    shown = read_run(path)
    texts = shown.name + shown.manifest["plan"][0]["dataset"]["object_prefix"]
    assert "[2J" in texts
    assert not any(character in texts for character in "\x1b\u202e\r")


def test_a_credential_that_an_early_version_kept_in_a_header_is_shown_nowhere(
    tmp_path: Path,
) -> None:
    """Resumption and clean-up send it; outputs of the run omit it."""
    secret, path = "wJalrXUtnFEMI-K7MDENG", tmp_path / "run"
    headers = {"Authorization": secret, "X-Auth-Token": secret, "x-amz-security-token": secret,
               "Cookie": secret, "Range": "de"}  # fmt: skip
    trial = document(1) | {
        "target": {"name": "t", "driver": "s3", "settings": {"headers": headers}}
    }
    text = (
        "targets:\n  t:\n    headers:\n"
        + "".join(f'      {name}: "{value}"\n' for name, value in headers.items())
        + f"  u: {{headers: {{Cookie: {secret}, Range: de}}, password: {{env: PASSWORD}}}}\n"
    )
    begun = manifest() | {"plan": [trial], "campaign_file": text}
    begun["command"] = f"loadstone run x.yaml --set targets.t.headers.Authorization={secret}"
    with RunWriter.create(path, begun) as writer:
        begun_trial = writer.begin_trial(trial)
        begun_trial.write_intervals(interval(0))
        begun_trial.finish({"state": "finished"}, absent_probes={})
        assert writer.manifest["plan"] == [trial]
    shown = read_run(path)
    everything = json.dumps([shown.manifest, [record.trial for record in shown.records]])
    assert secret not in everything
    assert everything.count("Range") == 4
    assert "{env: PASSWORD}" in shown.manifest["campaign_file"]


def test_outputs_show_only_the_name_of_an_unknown_header(tmp_path: Path) -> None:
    secret, path = "s3cr3t-of-the-gateway", tmp_path / "run"
    headers = {"X-Zebra": secret, "Cache-Control": "no-cache"}
    trial = document(1) | {
        "target": {"name": "t", "driver": "s3", "settings": {"headers": headers}}
    }
    text = f"targets: {{t: {{headers: {{X-Zebra: {secret}, Cache-Control: no-cache}}}}}}"
    begun = manifest() | {"plan": [trial], "campaign_file": text}
    begun["command"] = f"loadstone run x.yaml --set targets.t.headers.X-Zebra={secret}"
    with RunWriter.create(path, begun) as writer:
        assert writer.manifest["plan"] == [trial]
    shown = json.dumps(read_run(path).manifest)
    assert secret not in shown
    assert (shown.count("X-Zebra"), shown.count("no-cache")) == (3, 2)


def test_streams_that_outlived_a_kill_go_when_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunWriter.create(path, manifest()) as writer:
        write_trial(writer, 1)
        writer.begin_trial(document(2)).close()
    for kind in ("trials", "probes"):
        (path / kind / "0001.arrows").write_bytes(b"as if killed right behind the record")
    before = {file: file.read_bytes() for file in path.rglob("0001.*") if file.suffix != ".arrows"}
    RunWriter.reopen(path).close()
    assert {file: file.read_bytes() for file in path.rglob("0001.*")} == before
    # The other one has not ended: its stream is all that there is of it.
    assert (path / "trials" / "0002.arrows").exists()


def test_a_finished_trial_leaves_parquet_and_no_stream(run_path: Path) -> None:
    names = sorted(path.name for path in (run_path / "trials").iterdir())
    assert names == ["0001.json", "0001.parquet", "0002.json", "0002.parquet"]
    assert (
        pa.parquet.ParquetFile(run_path / "trials" / "0001.parquet")
        .metadata.row_group(0)
        .column(0)
        .compression
        == "ZSTD"
    )


def test_a_trial_killed_midway_is_readable_and_labelled(tmp_path: Path) -> None:
    program = f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests.unit.sample_runs import *
        writer = RunWriter.create({str(tmp_path / "run")!r}, manifest())
        write_trial(writer, 1)
        trial = writer.begin_trial(document(2))
        for second in range(3):
            trial.write_intervals(interval(second))
            trial.write_probes(probe_values(second))
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert [(record.id, record.labels) for record in run.records] == [
        ("0001", ()),
        ("0002", ("INTERRUPTED",)),
    ]
    assert run.records[1].intervals["second"] == [0, 1, 2]
    assert run.records[1].probes.num_rows == 3
    assert run.records[1].summary == {}


def test_a_stream_cut_at_any_byte_yields_its_whole_batches(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        trial = writer.begin_trial(document(1))
        for second in range(3):
            trial.write_intervals(interval(second))
        trial.close()
    stream = tmp_path / "run" / "trials" / "0001.arrows"
    whole = stream.read_bytes()
    lengths = set()
    for size in range(0, len(whole), 7):
        stream.write_bytes(whole[:size])
        seconds = read_run(tmp_path / "run").records[0].intervals["second"]
        assert seconds == list(range(len(seconds)))
        lengths.add(len(seconds))
    assert lengths == {0, 1, 2, 3}


def test_an_interrupted_trial_keeps_its_summary_and_is_not_finished(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        trial = writer.begin_trial(document(1))
        trial.write_intervals(interval(0))
        trial.interrupt({"state": "interrupted", "requests": 10})
        assert writer.finished == frozenset()
        writer.finish({"state": "interrupted"})
    (record,) = read_run(tmp_path / "run").records
    assert record.labels == ("INTERRUPTED",)
    assert record.summary["requests"] == 10
    assert record.intervals.num_rows == 1


def test_a_resumed_run_replaces_the_partial_trial_and_keeps_the_finished(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        write_trial(writer, 1)
        trial = writer.begin_trial(document(2))
        trial.write_intervals(interval(0))
        trial.write_probes(probe_values(0))
        trial.interrupt({"state": "interrupted"})
    before = (tmp_path / "run" / "trials" / "0001.parquet").read_bytes()
    with RunWriter.reopen(tmp_path / "run") as writer:
        assert writer.finished == {"0001"}
        with pytest.raises(ResultError, match=r"0001.*finished already"):
            writer.begin_trial(document(1))
        write_trial(writer, 2, seconds=4)
        writer.finish({"state": "finished"})
    run = read_run(tmp_path / "run")
    assert run.state == "finished"
    assert [(record.id, record.labels) for record in run.records] == [("0001", ()), ("0002", ())]
    assert run.records[1].intervals.num_rows == 4
    assert (tmp_path / "run" / "trials" / "0001.parquet").read_bytes() == before
    assert not list((tmp_path / "run").rglob("*.arrows"))
    assert not list((tmp_path / "run").rglob("*.partial.json"))


@pytest.mark.parametrize(
    ("rows", "payload"), [(40_000, b""), (1_000, b"x" * 9_000)], ids=["by rows", "by weight"]
)
def test_rows_survive_conversion_in_several_row_groups(
    rows: int, payload: bytes, tmp_path: Path
) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        trial = writer.begin_trial(document(1))
        for second in range(3):
            many = interval(second, payload=payload).to_pylist() * rows
            trial.write_intervals(INTERVAL_SCHEMA.of_rows(many))
        trial.finish({"state": "finished"})
    assert pa.parquet.ParquetFile(tmp_path / "run/trials/0001.parquet").num_row_groups == 2
    (record,) = read_run(tmp_path / "run").records
    assert record.intervals["second"] == [second for second in range(3) for _ in range(rows)]


def test_two_writers_never_hold_one_run(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        with pytest.raises(ResultError, match=rf"\(pid {os.getpid()} "):
            RunWriter.reopen(tmp_path / "run")
        assert read_run(tmp_path / "run").is_being_written
        assert read_run(tmp_path / "run").state == "running"
        writer.begin_trial(document(1)).close()
        assert read_run(tmp_path / "run").records[0].labels == ("RUNNING",)
    RunWriter.reopen(tmp_path / "run").close()


def test_readers_do_not_keep_a_writer_out(tmp_path: Path, run_path: Path) -> None:
    saved = json.loads((run_path / "manifest.json").read_text()) | {"state": "interrupted"}
    (run_path / "manifest.json").write_text(json.dumps(saved))
    program = f"""
        import sys
        from loadstone.results.files import durable
        from pathlib import Path
        print(flush=True)
        while True:
            durable.is_locked(Path({str(run_path / ".lock")!r}))
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE
    )
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        for _ in range(20):
            RunWriter.reopen(run_path).close()
    finally:
        reader.kill()
        reader.communicate()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_text("x"), "a file"),
        (lambda path: (path.mkdir(), (path / "thesis.tex").write_text("x")), "not empty"),
        (
            lambda path: ((path / "trials").mkdir(parents=True), (path / "trials/a").touch()),
            "not empty",
        ),
        (lambda path: RunWriter.create(path, manifest()).close(), "already is"),
    ],
)
def test_a_run_is_never_written_over_what_is_there(
    tmp_path: Path, prepare: Any, message: str
) -> None:
    prepare(tmp_path / "run")
    before = {path: path.stat() for path in (tmp_path / "run").rglob("*")}
    with pytest.raises(ResultError, match=message):
        RunWriter.create(tmp_path / "run", manifest())
    assert {path: path.stat() for path in (tmp_path / "run").rglob("*")} == before


def test_a_run_that_could_not_be_created_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(folder: Path, name: str, _: object) -> None:
        raise ResultError(f'cannot write "{folder / name}": No space left on device')

    monkeypatch.setattr("loadstone.results.writer.durable.write_json", fill_up)
    (tmp_path / "old").mkdir()
    for folder in ("new/run", "old"):
        with pytest.raises(ResultError, match="No space"):
            RunWriter.create(tmp_path / folder, manifest())
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["old"]


def test_only_a_folder_in_which_nothing_was_recorded_is_discarded(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs" / "empty", manifest()) as writer:
        assert writer.discard_if_empty()
    assert not (tmp_path / "runs").exists()
    with RunWriter.create(tmp_path / "kept", manifest()) as writer:
        (tmp_path / "kept" / "intents.jsonl").touch()
        assert not writer.discard_if_empty()
    assert (tmp_path / "kept" / "manifest.json").exists()


def test_a_folder_whose_creation_was_killed_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "run" / "trials").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    RunWriter.create(tmp_path / "run", manifest()).close()


def test_a_finished_run_is_not_taken_up_again(run_path: Path) -> None:
    with pytest.raises(ResultError, match="is finished"):
        RunWriter.reopen(run_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("manifest.json", Path.unlink, "has no manifest.json"),
        ("manifest.json", cut, "manifest.json.*cut off"),
        ("manifest.json", lambda path: path.write_text("[]"), "JSON object"),
        ("manifest.json", lambda path: path.write_text("{}"), 'lacks "format"'),
        (
            "manifest.json",
            lambda path: rewrite(path, format=2),
            r"format 2; .* 1\b",
        ),
        ("manifest.json", lambda path: rewrite(path, plan=None), '"plan"'),
        ("manifest.json", lambda path: rewrite(path, plan=[1]), r'"plan.0": found 1'),
        ("manifest.json", lambda path: rewrite(path, plan=[{}]), "entry 1 of"),
        ("manifest.json", lambda path: rewrite(path, run=None), '"run"'),
        ("trials/0002.json", cut, "0002.json.*cut off"),
        (
            "trials/0002.json",
            lambda path: rewrite(path, record_format=9),
            "0002.json.*record format 9",
        ),
        (
            "trials/0002.json",
            lambda path: rewrite(path, trial=3),
            '0002.json" .* "trial"',
        ),
        ("trials/0002.json", lambda path: rewrite(path, summary=3), '"summary"'),
        ("trials/0002.parquet", Path.unlink, "0002.parquet.*No such file"),
        ("trials/0002.parquet", cut, "0002.parquet.*is cut off"),
        ("trials/0002.parquet", lambda path: path.write_bytes(b""), r"0002.parquet.*\(0 bytes\)"),
        ("probes/0001.parquet", cut, "probes/0001.parquet.*is cut off"),
    ],
)
def test_a_damaged_folder_is_refused_with_the_file_named(
    run_path: Path, file: str, damage: Any, message: str
) -> None:
    damage(run_path / file)
    with pytest.raises(ResultError, match=message):
        read_run(run_path)


def test_a_table_damaged_inside_is_refused_when_it_is_read(run_path: Path) -> None:
    path = run_path / "trials/0001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3] + content[-300:])
    with pytest.raises(ResultError, match=r'cannot read ".*0001.parquet"'):
        _ = read_run(run_path).records[0].intervals


def test_a_table_without_its_columns_is_refused(run_path: Path) -> None:
    path = run_path / "trials/0001.parquet"
    pa.parquet.write_table(pa.table({"second": [1]}), path)
    with pytest.raises(ResultError, match="agent, stage"):
        _ = read_run(run_path).records[0].intervals


def test_a_missing_folder_and_a_file_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="nothing") as caught:
        read_run(tmp_path / "nothing")
    assert caught.value.kind == "no-run"
    (tmp_path / "file").touch()
    with pytest.raises(ResultError, match="file") as caught:
        read_run(tmp_path / "file")
    assert caught.value.kind == "no-run"


@pytest.mark.parametrize("file", ["manifest.json", "trials/0002.json", "trials/0002.parquet"])
def test_a_file_that_cannot_be_read_is_named(run_path: Path, file: str) -> None:
    (run_path / file).unlink()
    (run_path / file).mkdir()
    with pytest.raises(ResultError, match=f'read ".*{file}": {os.strerror(errno.EISDIR)}'):
        read_run(run_path)


def test_requests_one_by_one_survive_a_kill_and_unpack_with_zstd(tmp_path: Path) -> None:
    import zstandard

    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        for number in (1, 2):
            trial = writer.begin_trial(document(number))
            for second in range(3):
                trial.write_intervals(interval(second))
                trial.write_operations(interval(second, payload=os.urandom(500)))
            if number == 1:
                trial.finish({})
        killed = (tmp_path / "run/operations/0002.arrow.zst").read_bytes()
        trial.close()
    (tmp_path / "run/operations/0002.arrow.zst").write_bytes(killed)
    whole, cut = read_run(tmp_path / "run").records
    for record in (whole, cut):
        seconds = [batch["second"] for batch in record.read_requests()]
        assert seconds == [[0], [1], [2]]
    assert whole.operations_path is not None
    with whole.operations_path.open("rb") as packed:
        stream = zstandard.ZstdDecompressor().stream_reader(packed).read()
    assert pa.ipc.open_stream(stream).read_all().num_rows == 3


def test_a_trial_that_logged_no_requests_has_none(run_path: Path) -> None:
    assert list(read_run(run_path).records[0].read_requests()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(run_path: Path) -> None:
    (run_path / "trials/0001.json").chmod(0)
    with pytest.raises(ResultError, match=r"0001.json.*Permission denied"):
        read_run(run_path)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    def left_open() -> list[str]:
        # Libraries may open what they like for threads of their own; the files here are ours.
        links = Path("/proc/self/fd").iterdir()
        opened = [os.readlink(link) for link in links if link.is_symlink()]
        return [path for path in opened if path.startswith(str(tmp_path))]

    def cycle(name: str) -> None:
        with RunWriter.create(tmp_path / name, manifest()) as writer:
            write_trial(writer, 1)
            trial = writer.begin_trial(document(2))
            trial.write_intervals(interval(0))
            trial.interrupt({})
        for record in read_run(tmp_path / name).records:
            _ = record.intervals, record.probes

    for name in "abc":
        cycle(name)
    assert left_open() == []


def test_a_copy_without_its_empty_folders_goes_on(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "run", manifest(1)).close()
    for name in ("trials", "probes"):
        (tmp_path / "run" / name).rmdir()
    with RunWriter.reopen(tmp_path / "run") as writer:
        write_trial(writer, 1)
    assert [record.id for record in read_run(tmp_path / "run").records] == ["0001"]
