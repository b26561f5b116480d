"""Apache Spark, on Parquet in files and (by S3A) in buckets.

Queries run on a given cluster, or on a master and a worker that this module starts. The resources
of a given cluster are on other hosts, so CPU time comes from the counters of its tasks.
"""

import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadstone.engines.engine import Bucket, EngineUse, GoneError, Row, SparkOptions, Tables
from loadstone.engines.messages import end_with_parent
from loadstone.errors import InputError

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
    """A Spark application."""

    has_processes = True

    def __init__(self, options: SparkOptions) -> None:
        """Store where Spark runs, additional libraries, and Spark's own settings."""
        self._options = options
        self._session: Any = None
        self._cluster: Cluster | None = None
        self._cpu_ns = 0

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Open each table; the first call also starts the application."""
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
            memory = memory_bytes or EXECUTOR_MEMORY
            cores = threads or len(os.sched_getaffinity(0))
            self._cluster = Cluster(scratch, cores, memory)
            settings |= {"spark.master": self._cluster.master, **self._cluster.settings}
        settings |= self._options.conf
        self._session = _start(scratch, settings, on_loopback=self._cluster is not None)
        # Executors start with the first task, which must not delay a query.
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
            settings["spark.jars"] = ",".join(map(str, jars_in(options.jars)))
        if options.packages:
            settings["spark.jars.packages"] = ",".join(options.packages)
        return settings

    def load(self, tables: Tables, source: str) -> None:
        """Do nothing: tables stay Parquet."""
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        """Run a query and fetch all rows."""
        try:
            rows: list[Row] = self._session.sql(query).collect()
        except Exception as error:
            if self._is_gone():
                raise GoneError(f"Spark has ended: {error}") from error
            raise
        return rows

    def _is_gone(self) -> bool:
        """Tell whether the application, or Java itself, has ended."""
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
        """Return the resources that the tasks of a given cluster used since the last call.

        Bytes read are left out: Spark's own count omits the reads of libraries in their own
        threads, which is most of a Parquet file.
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
        """Stop the application, and the cluster that was started for it."""
        if self._session is not None:
            self._session.stop()
        if self._cluster is not None:
            self._cluster.close()


def _start(scratch: Path, settings: Mapping[str, str], *, on_loopback: bool) -> Any:
    """Start Java with its settings in a file, as every user can read its command line."""
    write_properties(scratch / "spark-defaults.conf", settings)
    (scratch / "log4j2.properties").write_text(_QUIET, encoding="utf-8")
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ["SPARK_CONF_DIR"] = str(scratch)
    os.environ["SPARK_SUBMIT_OPTS"] = temporary_in(scratch)
    if on_loopback:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
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
    settings = {
        "endpoint": bucket.endpoint,
        "endpoint.region": bucket.region,
        "path.style.access": "true",
        "connection.ssl.enabled": str(not bucket.is_plain).lower(),
        # S3A's default would cache whole files in memory from one query to the next.
        "input.stream.type": "classic",
        "aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}",
        **keys,
    }
    return {f"fs.s3a.bucket.{bucket.name}.{name}": value for name, value in settings.items()}


JAVA_LEAST = 17
LOOPBACK = "127.0.0.1"
START_MAX_S = 180
REACH_MAX_S = 5
SAID_MAX = 600
EXECUTOR_MEMORY = 1 << 30
"""Spark's own default for an executor."""
_DAEMON = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Master and worker only manage executors, which have Java settings of their own."""


# Without a given cluster, a master and a worker are started on loopback; they end with this
# process, however it ends.
def check(options: SparkOptions, *, reads_buckets: bool) -> None:
    """Raise InputError for missing requirements of Spark."""
    java = find_java()
    if java is None:
        raise InputError(
            f"Spark needs Java {JAVA_LEAST} or later, and none was found",
            "apt install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    version = _ask_version(java)
    if version is None or version < JAVA_LEAST:
        version_words = "no version" if version is None else f"Java {version}"
        raise InputError(
            f'Spark needs Java {JAVA_LEAST} or later; "{java}" is {version_words}',
            "install a later one, or set JAVA_HOME to it",
        )
    jars = _jars(options.jars)
    if reads_buckets:
        _check_buckets(jars, options.packages)
    if options.master:
        _check_master(options.master)


def find_java() -> Path | None:
    """Return the path of java: from JAVA_HOME, or from PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(java) if java and os.access(java, os.X_OK) else None


def _ask_version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def spark_home() -> Path:
    """Return the folder of the pyspark package, which contains a whole Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "looked for before"
    return Path(str(spec.origin)).parent


def hadoop_version() -> str:
    """Return the version of Hadoop that this Spark was built with; hadoop-aws must be the same."""
    for path in (spark_home() / "jars").glob("hadoop-client-api-*.jar"):
        return path.stem.removeprefix("hadoop-client-api-")
    return "unknown"


def _jars(folder: str | None) -> list[Path]:
    if folder is None:
        return []
    jars = jars_in(folder)
    if not jars:
        raise InputError(
            f'"{folder}" has no .jar file',
            "spark.jars is a folder of this host with Java libraries",
        )
    return jars


def jars_in(folder: str) -> list[Path]:
    """Return the libraries in a folder."""
    return sorted(Path(folder).glob("*.jar"))


def _check_buckets(jars: list[Path], packages: Sequence[str]) -> None:
    names = [path.name for path in (*jars, *(spark_home() / "jars").glob("hadoop-aws-*.jar"))]
    given = [name.removesuffix(".jar").removeprefix("hadoop-aws-") for name in names
             if name.startswith("hadoop-aws-")]  # fmt: skip
    given += [package.rpartition(":")[2] for package in packages if ":hadoop-aws:" in package]
    wanted = hadoop_version()
    hint = (
        f"packages: [org.apache.hadoop:hadoop-aws:{wanted}], or jars: a folder with it and the "
        "AWS SDK that it needs"
    )
    if not given:
        raise InputError("Spark reads buckets by hadoop-aws, which is missing", hint)
    if wanted not in given:
        raise InputError(
            f"found hadoop-aws {given[0]}, allowed: {wanted}, the Hadoop of this Spark", hint
        )


def _check_master(url: str) -> None:
    for address in url.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_MAX_S).close()
        except OSError as error:
            failure = error
        else:
            return
    raise InputError(
        f"no Spark master answers at {url}: {failure}", "start it, or leave master out"
    )


class Cluster:
    """A master and a worker on loopback, which require the secret in `settings`."""

    def __init__(self, scratch: Path, cores: int, memory_bytes: int) -> None:
        """Start master and worker, and wait until the worker is registered."""
        self.settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
        }
        self._scratch = scratch
        self._processes: list[subprocess.Popen[bytes]] = []
        properties = scratch / "cluster.conf"
        write_properties(properties, {**self.settings, "spark.ui.killEnabled": "false"})
        options = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        options += ["--properties-file", str(properties)]
        deadline = time.monotonic() + START_MAX_S
        self.master = self._start("master.Master", options, r"at (spark://[0-9.]+:\d+)", deadline)
        # An executor waits forever if the worker offers less than it requests.
        offer = ["--cores", str(cores), "--memory", f"{-(-memory_bytes >> 20)}m"]
        offer += ["--work-dir", str(scratch / "work"), self.master]
        self._start("worker.Worker", [*options, *offer], r"registered with master (\S+)", deadline)

    def _start(self, name: str, words: list[str], sign: str, deadline: float) -> str:
        log = self._scratch / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={
                    **os.environ,
                    "SPARK_LOCAL_IP": LOOPBACK,
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": f"{_DAEMON} {temporary_in(self._scratch)}",
                },
                preexec_fn=end_with_parent,
            )
        self._processes.append(process)
        while time.monotonic() < deadline:
            text = log.read_text(errors="replace")
            match = re.search(sign, text)
            if match:
                return match[1]
            if process.poll() is not None:
                break
            time.sleep(0.05)
        self.close()
        raise RuntimeError(f"Spark's {name} did not start: {text.strip()[-SAID_MAX:]}")

    def close(self) -> None:
        """Stop both."""
        for process in self._processes:
            process.kill()
            process.wait()


def temporary_in(scratch: Path) -> str:
    """Return the option that puts Java's temporary files into a folder."""
    return f"-Djava.io.tmpdir={scratch}"


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Write settings to a file that only this user can read, unlike a command line."""
    lines = [f"{name} {_escaped(value)}\n" for name, value in values.items()]
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
