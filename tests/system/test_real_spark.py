"""Spark, on a cluster of loadstone's own and on one that is given: files, buckets, and its end."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.engines import spark_engine
from tests.system import campaigns
from tests.system.command import assert_secret_absent, loadstone
from tests.system.servers.install import SPARK_JARS

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None or shutil.which("java") is None,
        reason="no Spark here: python -m tests.system.servers install spark",
    ),
    pytest.mark.xdist_group("spark"),
]

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
CONF = (
    f"spark.sql.shuffle.partitions: 2, spark.driver.extraJavaOptions: '{QUICK}', "
    f"spark.executor.extraJavaOptions: '{QUICK}'"
)
SECRET = "a-secret-of-spark-tests"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "tables"


def of_spark() -> list[str]:
    """Name the processes of Spark that are on this host."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if "org.apache.spark" in line:
            lines.append(line)
    return lines


def on_files(folder: Path, queries: str) -> Path:
    """Write a campaign of queries on files below a folder."""
    (folder / "data").mkdir()
    return campaigns.write(
        folder,
        f"name: spark\ntargets: {{disk: {{driver: file, path: {folder / 'data'}}}}}\n"
        f"queries: {{scale: 0.01, {queries}}}\n",
    )


@pytest.fixture
def bucket() -> Iterator[tuple[str, dict[str, str]]]:
    keys = {"LOADSTONE_ACCESS_KEY": "me", "LOADSTONE_SECRET_KEY": SECRET}
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", "serve", "--port", "0"],
        env={**os.environ, **keys},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield str(re.search(r"http://[0-9.:]+", server.stdout.readline())[0]), keys  # type: ignore[index]
        finally:
            server.terminate()


@pytest.mark.skipif(not SPARK_JARS.is_dir(), reason="no hadoop-aws here: install spark")
def test_a_cluster_of_its_own_reads_a_bucket_and_ends(
    tmp_path: Path, made: Path, bucket: tuple[str, dict[str, str]]
) -> None:
    url, keys = bucket
    before = of_spark()
    file = campaigns.write(
        tmp_path,
        f"name: spark\ntargets: {{s3: {{driver: s3, endpoint: '{url}', access_key: me, "
        "secret_key: {env: LOADSTONE_SECRET_KEY}}}\n"
        f"queries: {{scale: 0.01, engine: {{spark: {{jars: {SPARK_JARS}, conf: {{{CONF}}}}}}}, "
        f"only: [1, 6], loops: 1, data: {made}}}\n",
    )
    finished = loadstone("run", file, "--allow-commands", "-o", tmp_path / "run", environment=keys)
    assert finished.code == 0, finished.err
    # Processes of an earlier test may have ended meanwhile.
    assert set(of_spark()) <= set(before)
    assert_secret_absent(SECRET, finished, tmp_path / "run")
    [arm] = loadstone("report", tmp_path / "run", "-f", "json").json()["queries"]["arms"]
    assert (arm["engine"], arm["right"]) == ("spark", 2)
    assert all(query["read_bytes"] > 200_000 and query["cpu_s"] > 0 for query in arm["queries"])


def test_a_given_cluster_reads_files(tmp_path: Path, made: Path) -> None:
    """The cluster is one of this host, which only the secret of `conf` lets in."""
    (tmp_path / "cluster").mkdir()
    cluster = spark_engine.Cluster(tmp_path / "cluster", 2, 1 << 30)
    try:
        open_settings = {
            name: value for name, value in cluster.settings.items() if "secret" not in name
        }
        lines = ", ".join(f"{name}: {value}" for name, value in open_settings.items())
        conf = f"{lines}, spark.authenticate.secret: {{env: CLUSTER_SECRET}}, {CONF}"
        file = on_files(
            tmp_path,
            f"engine: {{spark: {{master: '{cluster.master}', "
            f"conf: {{{conf}}}}}}}, only: [1, 6], loops: 1, data: {made}",
        )
        secret = cluster.settings["spark.authenticate.secret"]
        environment = {"CLUSTER_SECRET": secret}
        finished = loadstone(
            "run", file, "--allow-commands", "-o", tmp_path / "run", environment=environment
        )
        assert finished.code == 0, finished.err
    finally:
        cluster.close()
    assert_secret_absent(secret, finished, tmp_path / "run")
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    [arm] = document["queries"]["arms"]
    assert arm["right"] == 2
    assert all(query["read_bytes"] is None and query["cpu_s"] > 0 for query in arm["queries"])
    [not_proven] = [
        finding for finding in document["findings"] if finding["rule"] == "cold-not-proven"
    ]
    assert "2 of 2" in not_proven["statement"]


KILLS_IN_Q06 = """
import os
from pathlib import Path
from loadstone.engines.spark_engine import Spark
run = Spark.run
def killed(self, query):
    if "l_extendedprice * l_discount" in query:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                is_meant = b"NAME" in (path / "cmdline").read_bytes()
                if is_meant and os.getsid(int(path.name)) == os.getsid(0):
                    os.kill(int(path.name), 9)
            except OSError:
                continue
    return run(self, query)
Spark.run = killed
"""


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("deploy.SparkSubmit", {"Q01": 1, "Q06": 0, "Q14": 1}),
        # Spark itself starts another executor, and needs no master once it has one.
        pytest.param(
            "CoarseGrainedExecutorBackend",
            {"Q01": 1, "Q06": 1, "Q14": 1},
            marks=pytest.mark.long(cpu_s=30),
        ),
        pytest.param(
            "deploy.master.Master",
            {"Q01": 1, "Q06": 1, "Q14": 1},
            marks=pytest.mark.long(cpu_s=30),
        ),
    ],
)
def test_a_kill_during_a_query_costs_at_most_that_query(
    tmp_path: Path, made: Path, name: str, right: dict[str, int]
) -> None:
    before = of_spark()
    (tmp_path / "sitecustomize.py").write_text(KILLS_IN_Q06.replace("NAME", name))
    file = on_files(
        tmp_path,
        f"engine: {{spark: {{conf: {{{CONF}}}}}}}, only: [1, 6, 14], "
        f"loops: 1, order: rounds, data: {made}",
    )
    finished = loadstone(
        "run",
        file,
        "--allow-commands",
        "-o",
        tmp_path / "run",
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert finished.code == (0 if all(right.values()) else 1), finished.err
    assert set(of_spark()) <= set(before)
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    [arm] = document["queries"]["arms"]
    assert {query["query"]: len(query["seconds"]) for query in arm["queries"]} == right
    failed = [query["failures"] for query in arm["queries"] if query["failures"]]
    assert failed == ([] if all(right.values()) else [{"engine_died": 1}])


@pytest.mark.long(cpu_s=25)
def test_streams_share_one_application(tmp_path: Path, made: Path) -> None:
    file = on_files(
        tmp_path,
        f"engine: {{spark: {{conf: {{{CONF}}}}}}}, only: [1, 6, 14], "
        f"loops: 1, streams: 2, data: {made}",
    )
    finished = loadstone("run", file, "--allow-commands", "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    [runs] = loadstone("report", tmp_path / "run", "-f", "json").json()["queries"]["streams"]
    assert (runs["streams"], runs["right"], runs["asked"]) == (2, 6, 6)
    assert runs["queries_per_hour"] > 0
    assert runs["read_bytes"] > 100_000


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_cluster_outlives_its_run(tmp_path: Path, made: Path, end: int) -> None:
    before = of_spark()
    file = on_files(
        tmp_path,
        f"engine: spark, only: [6], answers: null, data: {made}",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", "run", file, "-o", tmp_path / "run"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        while run.poll() is None and not any(
            "deploy.master.Master" in line for line in set(of_spark()) - set(before)
        ):
            time.sleep(0.1)
        assert run.poll() is None, "it ended before it had a cluster"
        run.send_signal(end)
        run.wait()
    # The kernel ends the processes, one after the other.
    while set(of_spark()) - set(before):
        time.sleep(0.1)


@pytest.mark.long(cpu_s=200)
def test_all_answers_are_right(tmp_path: Path, made: Path) -> None:
    file = on_files(
        tmp_path,
        f"engine: {{spark: {{conf: {{{CONF}}}}}}}, loops: 1, data: {made}",
    )
    finished = loadstone("run", file, "--allow-commands", "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    [arm] = loadstone("report", tmp_path / "run", "-f", "json").json()["queries"]["arms"]
    assert (arm["engine"], arm["right"]) == ("spark", 22)
