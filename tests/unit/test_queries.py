"""Campaigns of queries: parsing, plans, comparison of answers, judgements."""

import datetime
import decimal
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.kinds import CHECK, LOAD, QUERY, STREAMS
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.remains import remains
from loadstone.campaign.resume import resume
from loadstone.campaign.schema.queries import QUERY_NAMES, Queries
from loadstone.engines import ENGINES, entry_of, load_engine, settings_of, spark_engine
from loadstone.engines.answers import (
    answer_file,
    difference,
    like,
    plain_answer,
    read_answer_file,
)
from loadstone.engines.engine import SparkOptions
from loadstone.engines.tables import TABLES, Mark, TableFile, is_ours, read_mark, text_of
from loadstone.errors import CampaignError, InputError, TargetError
from tests.unit.campaign_drivers import DRIVERS

CAMPAIGN = """
name: flash
targets: {ssd: {driver: file, path: /mnt/ssd}, ceph: {driver: file, path: /mnt/ceph}}
queries: {scale: 0.01, engine: [duckdb, datafusion], only: [1, Q06], loops: 3, cache: both}
"""


def planned(text: str = CAMPAIGN) -> Plan:
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def refused(text: str) -> str:
    with pytest.raises(CampaignError) as caught:
        planned(text)
    return str(caught.value)


def test_every_combination_is_run_in_every_loop() -> None:
    plan = planned()
    phases = [trial.phase for trial in plan.trials]
    assert phases[:4] == [LOAD, LOAD, CHECK, CHECK]
    assert phases[-2:] == ["clean-up", "clean-up"]
    asked = [trial.document for trial in plan.trials if trial.phase == QUERY]
    cases = [str((document["case"], document["block"])) for document in asked]
    assert len(set(cases)) == len(cases) == 2 * 2 * 2 * 2 * 3
    assert [document["measured"] for document in asked] == [True] * len(asked)
    blocks = [document["block"] for document in asked]
    assert blocks == sorted(blocks)
    orders = [
        [str(document["case"]) for document in asked if document["block"] == block]
        for block in (1, 2)
    ]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)


def test_each_stream_has_an_order_of_its_own_in_every_loop_the_same() -> None:
    plan = planned(CAMPAIGN.replace("only: [1, Q06], loops: 3", "streams: [1, 3], loops: 2"))
    phases = {trial.phase for trial in plan.trials}
    assert QUERY not in phases
    asked = [trial.document for trial in plan.trials if trial.phase == STREAMS]
    assert len(asked) == 2 * 2 * 2 * 2 * 2
    assert {document["measured"] for document in asked} == {True}
    by_count = {
        count: [
            document["queries"]["streams"]
            for document in asked
            if document["case"]["parameters"]["streams"] == count
        ]
        for count in (1, 3)
    }
    for count, all_orders in by_count.items():
        first = all_orders[0]
        assert first is not None
        assert all(orders == first for orders in all_orders), "an order is a stream's, not a run's"
        assert len(first) == count
        assert all(sorted(order) == list(QUERY_NAMES) for order in first)
        assert len({tuple(order) for order in first}) == count
    assert {document["stop"]["requests"] for document in asked} == {22, 66}


def test_rounds_go_through_the_queries_of_one_target_after_another() -> None:
    plan = planned(CAMPAIGN.replace("cache: both", "cache: warm, order: rounds"))
    asked = [trial.document["case"] for trial in plan.trials if trial.phase == QUERY][:8]
    assert [case["target"] for case in asked] == ["ssd"] * 4 + ["ceph"] * 4
    assert [case["parameters"]["query"] for case in asked[:4]] == ["Q01", "Q06"] * 2


def test_one_engine_alone_reads_its_own_format() -> None:
    storage = "storage: {format: mergetree, partitions: 16}"
    text = CAMPAIGN.replace("[duckdb, datafusion]", f"[clickhouse, duckdb], {storage}")
    formats = {
        trial.document["queries"]["engine"]: trial.document["queries"]["storage"]
        for trial in planned(text).trials
        if trial.phase == QUERY
    }
    assert formats == {"clickhouse": "mergetree", "duckdb": "parquet"}


def test_kept_tables_have_a_name_that_another_run_finds() -> None:
    places = {
        trial.document["queries"]["place"] for trial in planned(CAMPAIGN + "keep_data: true").trials
    }
    assert places == {"loadstone-tpch-0-01-parquet-1"}
    plan = planned()
    assert {trial.document["queries"]["place"][-8:] for trial in plan.trials} == {plan.run[:8]}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (("scale: 0.01", "scale: 0"), "queries.scale"),
        (("[1, Q06]", "[23]"), "queries.only"),
        (("[1, Q06]", "[1, Q01]"), "queries.only"),
        (("[duckdb, datafusion]", "[duckdb, duckdb]"), "queries.engine"),
        (("driver: file, path: /mnt/ceph", 'driver: "null"'), "targets.ceph.driver"),
        (("loops: 3", "loops: 100000"), "queries.loops"),
        (("name: flash", "name: flash\nload: {threads: 2}"), "load"),
        (("cache: both", "cache: lukewarm"), "queries.cache"),
        (("loops: 3", "streams: [2, 2]"), "queries.streams.1"),
        (("loops: 3", "streams: 100000000"), "queries.streams"),
        (("[duckdb, datafusion]", "{spark: {master: localhost}}"), "queries.engine.0.spark.master"),
        (("[duckdb, datafusion]", "{spark: {wings: 2}}"), "queries.engine.0.spark.wings"),
        (("[duckdb, datafusion]", "[{spark: {}}, spark]"), "queries.engine.1"),
        (("[duckdb, datafusion]", "{clickhouse: {}}"), "queries.engine.0.clickhouse.url"),
        (
            ("[duckdb, datafusion]", "{clickhouse: {url: 'http://me:x@h:1'}}"),
            "queries.engine.0.clickhouse.url",
        ),
        (
            ("[duckdb, datafusion]", "{clickhouse: {url: 'http://h:1', policies: {a: b}}}"),
            "queries.engine.0.clickhouse.policies.a",
        ),
        (("[duckdb, datafusion]", "{spark: null}"), "queries.engine.0.spark"),
        (("[duckdb, datafusion]", "{duckdb: {}}"), "queries.engine.0.duckdb"),
        (("[duckdb, datafusion]", "[4]"), "queries.engine.0"),
    ],
)
def test_mistakes_name_their_key(change: tuple[str, str], key: str) -> None:
    assert f" {key}" in refused(CAMPAIGN.replace(*change))


def test_an_engine_has_settings_and_a_name_of_its_own() -> None:
    settings = "{master: 'spark://m:7077', conf: {spark.x: 2, spark.y: true}}"
    engines = f"[{{spark: {settings}}}, {{spark: {{name: small}}}}, duckdb]"
    text = CAMPAIGN.replace("[duckdb, datafusion]", engines)
    asked = [trial.document for trial in planned(text).trials if trial.phase == QUERY]
    engine_of = {
        document["case"]["parameters"]["engine"]: (
            document["queries"]["engine"],
            document["queries"]["settings"],
        )
        for document in asked
    }
    spark_settings = {"master": "spark://m:7077", "conf": {"spark.x": "2", "spark.y": "true"}}
    assert engine_of == {
        "spark": ("spark", spark_settings),
        "small": ("spark", {}),
        "duckdb": ("duckdb", {}),
    }
    queries = parse_campaign(text, drivers=DRIVERS, environ={}).queries
    assert queries is not None
    assert Queries.model_validate(queries.model_dump(mode="json", by_alias=True)) == queries


def test_a_server_has_the_tables_of_each_target_in_a_place_of_its_own() -> None:
    asked = "[{clickhouse: {url: 'http://h:8123', policies: {ceph: slow}}}, duckdb]"
    plan = planned(CAMPAIGN.replace("[duckdb, datafusion]", asked))
    loads = [trial.document["queries"] for trial in plan.trials if trial.phase == LOAD]
    assert [(query["storage"], query["engine"]) for query in loads] == [
        ("server", "clickhouse_server"), ("parquet", None),
    ] * 2  # fmt: skip
    assert [query["settings"].get("policy") for query in loads] == [None, None, "slow", None]
    assert len({query["place"] for query in loads if query["storage"] == "server"}) == 2
    again = [trial.document["queries"]["place"] for trial in plan.trials if trial.phase == QUERY]
    assert set(again) == {query["place"] for query in loads}
    checked = {trial.document["queries"]["engine"] for trial in plan.trials if trial.phase == CHECK}
    assert checked == {"duckdb"}


def test_a_secret_of_an_engine_stands_in_no_campaign() -> None:
    message = refused(
        CAMPAIGN.replace("duckdb,", "{spark: {conf: {spark.ssl.keyPassword: abc1}}},")
    )
    assert "a reference" in message
    assert "abc1" not in message


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with Java 17 and a Spark of Hadoop 3.5.0, as far as is looked for."""
    home = tmp_path / "pyspark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "hadoop-client-api-3.5.0.jar").touch()
    monkeypatch.setattr(spark_engine, "spark_home", lambda: home)
    java(tmp_path, monkeypatch, "17.0.1")
    return tmp_path


def java(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    program = folder / version / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder / version))


def test_spark_says_what_it_lacks(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_engine.check(SparkOptions(), reads_buckets=False)

    def refused(options: SparkOptions, *, buckets: bool = True) -> str:
        with pytest.raises(InputError) as caught:
            spark_engine.check(options, reads_buckets=buckets)
        assert caught.value.hint
        return caught.value.message

    assert "hadoop-aws" in refused(SparkOptions())
    jars = spark / "jars"
    jars.mkdir()
    assert "no .jar" in refused(SparkOptions(jars=str(jars)))
    (jars / "hadoop-aws-3.4.1.jar").touch()
    assert "hadoop-aws 3.4.1, allowed: 3.5.0" in refused(SparkOptions(jars=str(jars)))
    (jars / "hadoop-aws-3.5.0.jar").touch()
    spark_engine.check(SparkOptions(jars=str(jars)), reads_buckets=True)
    package = "org.apache.hadoop:hadoop-aws:3.5.0"
    spark_engine.check(SparkOptions(packages=[package]), reads_buckets=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{server.getsockname()[1]}"
        spark_engine.check(SparkOptions(master=url), reads_buckets=False)
    assert url in refused(SparkOptions(master=url), buckets=False)
    java(spark, monkeypatch, "1.8.0_402")
    assert "is Java 8" in refused(SparkOptions(), buckets=False)
    monkeypatch.setenv("JAVA_HOME", str(spark / "nowhere"))
    assert "none" in refused(SparkOptions(), buckets=False)


def test_settings_of_spark_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "conf"
    spark_engine.write_properties(file, {"spark.a": "C:\\x", "spark.b": "one\ntwo"})
    assert file.read_text() == "spark.a C:\\\\x\nspark.b one\\ntwo\n"
    assert file.stat().st_mode & 0o077 == 0


def test_a_run_goes_on_to_the_query() -> None:
    plan = planned()
    done = {trial.id for trial in plan.trials[:20]}
    assert [trial.id for trial in resume(plan, done).trials] == [
        trial.id for trial in plan.trials[20:]
    ]


def test_tables_that_a_run_loaded_are_left_until_it_removes_them() -> None:
    plan = [trial.document for trial in planned().trials]
    loads = [document["id"] for document in plan if document["phase"] == LOAD]
    cleaned = [document["id"] for document in plan if document["phase"] == "clean-up"]
    begun: dict[str, Mapping[str, Any]] = {name: {} for name in loads}
    assert [remain.target for remain in remains(plan, begun, DRIVERS)] == ["ssd", "ceph"]
    begun[cleaned[0]] = {"state": "finished", "failed": 0, "places_left": []}
    assert [remain.target for remain in remains(plan, begun, DRIVERS)] == ["ceph"]
    begun[loads[1]] = {"state": "finished", "data": {"was_there": True}}
    assert remains(plan, begun, DRIVERS) == []


def test_every_query_has_a_text_and_one_a_constant_of_its_scale() -> None:
    texts = [text_of(query, 1) for query in QUERY_NAMES]
    assert len(set(texts)) == len(QUERY_NAMES) == 22
    assert not [text for text in texts if text.endswith(";")]
    assert "0.000001000000" in text_of("Q11", 100)
    assert {name for name in TABLES if any(name in text for text in texts)} == set(TABLES)


def test_answers_agree_within_what_engines_round() -> None:
    day = datetime.date(1995, 3, 1)
    first = plain_answer([("A ", decimal.Decimal("10.50"), day, 1e12), (None, 2, day, 3.0)])
    two = plain_answer(
        [("A", 10.509, datetime.datetime(1995, 3, 1), 1e12 + 1e5), (None, 2, day, 3)]
    )
    assert difference(first, two) is None
    assert difference(first[::-1], two) is None, "ties may come in any order"
    for wrong in (first[:1], [[*first[0], 1], first[1]], [["A", 10.52, *first[0][2:]], first[1]]):
        assert difference(plain_answer(wrong), two) is not None
    wrong = str(difference([["x", 1]], [["y", 1]]))
    assert re.findall(r"\d+", wrong) == ["1", "1"]
    assert ": 'x'" in wrong
    assert wrong.endswith("'y'")
    assert difference([[True]], [[1.0]]) is None


FILE = """\
c|name      |sum        |day
13|Cust |  1234.50|1995-03-01
A |B     |                   |1995-03-02
"""


def test_an_answer_of_a_file_has_numbers_where_the_engine_has_them(tmp_path: Path) -> None:
    (tmp_path / "q1.out").write_text(FILE)
    (tmp_path / "q02.out").write_text("a|b\n1\n")
    rows = read_answer_file(answer_file(tmp_path, "Q01"))
    answer = [["13", "Cust", 1234.504, "1995-03-01"], ["A", "B", None, "1995-03-02"]]
    assert difference(answer, like(rows, answer)) is None
    assert difference(answer[::-1], like(rows, answer[::-1])) is None
    for column, value in ((0, "14"), (2, 1234.6), (2, None), (3, "1995-03-03")):
        wrong = [[*answer[0][:column], value, *answer[0][column + 1 :]], answer[1]]
        assert difference(wrong, like(rows, wrong)) is not None
    assert difference(answer[:1], like(rows, answer)) == "1 rows, expected 2"
    with pytest.raises(InputError, match=r"q02\.out.*columns"):
        read_answer_file(answer_file(tmp_path, "Q02"))
    with pytest.raises(InputError, match=r"Q22: .* q22\.out"):
        answer_file(tmp_path, "Q22")


def test_answers_of_files_need_no_engine() -> None:
    plan = planned(CAMPAIGN.replace("loops: 3", "loops: 1, answers: ./answers"))
    assert CHECK not in {trial.phase for trial in plan.trials}
    queries = [trial.document["queries"] for trial in plan.trials]
    assert {(query["answers"], query["answer_files"]) for query in queries} == {(None, "./answers")}
    assert " queries.answers" in refused(CAMPAIGN.replace("loops: 3", "answers: Duck DB"))


def test_a_mark_that_names_what_is_not_ours_is_refused() -> None:
    files = (TableFile(table="nation", name="nation.parquet", size_bytes=1, sha256="0"),)
    mark = Mark(
        run="r", benchmark="tpch", scale=1, format="parquet", partitions=1, is_complete=True,
        files=files,
    )  # fmt: skip
    assert read_mark(mark.text(), "here") == mark
    for name in ("../nation.parquet", "/etc/passwd", "nation/../../x", "other.parquet"):
        assert not is_ours(name)
        with pytest.raises(TargetError, match="outside"):
            read_mark(mark.text().replace("nation.parquet", name), "here")
    for text in ("", "[]", "{}", '{"loadstone_data": 2}', mark.text()[:-9]):
        with pytest.raises(TargetError, match="read"):
            read_mark(text, "here")


def test_an_engine_that_is_not_there_names_its_extra() -> None:
    with pytest.raises(InputError, match=r"allowed: .*datafusion, duckdb"):
        entry_of("oracle")
    for name in ENGINES:
        try:
            load_engine(name, settings_of(name, {"url": "http://127.0.0.1:1"}))
        except InputError as error:
            assert f"loadstone[{ENGINES[name].extra}]" in str(error.hint)
