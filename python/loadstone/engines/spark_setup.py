"""What Spark needs before it starts: Java, its libraries for buckets, and a cluster to run on.

A cluster that is not given is made: a master and a worker on loopback, which end with the process
that started them, however that ends.
"""

import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadstone.engines.process.ending import end_with_parent
from loadstone.engines.settings import SparkOptions
from loadstone.errors import InputError

JAVA_LEAST = 17
LOOPBACK = "127.0.0.1"
START_MAX_S = 180
REACH_MAX_S = 5
SAID_MAX = 600
EXECUTOR_MEMORY = 1 << 30
"""Spark's own default for an executor."""
_DAEMON = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Master and worker only keep accounts; what runs queries has Java's own settings."""


def check(options: SparkOptions, *, reads_buckets: bool) -> None:
    """Raise InputError for what is missing before Spark can start."""
    java = find_java()
    if java is None:
        raise InputError(
            f"Spark needs Java {JAVA_LEAST} or later, and none was found",
            "apt install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    told = _ask_version(java)
    if told is None or told < JAVA_LEAST:
        found = "no version" if told is None else f"Java {told}"
        raise InputError(
            f'Spark needs Java {JAVA_LEAST} or later; "{java}" is {found}',
            "install a later one, or set JAVA_HOME to it",
        )
    jars = _jars(options.jars)
    if reads_buckets:
        _check_buckets(jars, options.packages)
    if options.master:
        _check_master(options.master)


def find_java() -> Path | None:
    """Return the program java: that of JAVA_HOME, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found) if found and os.access(found, os.X_OK) else None


def _ask_version(java: Path) -> int | None:
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def spark_home() -> Path:
    """Return the folder of the package, which is a whole Spark."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None, "looked for before"
    return Path(str(found.origin)).parent


def hadoop_version() -> str:
    """Return the version of Hadoop that this Spark was built with; hadoop-aws must be the same."""
    for path in (spark_home() / "jars").glob("hadoop-client-api-*.jar"):
        return path.stem.removeprefix("hadoop-client-api-")
    return "unknown"


def _jars(folder: str | None) -> list[Path]:
    if folder is None:
        return []
    found = jars_in(folder)
    if not found:
        raise InputError(
            f'"{folder}" has no .jar file',
            "spark.jars is a folder of this host with Java libraries",
        )
    return found


def jars_in(folder: str) -> list[Path]:
    """Return the libraries of a folder."""
    return sorted(Path(folder).glob("*.jar"))


def _check_buckets(jars: list[Path], packages: Sequence[str]) -> None:
    own = [path.name for path in (*jars, *(spark_home() / "jars").glob("hadoop-aws-*.jar"))]
    given = [name.removesuffix(".jar").removeprefix("hadoop-aws-") for name in own
             if name.startswith("hadoop-aws-")]  # fmt: skip
    given += [one.rpartition(":")[2] for one in packages if ":hadoop-aws:" in one]
    wanted = hadoop_version()
    hint = (
        f"packages: [org.apache.hadoop:hadoop-aws:{wanted}], or jars: a folder with it and the "
        "AWS SDK that it needs"
    )
    if not given:
        raise InputError("Spark reads buckets by hadoop-aws, which is not given", hint)
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
            said = error
        else:
            return
    raise InputError(f"no Spark master answers at {url}: {said}", "start it, or leave master out")


class Cluster:
    """A master and a worker on loopback. Only who knows the secret of `settings` may use it."""

    def __init__(self, scratch: Path, cores: int, memory_bytes: int) -> None:
        """Start both, and wait until the worker is the master's."""
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
        own = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        own += ["--properties-file", str(properties)]
        deadline = time.monotonic() + START_MAX_S
        self.master = self._start("master.Master", own, r"at (spark://[0-9.]+:\d+)", deadline)
        # A worker that offers less than an executor asks for lets it wait for ever.
        offer = ["--cores", str(cores), "--memory", f"{-(-memory_bytes >> 20)}m"]
        offer += ["--work-dir", str(scratch / "work"), self.master]
        self._start("worker.Worker", [*own, *offer], r"registered with master (\S+)", deadline)

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
            said = log.read_text(errors="replace")
            found = re.search(sign, said)
            if found:
                return found[1]
            if process.poll() is not None:
                break
            time.sleep(0.05)
        self.close()
        raise RuntimeError(f"Spark's {name} did not start: {said.strip()[-SAID_MAX:]}")

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.kill()
            process.wait()


def temporary_in(scratch: Path) -> str:
    """Return what has Java put temporary files where they are removed with the process."""
    return f"-Djava.io.tmpdir={scratch}"


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Write settings where only this user reads them: on a command line, all users do."""
    lines = [f"{name} {_escaped(value)}\n" for name, value in values.items()]
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
