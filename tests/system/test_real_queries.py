"""ClickHouse beside DuckDB, on its own tables: the published comparison, made small."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.system.command import loadstone

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).parents[2] / "examples" / "theflash.yaml"


def test_a_published_comparison_of_two_file_systems_is_run_again(tmp_path: Path) -> None:
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("no chdb here: pip install 'loadstone[clickhouse]'")
    for name in ("ssd", "ceph"):
        (tmp_path / name).mkdir()
    changes = {
        "queries.scale": "0.01",
        "queries.loops": "1",
        "queries.cache": "cold",
        "queries.data": str(tmp_path / "made"),
        "targets.ssd.path": str(tmp_path / "ssd"),
        "targets.ceph.path": str(tmp_path / "ceph"),
        "nodes": "{}",
        "ceilings": "[]",
    }
    flags = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    said = loadstone("run", EXAMPLE, *flags, "-o", tmp_path / "run")
    assert said.code == 0, said.err
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    arms = document["queries"]["arms"]
    assert [(one["target"], one["right"]) for one in arms] == [("ssd", 22), ("ceph", 22)]
    tables = document["queries"]["loads"]
    assert {(one["format"], one["partitions"], one["was_there"]) for one in tables} == {
        ("mergetree", 16, False)
    }
    table = loadstone("report", tmp_path / "run", "-f", "markdown").out
    assert re.search(r"^\| Query \| +SSD \| +Ceph \|", table, re.M)
    assert len(re.findall(r"^Q\d\d, avg: +\d+\.\d, detail: \[\d", table, re.M)) == 2 * 22
    assert "* Ceph: partitionsPerSplit=1" in table
    assert not list((tmp_path / "ssd").iterdir())
    assert json.dumps(document)
