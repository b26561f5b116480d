"""Files that were edited by hand, or are of no such tool: an error with its place, no crash."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadstone import importers
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.formats.imported import Hints, Imported, ImportedTrial
from loadstone.formats.json_document import read_document
from loadstone.formats.measurement import read_measurements
from loadstone.importers.run_folder import write_run

DATA = Path(__file__).parent.parent / "data" / "importers"
PUBLISHED = Path(__file__).parent.parent / "data" / "published"
SAMPLES = {
    "fio": DATA / "fio-read-4m.json",
    "iperf3": DATA / "iperf3-1stream.json",
    "rados-bench": DATA / "bluestore-4M-ecbench-write.txt",
    "elbencho": DATA / "elbencho.csv",
    "nectar": DATA / "bench-put.csv",
    "datasafe": PUBLISHED / "datasafe-log.txt",
    "tpch": PUBLISHED / "theflash-ssd-raw.md",
}
WRONG: tuple[Any, ...] = (None, "x", [], {}, -1, True, 10**30)


def read_as_run(form: str, path: Path, folder: Path) -> None:
    """Import a file whole, as the command does: many mistakes show only when it is written."""
    imported = importers.find(form).read([path], Hints(size_bytes=4096, threads=4))
    if isinstance(imported, Imported):
        shutil.rmtree(folder, ignore_errors=True)
        write_run(imported, folder)


def without_source(path: Path, form: str) -> list[ImportedTrial]:
    """Return the imported trials without the tool's own output."""
    imported = importers.find(form).read([path], Hints())
    assert isinstance(imported, Imported)
    return [replace(trial, source={}) for trial in imported.trials]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where each value of a document stands; of lists, the first two."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index in range(min(2, len(value))):
            yield from places(value[index], (*path, index))


@pytest.mark.parametrize("form", ["fio", "iperf3"])
def test_any_value_of_a_wrong_kind_is_refused_or_has_no_part_in_the_result(
    form: str, tmp_path: Path
) -> None:
    text = SAMPLES[form].read_text()
    path = tmp_path / "changed.json"
    refused = set()
    original = without_source(SAMPLES[form], form)
    # The many bins of a histogram are equivalent, so one suffices.
    keys = [key for key in places(json.loads(text)) if "bins" not in key or key[-1] == "1941504"]
    for key in keys:
        for wrong in WRONG:
            document = json.loads(text)
            inner = document
            for name in key[:-1]:
                inner = inner[name]
            inner[key[-1]] = wrong
            path.write_text(json.dumps(document))
            try:
                if without_source(path, form) != original:
                    read_as_run(form, path, tmp_path / "run")
            except InputError as error:
                assert "changed.json" in error.message
                refused.add(key)
    needed = {
        "fio": ("jobs", 0, "read", "iops"),
        "iperf3": ("intervals", 0, "sum", "bits_per_second"),
    }
    assert needed[form] in refused


@pytest.mark.parametrize(
    ("key", "wrong", "words"),
    [
        (("jobs", 0, "read", "io_bytes"), None, ['"jobs.0.read.io_bytes"', "found null"]),
        (("jobs", 0, "read", "iops"), "fast", ['"jobs.0.read.iops"', 'found "fast"', "a number"]),
        (("jobs", 0, "read", "runtime"), -1, ["jobs.0.read.runtime", "found -1"]),
        (("jobs", 0, "read", "total_ios"), 1.5, ["jobs.0.read.total_ios", "a whole number"]),
        (("jobs", 0, "job options"), [], ["jobs.0.job options", "an object"]),
        (("jobs", 0, "job options", "bs"), [], ["jobs.0.job options.bs", "found []", "string"]),
    ],
)
def test_the_value_that_is_wrong_is_named_by_its_way_through_the_document(
    key: tuple[str | int, ...], wrong: object, words: list[str], tmp_path: Path
) -> None:
    document = json.loads(SAMPLES["fio"].read_text())
    inner = document
    for name in key[:-1]:
        inner = inner[name]
    inner[key[-1]] = wrong
    path = tmp_path / "fio.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        importers.find("fio").read([path], Hints())
    for word in ("fio.json", *words):
        assert word in caught.value.message


@pytest.mark.parametrize("key", ["bw_bytes", "iops"])
def test_a_rate_that_fio_does_not_print_is_not_a_measurement(key: str, tmp_path: Path) -> None:
    document = json.loads(SAMPLES["fio"].read_text())
    document["jobs"][0]["read"] |= {"runtime": 0, key: None, "bw": None}
    path = tmp_path / "fio.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="bw_bytes"):
        read_measurements("fio", [path])


@pytest.mark.parametrize("token", ["NaN", "-Infinity", "1e400"])
def test_a_number_that_json_does_not_have_is_named_with_its_line(
    token: str, tmp_path: Path
) -> None:
    path = tmp_path / "document.json"
    path.write_text(f'{{\n  "a": "{token}",\n  "b": {token}\n}}')
    with pytest.raises(InputError, match=rf"line 3: found {token}"):
        read_document(path)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "blank lines": lambda data: b"\n\n\n",
    "cut in the middle": cut,
    "binary": lambda data: bytes(range(256)) * 20,
    "another encoding": lambda data: data.decode().encode("utf-16"),
    "compressed": lambda data: b"\x1f\x8b\x08\0" + data[:50],
    "a zero byte": lambda data: data[:200] + b"\0" + data[200:],
    "a list": lambda data: b"[]",
    "nested without end": lambda data: b"[" * 200_000,
    "semicolons": lambda data: data.replace(b",", b";"),
}
HARMLESS = {("rados-bench", "semicolons")}
"""There is no comma in it."""


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("form", SAMPLES)
def test_a_file_of_another_tool_is_refused_by_name(form: str, kind: str, tmp_path: Path) -> None:
    if (form, kind) in HARMLESS:
        return
    path = tmp_path / "changed.txt"
    path.write_bytes(FILES[kind](SAMPLES[form].read_bytes()))
    with pytest.raises(InputError) as caught:
        read_as_run(form, path, tmp_path / "run")
    assert "changed.txt" in caught.value.message


@pytest.mark.parametrize("form", [form for form in SAMPLES if form != "nectar"])
def test_a_byte_order_mark_and_other_ends_of_lines_change_nothing(
    form: str, tmp_path: Path
) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbf" + SAMPLES[form].read_bytes().replace(b"\n", b"\r\n"))
    read_as_run(form, path, tmp_path / "run")
    plain = tmp_path / "plain" / path.name
    plain.parent.mkdir()
    plain.write_bytes(SAMPLES[form].read_bytes())
    os.utime(path, (1, 1))
    os.utime(plain, (1, 1))
    marked, wanted = (
        importers.find(form).read([path_read], Hints()) for path_read in (path, plain)
    )
    # But for the folder, all that is read is the same.
    assert repr(marked).replace(str(path.parent), "") == repr(wanted).replace(str(plain.parent), "")


@pytest.mark.parametrize("form", [*SAMPLES, "warp"])
def test_a_folder_or_nothing_in_place_of_a_file_is_refused(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        assert main(["import", form, str(path)]) == 1
        assert str(path) in capfd.readouterr().err


def test_a_time_that_cannot_be_is_refused(tmp_path: Path) -> None:
    lines = SAMPLES["nectar"].read_text().splitlines(keepends=True)
    first = lines[1].split(",", 1)[1]
    for moment, words in (
        ("9" * 26, "at most"),
        ("1000", "takes longer"),
        ("1000000000000000000", "from the first to the last"),
    ):
        path = tmp_path / "put.csv"
        path.write_text("".join([lines[0], f"{moment},{first}", *lines[2:]]))
        with pytest.raises(InputError) as caught:
            read_as_run("nectar", path, tmp_path / "run")
        assert words in caught.value.message, moment
