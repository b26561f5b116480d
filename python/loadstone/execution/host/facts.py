"""Facts about the machine that makes the load, gathered once for the manifest."""

import hashlib
import os
import platform
import re
import resource
import socket
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from loadstone import _loadgen
from loadstone.documents.manifest import HostFacts
from loadstone.probes.cgroup import own_folder
from loadstone.probes.proc import AbsentError

NETWORK = Path("/sys/class/net")
BLOCK = Path("/sys/block")
CPU = Path("/sys/devices/system/cpu")
SYSCTLS = (
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_congestion_control",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "vm.dirty_ratio",
    "fs.file-max",
)
KERNEL_OPTIONS = (
    "mitigations",
    "isolcpus",
    "nohz",
    "idle",
    "intel_idle",
    "intel_pstate",
    "amd_pstate",
    "processor.",
    "cpufreq",
    "cpuidle",
    "transparent_hugepage",
    "hugepages",
    "iommu",
    "nosmt",
    "preempt",
    "psi",
    "tsc",
    "clocksource",
)
LIBRARIES = ("pyarrow", "numpy", "pydantic")


def versions() -> dict[str, str]:
    """Return the versions of the load generator, of Python and of its libraries."""
    numbers = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return numbers | {"load_generator": _build(), "load_generator_build": _kind_of_build()}


def _build() -> str:
    """Return 16 digits of the load generator's build id: two builds of one version differ.

    If the linker wrote none, the digits come from the file's SHA-256, which takes 50 ms.
    """
    assert _loadgen.__file__ is not None
    with open(_loadgen.__file__, "rb") as file:
        # An ELF note: the lengths of its name and of the id, its type (3), and the name.
        note = re.search(rb"\x04\0{3}\x14\0{3}\x03\0{3}GNU\0(.{20})", file.read(4096), re.DOTALL)
        if note is not None:
            return note[1].hex()[:16]
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _kind_of_build() -> str:
    return "release" if _loadgen.IS_RELEASE_BUILD else "debug"


def fingerprint() -> HostFacts:
    """Return the facts of this host; facts that cannot be read are left out, never guessed."""
    facts = {
        "name": socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": _operating_system(),
        "kernel_options": _kernel_options(),
        "cpu": _cpu(),
        "memory_bytes": _memory_bytes(),
        "clock_source": _text(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        "network": _network_cards(),
        "disks": _disks(),
        "sysctl": {name: text for name in SYSCTLS if (text := read_sysctl(name)) is not None},
        "descriptors_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "container": _container(),
        "cgroup": _cgroup(),
        "virtualisation": _virtualisation(),
    }
    return cast(
        HostFacts, {key: value for key, value in facts.items() if value not in (None, {}, [])}
    )


def _kernel_options() -> list[str]:
    """Return the words of the kernel's command line that affect speed.

    All others are left out: they name images and consoles, and may contain private data.
    """
    words = (_text(Path("/proc/cmdline")) or "").split()
    return [word for word in words if word.startswith(KERNEL_OPTIONS)]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _operating_system() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _cpu() -> dict[str, Any]:
    info = _text(Path("/proc/cpuinfo")) or ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if "model name" in line]
    vulnerabilities = CPU / "vulnerabilities"
    mitigations = {
        path.name: text
        for path in (sorted(vulnerabilities.iterdir()) if vulnerabilities.is_dir() else ())
        if (text := _text(path)) is not None and text != "Not affected"
    }
    facts = {
        "model": models[0] if models else None,
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "governor": _governors(),
        "frequency_khz_max": _frequencies(),
        "turbo": _turbo(),
        "smt_active": _text(CPU / "smt/active"),
        "mitigations": mitigations,
    }
    return {key: value for key, value in facts.items() if value not in (None, {})}


def _governors() -> str | None:
    """Return the cores' frequency governor, or several words if cores differ."""
    paths = CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted({text for path in paths if (text := _text(path))})) or None


def _frequencies() -> str | None:
    """Return the cores' maximum frequency in kHz, or several numbers if cores differ."""
    paths = CPU.glob("cpu[0-9]*/cpufreq/scaling_max_freq")
    return ", ".join(sorted({text for path in paths if (text := _text(path))})) or None


def _turbo() -> str | None:
    """Return "on" or "off"; None if the kernel does not report it."""
    match _text(CPU / "intel_pstate/no_turbo"), _text(CPU / "cpufreq/boost"):
        case ("0", _) | (None, "1"):
            return "on"
        case ("1", _) | (None, "0"):
            return "off"
    return None


def _container() -> str | None:
    """Return the kind of container that this process runs in, if it can be detected."""
    if Path("/run/.containerenv").exists():
        return "podman"
    if Path("/.dockerenv").exists():
        return "docker"
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else None


def _memory_bytes() -> int | None:
    for line in (_text(Path("/proc/meminfo")) or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _network_cards() -> dict[str, Any]:
    cards = {}
    for card in sorted(NETWORK.iterdir()) if NETWORK.is_dir() else ():
        speed = _text(card / "speed")
        facts = {
            "mtu": _text(card / "mtu"),
            "state": _text(card / "operstate"),
            # The speed of a virtual card, or one that is down, is -1 or absent.
            "speed_mbit_per_s": speed if speed and not speed.startswith("-") else None,
            "driver": _link_name(card / "device/driver"),
        }
        cards[card.name] = {key: value for key, value in facts.items() if value is not None}
    return cards


def _disks() -> dict[str, Any]:
    disks = {}
    for disk in sorted(BLOCK.iterdir()) if BLOCK.is_dir() else ():
        if disk.name.startswith(("loop", "ram", "zram")):
            continue
        sectors = _text(disk / "size")
        facts = {
            "model": _text(disk / "device/model"),
            "bytes": int(sectors) * 512 if sectors else None,
            "rotates": _text(disk / "queue/rotational") == "1",
            "scheduler": _text(disk / "queue/scheduler"),
        }
        disks[disk.name] = {key: value for key, value in facts.items() if value is not None}
    return disks


def _link_name(path: Path) -> str | None:
    try:
        return os.readlink(path).rpartition("/")[2]
    except OSError:
        return None


def read_sysctl(name: str) -> str | None:
    """Return a kernel setting with runs of blanks reduced to one; None if the kernel lacks it."""
    text = _text(Path("/proc/sys") / name.replace(".", "/"))
    return None if text is None else " ".join(text.split())


def _cgroup() -> dict[str, str]:
    try:
        folder = own_folder()
    except AbsentError:
        return {}
    names = ("cpu.max", "cpuset.cpus.effective", "memory.max")
    return {name: text for name in names if (text := _text(folder / name)) is not None}


def _virtualisation() -> str | None:
    info = _text(Path("/proc/cpuinfo")) or ""
    if " hypervisor" not in info:
        return None
    return _text(Path("/sys/class/dmi/id/sys_vendor")) or "hypervisor"
