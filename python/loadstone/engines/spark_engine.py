"""Apache Spark, on Parquet in files and (by S3A) in buckets.

Its queries run on a cluster that is given, or on a master and a worker of its own. What a given
cluster uses is on other hosts, so its tasks' own account of CPU time is taken.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone.engines import spark_setup
from loadstone.engines.engine import Bucket, EngineUse, GoneError, Row, Tables
from loadstone.engines.settings import SparkOptions

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex{2}
"""


class Spark:
    """One application of Spark."""

    has_processes = True

    def __init__(self, options: SparkOptions) -> None:
        """Take where it runs, libraries for it, and settings of Spark's own."""
        self._options = options
        self._session: Any = None
        self._cluster: spark_setup.Cluster | None = None
        self._cpu_ns = 0

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Make each table known, after the application was started by the first call."""
        if self._session is None:
            self._begin(threads, memory_bytes)
        if tables.bucket is not None:
            hadoop = self._session.sparkContext._jsc.hadoopConfiguration()
            for name, value in _bucket_settings(tables.bucket).items():
                hadoop.set(name, value)
        for name in tables.files:
            self._session.read.parquet(*_paths(tables, name)).createOrReplaceTempView(name)
        self._cpu_ns = self._task_cpu_ns()
        return str(self._session.version)

    def _begin(self, threads: int | None, memory_bytes: int | None) -> None:
        scratch = Path(tempfile.mkdtemp(prefix="spark-"))
        settings = self._settings(scratch, threads, memory_bytes)
        if self._options.master is None:
            memory = memory_bytes or spark_setup.EXECUTOR_MEMORY
            cores = threads or len(os.sched_getaffinity(0))
            self._cluster = spark_setup.Cluster(scratch, cores, memory)
            settings |= {"spark.master": self._cluster.master, **self._cluster.settings}
        settings |= self._options.conf
        self._session = _start(scratch, settings, on_loopback=self._cluster is not None)
        # Executors start with the first task, which no query should wait for.
        self._session.range(1).collect()

    def _settings(
        self, scratch: Path, threads: int | None, memory_bytes: int | None
    ) -> dict[str, str]:
        settings = {
            "spark.app.name": "loadstone",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.mode": "FAIR",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
        options = self._options
        if options.master is None:
            settings["spark.local.dir"] = str(scratch)
        else:
            settings["spark.master"] = options.master
        if threads is not None:
            settings["spark.cores.max"] = str(threads)
        if memory_bytes is not None:
            settings["spark.executor.memory"] = f"{memory_bytes >> 20}m"
        if options.jars is not None:
            settings["spark.jars"] = ",".join(map(str, spark_setup.jars_in(options.jars)))
        if options.packages:
            settings["spark.jars.packages"] = ",".join(options.packages)
        return settings

    def load(self, tables: Tables, source: str) -> None:
        """Nothing is kept in a format of its own."""
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        """Run a query to its last row."""
        try:
            rows: list[Row] = self._session.sql(query).collect()
        except Exception as error:
            if self._is_gone():
                raise GoneError(f"Spark has ended: {error}") from error
            raise
        return rows

    def _is_gone(self) -> bool:
        """Tell whether the application, or Java itself, ended beneath the session."""
        context = self._session.sparkContext
        java = context._gateway.proc
        if java is not None and java.poll() is not None:
            return True
        try:
            return bool(context._jsc.sc().isStopped())
        except Exception:  # Java no longer answers
            return True

    def beside(self) -> "Spark":
        """Return the session itself: jobs of several threads share its processors fairly."""
        return self

    def account(self) -> EngineUse | None:
        """Return what the tasks of a given cluster used since this was asked last.

        What they read is not told: Spark's own count leaves out what libraries read in threads of
        their own, which is most of a Parquet file.
        """
        if self._options.master is None:
            return None
        before, self._cpu_ns = self._cpu_ns, self._task_cpu_ns()
        return EngineUse(cpu_ns=self._cpu_ns - before)

    def _task_cpu_ns(self) -> int:
        context = self._session.sparkContext
        spark = context._jsc.sc()
        spark.listenerBus().waitUntilEmpty()
        java, store = context._gateway.jvm.java.util, spark.statusStore()
        quantiles = context._gateway.new_array(context._gateway.jvm.double, 0)
        stages = store.stageList(java.ArrayList(), False, False, quantiles, java.ArrayList())
        return sum(stages.apply(number).executorCpuTime() for number in range(stages.size()))

    def close(self) -> None:
        """Stop the application, and the cluster that was made for it."""
        if self._session is not None:
            self._session.stop()
        if self._cluster is not None:
            self._cluster.close()


def _start(scratch: Path, settings: Mapping[str, str], *, on_loopback: bool) -> Any:
    """Start Java with its settings in a file, as every user reads its command line."""
    spark_setup.write_properties(scratch / "spark-defaults.conf", settings)
    (scratch / "log4j2.properties").write_text(_QUIET, encoding="utf-8")
    os.environ["SPARK_HOME"] = str(spark_setup.spark_home())
    os.environ["SPARK_CONF_DIR"] = str(scratch)
    os.environ["SPARK_SUBMIT_OPTS"] = spark_setup.temporary_in(scratch)
    if on_loopback:
        os.environ["SPARK_LOCAL_IP"] = spark_setup.LOOPBACK
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _paths(tables: Tables, name: str) -> list[str]:
    if tables.bucket is not None:
        return [f"s3a://{url.partition('://')[2]}" for url in tables.urls(name)]
    return [Path(path).absolute().as_uri() for path in tables.paths(name)]


def _bucket_settings(bucket: Bucket) -> dict[str, str]:
    provider = "SimpleAWSCredentialsProvider"
    keys = {"access.key": bucket.access_key, "secret.key": bucket.secret_key}
    if bucket.session_token:
        provider = "TemporaryAWSCredentialsProvider"
        keys["session.token"] = bucket.session_token
    own = {
        "endpoint": bucket.endpoint,
        "endpoint.region": bucket.region,
        "path.style.access": "true",
        "connection.ssl.enabled": str(not bucket.is_plain).lower(),
        # S3A's own default keeps whole files in memory from one query to the next.
        "input.stream.type": "classic",
        "aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}",
        **keys,
    }
    return {f"fs.s3a.bucket.{bucket.name}.{name}": value for name, value in own.items()}
