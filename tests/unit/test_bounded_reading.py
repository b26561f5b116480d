"""Files without an end: refused at once, by name."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from loadstone import _loadgen, importers, regular_file
from loadstone.campaign.parse import parse_campaign, read_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.reading.source import parse_document, parse_value
from loadstone.campaign.schema.dataset import PREFIX_FIELDS
from loadstone.errors import CampaignError, InputError, ResultError
from loadstone.formats import reading
from loadstone.formats.imported import Hints
from loadstone.results.files import tables
from loadstone.results.layout import read_json
from loadstone.results.record import INTERVAL_SCHEMA

CAMPAIGN = """
name: x
targets: {{t: {{driver: "null"}}}}
dataset: {{objects: 1, size: 4KiB, prefix: "{prefix}"}}
phases: [get]
load: {{threads: 1}}
blocks: {blocks}
sweep: {sweep}
"""


@pytest.fixture(params=["fifo", "device", "folder"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "device":
        return Path("/dev/zero")
    path = tmp_path / "endless"
    path.mkdir() if request.param == "folder" else os.mkfifo(path)
    return path


def test_a_campaign_is_a_regular_file(endless: Path) -> None:
    with pytest.raises(CampaignError):
        read_campaign(endless)


@pytest.mark.parametrize("form", importers.IMPORTERS)
def test_an_import_is_a_regular_file(form: str, endless: Path) -> None:
    with pytest.raises(InputError):
        importers.find(form).read([endless], Hints())


def test_a_run_folder_contains_only_regular_files(endless: Path) -> None:
    for read in (read_json, tables.check_parquet):
        with pytest.raises(ResultError):
            read(endless)
    with pytest.raises(ResultError):
        tables.read_table(endless, INTERVAL_SCHEMA)


def test_a_file_is_read_up_to_its_bound_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert regular_file.read(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="larger"):
        regular_file.read(path, 99)


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000], ids="[{-")
def test_yaml_is_as_deep_as_a_campaign_needs(text: str) -> None:
    with pytest.raises(CampaignError) as caught:
        parse_document("name: " + text if text[0] != "-" else text, "x")
    assert "nested deeper" in str(caught.value)
    with pytest.raises(ValueError, match="nested deeper"):
        parse_value(text)


@pytest.mark.parametrize("prefix", ["{name:>999999999}-", "{name!r:>9}-", "{name.__class__}-"])
def test_a_prefix_is_filled_in_and_never_computed(prefix: str) -> None:
    with pytest.raises(CampaignError) as caught:
        parse_campaign(CAMPAIGN.format(prefix=prefix, blocks=1, sweep="{}"))
    (mistake,) = caught.value.mistakes
    assert mistake.key == "dataset.prefix"
    assert mistake.allowed.endswith(", ".join(f"{{{field}}}" for field in PREFIX_FIELDS))


@pytest.mark.parametrize(
    ("blocks", "sweep"),
    [
        (1_000_000_000, "{}"),
        (1_000_000, f"{{threads: {list(range(1, 300))}, size: {list(range(1, 300))}}}"),
    ],
)
def test_a_plan_too_large_to_run_is_refused_before_it_is_made(blocks: int, sweep: str) -> None:
    with pytest.raises(CampaignError) as caught:
        parse_campaign(CAMPAIGN.format(prefix="p-", blocks=blocks, sweep=sweep))
    assert "trials" in str(caught.value)


def test_a_plan_is_counted_as_it_is_made() -> None:
    text = CAMPAIGN.format(prefix="p-", blocks=3, sweep="{threads: [1, 2]}")
    plan = make_plan(parse_campaign(text))
    assert sum(planned.document["measured"] for planned in plan.trials) == 6


# A module by which to tell where the command is: at its begin, and where it begins to plan.
@pytest.mark.parametrize("module", ["loadstone.cli", "loadstone.campaign.planning.plan"])
def test_ctrl_c_ends_the_planning_and_all_before_it(module: str, tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    sweep = f"{{threads: {list(range(1, 250))}}}"
    file.write_text(CAMPAIGN.format(prefix="p-", blocks=400, sweep=sweep))
    program = [sys.executable, "-X", "importtime", "-m", "loadstone"]
    command = [*program, "run", str(file), "--dry-run"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        # Python names each module once it is imported, after the modules that it needs.
        for line in process.stderr:
            if line.split(b"|")[-1].strip().startswith(module.encode()):
                break
        process.send_signal(signal.SIGINT)
        _, output = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, output
    assert b"Traceback" not in output


# In a process of its own, whose memory nothing else has used.
READ_A_BOMB = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from loadstone._loadgen import Schema
from loadstone.errors import LoadstoneError
from loadstone.results.files import tables

tables.TABLE_BYTES_MAX = 1 << 20
schema = Schema(pa.schema([("a", getattr(pa, sys.argv[2])())]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    tables.read_table(Path(sys.argv[1]), schema)
except LoadstoneError as error:
    print(type(error.__cause__).__name__)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["rows", "values"])
def test_a_short_parquet_file_that_unpacks_without_end_is_refused(
    kind: str, tmp_path: Path
) -> None:
    rows = 20_000_000 if kind == "rows" else 10_000
    value = pa.scalar(7, pa.int64()) if kind == "rows" else pa.scalar(b"x" * 50_000, pa.binary())
    column = (
        pa.repeat(value, rows)
        if kind == "rows"
        else pa.DictionaryArray.from_arrays(pa.repeat(0, rows).cast(pa.int32()), pa.array([value]))
    )
    path = tmp_path / "bomb.parquet"
    pa.parquet.write_table(pa.table({"a": column}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 200_000
    done = subprocess.run(
        [sys.executable, "-c", READ_A_BOMB, str(path), str(value.type)],
        capture_output=True,
        text=True,
        check=True,
    )
    error, grown_kib = done.stdout.rsplit("\n", 2)[:2]
    assert error == _loadgen.TooLargeError.__name__
    # The uncompressed data would be at least ten times as large.
    assert int(grown_kib) < 16_000


def nested(levels: int) -> bytes:
    """Return a Parquet file without rows, of one column below so many groups.

    Its footer is in Thrift's compact protocol: a version, the elements of the schema, no rows.
    """
    count = levels + 2
    length = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    group, leaf = b"\x35\0\x18\1g\x15\2\0", b"\x15\x0c\x25\0\x18\3key\0"
    schema = b"\x19\xfc" + length + b"\x48\1s\x15\2\0" + group * levels + leaf
    footer = b"\x15\2" + schema + b"\x16\0\x19\x0c\0"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


# The library for Parquet takes a piece of the stack for each level; a thousand of them have room.
@pytest.mark.parametrize(("levels", "named"), [(60, "key"), (1000, "64")])
def test_a_parquet_file_that_nests_deeper_than_a_stack_is_refused(
    levels: int, named: str, tmp_path: Path
) -> None:
    path = tmp_path / "nested.parquet"
    path.write_bytes(nested(levels))
    with pytest.raises(ValueError, match=named):
        _loadgen.list_facts(path)


def test_a_short_warp_file_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BYTES_MAX", 1 << 20)
    for name, begin in (("analysis.json.zst", b"{"), ("x.csv.zst", b"idx")):
        path = tmp_path / name
        path.write_bytes(pa.compress(begin + b" " * (1 << 25), codec="zstd", asbytes=True))
        assert path.stat().st_size < 10_000
        with pytest.raises(InputError):
            importers.find("warp").read([path], Hints())
