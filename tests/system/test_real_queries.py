"""ClickHouse beside DuckDB, on its own tables: the published comparison, made small; and by URL."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.engines.clickhouse_server import connect
from loadstone.engines.engine import ServerAccess
from loadstone.execution.cleaning import what_is_left
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, assert_secret_absent, loadstone

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).parents[2] / "examples" / "theflash.yaml"


def test_a_published_comparison_of_two_file_systems_is_run_again(tmp_path: Path) -> None:
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("no chdb here: pip install 'loadstone[clickhouse]'")
    for name in ("ssd", "ceph"):
        (tmp_path / name).mkdir()
    changes = {
        "queries.engine": "clickhouse",
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
    finished = loadstone("run", EXAMPLE, *flags, "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    arms = document["queries"]["arms"]
    assert [(arm["target"], arm["right"]) for arm in arms] == [("ssd", 22), ("ceph", 22)]
    tables = document["queries"]["loads"]
    assert {(table["format"], table["partitions"], table["was_there"]) for table in tables} == {
        ("mergetree", 16, False)
    }
    table = loadstone("report", tmp_path / "run", "-f", "markdown").out
    assert re.search(r"^\| Query \| +SSD \| +Ceph \|", table, re.M)
    assert len(re.findall(r"^Q\d\d, avg: +\d+\.\d, detail: \[\d", table, re.M)) == 2 * 22
    assert "* Ceph: partitionsPerSplit=1" in table
    assert not list((tmp_path / "ssd").iterdir())
    assert json.dumps(document)


@pytest.mark.long(cpu_s=120)
@pytest.mark.parametrize("engine", ["clickhouse", "datafusion"])
def test_all_answers_are_right_at_scale_1(tmp_path: Path, engine: str) -> None:
    """A gigabyte: tables larger than the cache, with a second engine that checks the answers."""
    if engine == "clickhouse" and importlib.util.find_spec("chdb") is None:
        pytest.skip("no chdb here: pip install 'loadstone[clickhouse]'")
    (tmp_path / "data").mkdir()
    file = campaigns.write(
        tmp_path,
        f"name: whole\ntargets: {{disk: {{driver: file, path: {tmp_path / 'data'}}}}}\n"
        f"queries: {{scale: 1, engine: {engine}, loops: 1, data: {tmp_path / 'made'}}}\n",
    )
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    [arm] = loadstone("report", tmp_path / "run", "-f", "json").json()["queries"]["arms"]
    assert (arm["engine"], arm["right"]) == (engine, 22)
    assert all(query["failures"] == {} for query in arm["queries"])


def test_tables_are_kept_on_versitygw(versitygw_server: dict[str, str], tmp_path: Path) -> None:
    """Files of one part and of several; versitygw does not understand the SDK's trailers."""
    login = versitygw_server
    file = campaigns.write(
        tmp_path,
        f"name: flash\ntargets: {{s3: {{driver: s3, endpoint: '{login['endpoint']}', "
        f"access_key: {login['access_key']}, secret_key: {{env: SECRET_KEY_OF_TESTS}}}}}}\n"
        f"queries: {{scale: 0.1, engine: datafusion, only: [1, 6], loops: 1, "
        f"data: {tmp_path / 'made'}}}\n",
    )
    environment = {"SECRET_KEY_OF_TESTS": login["secret_key"]}
    finished = loadstone("run", file, "-o", tmp_path / "run", environment=environment)
    assert finished.code == 0, finished.err
    assert_secret_absent(login["secret_key"], finished, tmp_path / "run")
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    [arm] = document["queries"]["arms"]
    assert arm["right"] == 2
    assert not what_is_left(tmp_path / "run")
    assert loadstone("clean", tmp_path / "run", "--yes", environment=environment).code == 0


PASSWORD = "the-password-of-tests"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of ClickHouse behind our imitation of its server's front."""
    for name in ("chdb", "clickhouse_connect"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"no {name} here: pip install 'loadstone[clickhouse]'")
    (tmp_path / "server").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.system.clickhouse_front", tmp_path / "server", PASSWORD],
        stdout=subprocess.PIPE,
        text=True,
    ) as front:
        try:
            assert front.stdout is not None
            yield front.stdout.readline().strip()
        finally:
            front.terminate()


def test_a_server_is_asked_by_its_address(tmp_path: Path, server: str) -> None:
    (tmp_path / "disk").mkdir()
    asked = f"{{url: '{server}', password: {{env: CLICKHOUSE_PASSWORD}}}}"
    file = campaigns.write(
        tmp_path,
        f"name: flash\ntargets: {{disk: {{driver: file, path: {tmp_path / 'disk'}}}}}\n"
        f"queries: {{scale: 0.01, engine: {{clickhouse: {asked}}}, only: [1, 13], loops: 1, "
        f"cache: both, storage: {{format: mergetree, partitions: 4}}, "
        f"data: {tmp_path / 'made'}}}\n",
    )
    wrong = loadstone(
        "run", file, "-o", tmp_path / "no", environment={"CLICKHOUSE_PASSWORD": "another-word"}
    )
    assert wrong.code == 1
    assert "Authentication failed" in wrong.err
    environment = {"CLICKHOUSE_PASSWORD": PASSWORD}
    lacking = loadstone(
        "run", file, "-o", tmp_path / "no", "--set",
        "queries.engine.clickhouse.policies={disk: fast}", environment=environment,
    )  # fmt: skip
    assert 'policy "fast"' in lacking.err
    finished = loadstone("run", file, "-o", tmp_path / "run", environment=environment)
    assert finished.code == 0, finished.err
    assert_secret_absent(PASSWORD, finished, tmp_path / "run")
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    arms = document["queries"]["arms"]
    assert [(arm["cache"], arm["right"]) for arm in arms] == [("cold", 2), ("warm", 2)]
    # chdb has no log of queries: what the server read is not known, and is not called nothing.
    assert {query["read_bytes"] for arm in arms for query in arm["queries"]} == {None}
    [load] = document["queries"]["loads"]
    assert (load["format"], load["partitions"]) == ("server", 4)
    assert not what_is_left(tmp_path / "run")
    assert loadstone("clean", tmp_path / "run", "--yes", environment=environment).code == 0


def test_a_database_that_was_there_is_neither_taken_nor_dropped(
    tmp_path: Path, server: str
) -> None:
    """It is empty, and is named like kept tables."""
    (tmp_path / "disk").mkdir()
    client = connect(ServerAccess(url=server, password=PASSWORD))
    name = "loadstone-tpch-0-01-server-1-clickhouse-disk"
    client.command(f"CREATE DATABASE `{name}`")
    asked = f"{{url: '{server}', password: {{env: CLICKHOUSE_PASSWORD}}}}"
    file = campaigns.write(
        tmp_path,
        f"name: flash\ntargets: {{disk: {{driver: file, path: {tmp_path / 'disk'}}}}}\n"
        f"queries: {{scale: 0.01, engine: {{clickhouse: {asked}}}, only: [6], loops: 1, "
        f"data: {tmp_path / 'made'}}}\nkeep_data: true\n",
    )
    environment = {"CLICKHOUSE_PASSWORD": PASSWORD}
    words = (*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run")
    finished = loadstone(*words, environment=environment)
    assert finished.code == 1
    assert "not-ours" in finished.kinds
    loadstone("clean", tmp_path / "run", "--yes", environment=environment)
    there = f"SELECT name FROM system.databases WHERE name = '{name}'"
    assert [str(name) for (name,) in client.query(there).result_rows] == [name]
    client.command(f"DROP DATABASE `{name}`")
    finished = loadstone("run", file, "-o", tmp_path / "again", environment=environment)
    assert finished.code == 0, finished.err
    loadstone("clean", tmp_path / "again", "--yes", environment=environment)
    assert client.query(there).result_rows == []


def test_streams_on_a_server_are_clients_of_their_own(tmp_path: Path, server: str) -> None:
    (tmp_path / "disk").mkdir()
    asked = f"{{url: '{server}', password: {{env: CLICKHOUSE_PASSWORD}}}}"
    file = campaigns.write(
        tmp_path,
        f"name: flash\ntargets: {{disk: {{driver: file, path: {tmp_path / 'disk'}}}}}\n"
        f"queries: {{scale: 0.01, engine: {{clickhouse: {asked}}}, only: [1, 6], loops: 1, "
        f"streams: 3, cache: warm, data: {tmp_path / 'made'}}}\n",
    )
    environment = {"CLICKHOUSE_PASSWORD": PASSWORD}
    finished = loadstone("run", file, "-o", tmp_path / "run", environment=environment)
    assert finished.code == 0, finished.err
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    [runs] = document["queries"]["streams"]
    assert (runs["streams"], runs["right"], runs["asked"]) == (3, 6, 6)
    assert runs["read_bytes"] is None
    dry = ("run", file, "--dry-run", "--set", "queries.engine=clickhouse")
    (refused,) = loadstone(*ERRORS_AS_JSON, *dry).errors
    assert refused["kind"] == "target"
    for fact in ('"clickhouse"', "streams"):
        assert fact in refused["message"]
