"""The limits that docs/reference/run-folder.md names are those of the code."""

import math
import re
from pathlib import Path

from loadstone import regular_file
from loadstone.campaign import check
from loadstone.campaign.drivers import BucketNames
from loadstone.campaign.planning import beyond
from loadstone.campaign.reading import source
from loadstone.formats import reading
from loadstone.results import layout, line_log, record
from loadstone.results.files import tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "run-folder.md"


def rows() -> dict[str, str]:
    """Return the tables of limits: what is bounded, and by what."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Limits\n")[2]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {name.strip(): limit.strip() for name, limit in lines}


def size(count: int) -> str:
    """Write a size as the page does."""
    mib = count // regular_file.MIB
    return f"{mib // 1024} GiB" if mib >= 1024 else f"{mib} MiB"


def test_the_page_names_the_limits_of_the_code() -> None:
    limits = rows()
    campaign = limits.pop("a campaign file, or standard input (`loadstone run -`)")
    assert campaign == (
        f"{size(source._BYTES_MAX)}, {source._NODES_MAX:,} values, {source._DEPTH_MAX} levels"
    )
    assert limits.pop("`manifest.json`, a record") == f"{size(layout.JSON_BYTES_MAX)} each"
    lines = limits.pop("`intents.jsonl`, `hooks.jsonl`, `faults.jsonl`")
    assert lines.partition(";")[0] == f"{size(line_log.LINES_BYTES_MAX)} each"
    assert limits.pop("a table, unpacked") == size(tables.TABLE_BYTES_MAX)
    rows_of_a_second = limits.pop("rows of a finished trial's table, in each second of each host")
    pairs, readings = record.PAIRS_MAX, record.READINGS_MAX
    assert re.findall(r"[\d,]*\d", rows_of_a_second) == [f"{pairs:,}", f"{readings:,}"]
    batch = limits.pop("a batch of a stream")
    assert batch.startswith(f"{size(tables.BATCH_BYTES_MAX)},")
    assert limits.pop("another tool's file for `loadstone import`") == size(reading.BYTES_MAX)
    mix = limits.pop("objects that one mix puts beyond its dataset")
    assert mix == f"2^{math.log2(beyond.BEYOND_MAX):g}"
    mixes = limits.pop("mixes with puts in one run")
    assert mixes == f"2^{math.log2(beyond.ORDINALS_MAX):g} trials"
    trials = limits.pop("trials at one time")
    assert trials.startswith(f"{check.TRIALS_MAX:,};")
    assert limits.pop("a bucket's name") == f"{BucketNames().length_max} characters"
    # A new row needs a comparison here.
    assert set(limits) == {"read", "planned", "---"}
