"""A run's leftovers are named with a command that removes them, and nothing else."""

import json
import signal
from pathlib import Path

from loadstone.cli.commands.load.clean import HINTS, hints_of
from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, SECRET_KEY
from tests.system import campaigns
from tests.system.command import loadstone, start, trials_of

RECORD_SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "record.schema.json"

CAMPAIGN = """\
name: left
targets: {here: {driver: file, path: DIRECTORY}}
dataset: {objects: 20, size: 4KiB, buckets: 2}
load: {threads: 2}
phases: [put, {mix: {get: 1, put: 1}, requests: 40}, {op: get, name: long, duration: 10m}]
"""


def begun(folder: Path) -> tuple[Path, Path, Path]:
    """Return the campaign, the run and the directory of a run that was interrupted."""
    data = folder / "data"
    data.mkdir()
    (data / "somebody").mkdir()
    (data / "somebody" / "bench-0").write_text("mine")
    file = campaigns.write(folder, CAMPAIGN.replace("DIRECTORY", str(data)))
    process = start("run", file, "-o", folder / "run")
    campaigns.wait_for(process, "here long round 1")
    process.send_signal(signal.SIGINT)
    _, output = campaigns.end(process)
    assert process.returncode == 130
    assert f"loadstone clean {folder / 'run'}" in output
    return file, folder / "run", data


def files(data: Path) -> set[str]:
    return {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}


def test_clean_removes_what_an_interrupted_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    file, run, data = begun(tmp_path)
    assert len(files(data)) > 30
    before = files(data)
    assert loadstone("clean", run, "--dry-run").code == 0
    refused = loadstone("clean", run)
    assert (refused.code, files(data)) == (1, before)
    assert "--yes" in refused.err
    finished = loadstone("clean", run, "--yes")
    assert finished.code == 0, finished.err
    assert files(data) == {"somebody/bench-0"}
    # A cleaned run cannot be resumed, and a second clean-up has nothing to remove.
    assert loadstone("run", file, "-o", run, "--resume").code == 1
    assert loadstone("clean", run, "--yes").code == 0
    assert read_run(run).state == "interrupted"


def test_a_run_that_cleaned_up_leaves_nothing_and_kept_data_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    result = loadstone("bench", "put,get", data, "-n", "20", "-t", "2", "-o", tmp_path / "one")
    assert result.code == 0, result.err
    assert "loadstone clean" not in result.err
    finished = loadstone(
        "bench", "put", data, "-n", "20", "-t", "2", "--keep-data", "-o", tmp_path / "two"
    )
    assert f"loadstone clean {tmp_path / 'two'}" in finished.err
    before = files(data)
    # A later run of the same kind neither meets nor deletes them.
    later = loadstone("bench", "get", data, "-n", "20", "-t", "2", "-o", tmp_path / "three")
    assert later.code == 0, later.err
    assert files(data) == before
    assert loadstone("clean", tmp_path / "two", "--yes").code == 0
    assert files(data) == set()


def test_a_run_that_was_killed_in_its_first_trial_can_be_cleaned(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    text = CAMPAIGN.replace("DIRECTORY", str(data)).replace("[put, {mix", "[{op: put, {mix")
    text = text.replace("[{op: put, {mix", "[{op: put, rate_limit: 5/s}, {mix")
    file = campaigns.write(tmp_path, text)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    process.kill()
    process.communicate()
    assert files(data)
    finished = loadstone("clean", tmp_path / "run", "--yes")
    assert finished.code == 0, finished.err
    assert files(data) == set()
    assert len(json.loads((tmp_path / "run" / "manifest.json").read_text())["cleaned"]) == 1


def test_a_run_with_a_damaged_table_can_be_cleaned_once_its_target_is_there(
    tmp_path: Path,
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    finished = loadstone("bench", "put", data, "-n", "5", "-t", "1", "--keep-data", "-o", run)
    assert finished.code == 0, finished.err
    (run / "trials" / "0001.parquet").write_bytes(b"cut")
    data.rename(tmp_path / "away")
    assert loadstone("clean", run, "--yes").code == 1
    # Nothing was reached, so nothing is noted as deleted.
    assert not json.loads((run / "manifest.json").read_text()).get("cleaned")
    (tmp_path / "away").rename(data)
    result = loadstone("clean", run, "--yes")
    assert result.code == 0, result.err
    assert "5 objects" in result.out
    assert "1 bucket" in result.out
    assert files(data) == set()
    assert json.loads((run / "manifest.json").read_text())["cleaned"]


def test_leftovers_are_reported_with_a_remedy(tmp_path: Path) -> None:
    """A copy of a marked file and a foreign object stay; the hint says what to do."""
    text = """\
name: copied
targets: {here: {driver: block, path: FILE, direct: false}}
dataset: {objects: 2, size: 1MiB}
load: {threads: 1}
phases: [{op: write, requests: 4, range: 64KiB}]
keep_data: true
"""
    image = tmp_path / "image"
    file = campaigns.write(tmp_path, text.replace("FILE", str(image)))
    assert loadstone("run", file, "-o", tmp_path / "one").code == 0
    (tmp_path / "copy").write_bytes(image.read_bytes())
    (tmp_path / "copy").replace(image)
    finished = loadstone("clean", tmp_path / "one", "--yes")
    assert finished.code == 5
    assert "(other_objects): run " in finished.err
    assert " a copy " in finished.err
    assert f"hint: {HINTS['other_objects']}" in finished.err
    assert image.exists()
    _, run, data = begun(tmp_path)
    [ours] = [path.parent for path in data.rglob("*bench-0") if path.parent.name != "somebody"][:1]
    (ours / "theirs").write_text("mine")
    finished = loadstone("clean", run, "--yes")
    assert finished.code == 5
    assert finished.err.count(f"hint: {HINTS['other_objects']}") == 1
    assert files(data) >= {"somebody/bench-0", f"{ours.name}/theirs"}


def test_every_reason_for_leaving_a_place_comes_with_what_to_do(tmp_path: Path) -> None:
    schema = json.loads(RECORD_SCHEMA.read_text())
    kinds = {kind["const"] for kind in schema["$defs"]["LeftKind"]["oneOf"]}
    assert kinds == set(HINTS)
    places = [{"kind": kind} for kind in sorted(kinds)] * 2
    hints = hints_of({"places_left": places}, tmp_path)
    assert len(hints) == len(kinds)
    assert sum(str(tmp_path) in hint for hint in hints) == 5
    assert hints_of({"places_left": []}, tmp_path) == [
        f"try again with: loadstone clean {tmp_path}"
    ]


def test_versions_that_a_run_left_are_told_with_the_command_that_removes_them(
    tmp_path: Path,
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    run = tmp_path / "run"
    with store_under_test.store() as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="theirs")
        enabled = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="theirs", VersioningConfiguration=enabled)
        client.put_object(Bucket="theirs", Key="mine", Body=b"1")
        finished = loadstone(
            *("bench", "put,copy", url, "-n", "5", "-t", "2", "--prefix", "theirs"),
            *("--allow-foreign", "-o", run),
            environment=keys,
        )
        assert finished.code == 5, finished.err
        (left,) = trials_of(run)[-1]["summary"]["places_left"]
        assert left["kind"] == "hidden"
        assert f"hint: remove it with: loadstone clean {run} --versions" in finished.err
        some = loadstone("clean", run, "--yes", environment=keys)
        assert (some.code, f"loadstone clean {run} --versions" in some.err) == (5, True)
        gone = loadstone("clean", run, "--yes", "--versions", environment=keys)
        assert gone.code == 0, gone.err
        left = client.list_object_versions(Bucket="theirs")
        assert [version["Key"] for version in left["Versions"]] == ["mine"]
        assert "DeleteMarkers" not in left


SPOILED = """\
name: spoiled
targets: {here: {driver: file, path: DIRECTORY}}
dataset: {objects: 5, size: 4KiB, buckets: 1, prefix: ours}
load: {threads: 1}
phases: [put, get]
hooks: [{at: after_phase, phases: [get], shell: "SHELL"}]
"""


def _spoiled(folder: Path, shell: str, *more: str) -> tuple[int, str]:
    """Return the exit code of a run whose bucket a hook spoils before its clean-up."""
    data = folder / "data"
    data.mkdir()
    text = SPOILED.replace("DIRECTORY", str(data)).replace("SHELL", f"cd {data}/ours && {shell}")
    file = campaigns.write(folder, text)
    finished = loadstone("run", file, "-o", folder / "run", "--allow-commands", *more)
    return finished.code, finished.err


def test_a_run_and_its_cleaning_end_alike_while_something_is_left(tmp_path: Path) -> None:
    run, data = tmp_path / "run", tmp_path / "data"
    code, err = _spoiled(tmp_path, "touch theirs")
    assert code == 5, err
    assert f"hint: remove it with: loadstone clean {run}" in err
    # All was measured, so the run is over, and ends the same way whenever it is asked.
    assert read_run(run).state == "finished"
    assert loadstone("run", tmp_path / "campaign.yaml", "-o", run, "--resume").code == 5
    assert loadstone("clean", run, "--yes").code == 5
    for theirs in data.rglob("theirs"):
        theirs.unlink()
    assert loadstone("clean", run, "--yes").code == 0
    assert files(data) == set()
    assert loadstone("run", tmp_path / "campaign.yaml", "-o", run, "--resume").code == 0


def test_data_of_another_run_or_kept_data_is_not_a_failed_clean_up(tmp_path: Path) -> None:
    another = "sed -i -E 's/[0-9a-f]{32}/0123456789abcdef0123456789abcdef/' .loadstone-mark"
    cases = [(another, ()), ("touch theirs", ("--set", "keep_data=true"))]
    for number, (shell, more) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        code, err = _spoiled(folder, shell, *more)
        assert code == 0, err
        assert files(folder / "data")


def test_failures_of_a_target_outweigh_leftovers(tmp_path: Path) -> None:
    """An object is taken away before it is read: a request fails, and the bucket stays, too."""
    data = tmp_path / "data"
    data.mkdir()
    text = SPOILED.replace("DIRECTORY", str(data)).replace("after_phase", "before_phase")
    text = text.replace("SHELL", f"cd {data}/ours && rm *-0 && touch theirs")
    finished = loadstone(
        "run", campaigns.write(tmp_path, text), "-o", tmp_path / "run", "--allow-commands"
    )
    assert finished.code == 1
    assert "loadstone clean" in finished.err
