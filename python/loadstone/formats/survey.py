"""What `execution/programs/survey.sh` printed on a machine, as facts about it.

A machine may print anything: each part is read by itself, is bounded, and what cannot be read is
named with the reason, never guessed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Required

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone.documents.mistake import first_mistake
from loadstone.documents.node import (
    CardFacts,
    DiskFacts,
    MemoryModule,
    MountFacts,
    NodeDocument,
    PoolFacts,
    ProcessorFacts,
)
from loadstone.formats.reading import clean, read_parts, why

ENTRIES_MAX = 512

PACKAGES = re.compile(
    r"(ceph|rados|rbd|librados|libcephfs|swift|python3?-swift|keystone|haproxy|nginx|memcached|openssl|"
    r"fio|iperf3?|sysstat|docker|podman|containerd|openjdk|java-|spark|hadoop|clickhouse|minio|xfsprogs|"
    r"e2fsprogs|btrfs-progs|nvme-cli|mdadm|lvm2|multipath|nfs-|chrony|linux-image|kernel)"
)
"""Packages that bear on a measurement of storage; a machine has thousands."""

FILE_SYSTEMS = re.compile(
    r"(ext[234]|xfs|btrfs|zfs|f2fs|ceph|nfs4?|cifs|smb3|lustre|beegfs|gpfs|glusterfs|overlay|fuse\..+|fuseblk)"
)
_SECRET = re.compile(r"\b(secret|secretfile|password|pass|credentials)=[^,]*")


class Survey(NodeDocument, total=False):
    """The facts of a machine; the firmware of its disks is printed apart from them."""

    firmware: dict[str, str]


class SurveyedPool(TypedDict, total=False):
    """A pool as Ceph lists it."""

    pool_name: Required[str]
    pg_num: Required[int]
    size: int
    erasure_code_profile: str | None


_POOLS = TypeAdapter(list[SurveyedPool])


def read_survey(text: str, mark: str) -> NodeDocument:
    """Read a machine's description of itself; `not_read` names what is missing, and why.

    Sizes are bytes, speeds of cards Mbit/s and of processors MHz, as the machine states them.
    """
    parts = read_parts(text, mark)
    facts: Survey = {}
    not_read: dict[str, str] = {}
    for name, read in READERS.items():
        if name not in parts:
            if name != "pools":
                not_read[name] = "the machine broke off before it"
            continue
        output, code = parts[name]
        if code != 0:
            not_read[name] = why(output, code)
            continue
        try:
            section = read(output)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            reason = first_mistake(error) if isinstance(error, ValidationError) else str(error)
            not_read[name] = f"cannot be read: {type(error).__name__}: {clean(reason)}"
            continue
        if section:
            facts.update(section)
        else:
            not_read[name] = "the machine does not say"
    firmware = facts.pop("firmware", {})
    for name, disk in facts.get("disks", {}).items():
        if firmware.get(name):
            disk["firmware"] = firmware[name]
    if not_read:
        facts["not_read"] = not_read
    return facts


def _pairs(text: str, between: str) -> dict[str, str]:
    pairs = (line.partition(between) for line in text.splitlines()[: 4 * ENTRIES_MAX])
    return {
        key.strip(): clean(value) for key, separator, value in pairs if separator and value.strip()
    }


def _kernel(text: str) -> Survey:
    system, release, machine = text.split()
    return {"kernel": clean(f"{system} {release}"), "machine": clean(machine)}


def _name(text: str) -> Survey:
    return {"name": clean(text)}


def _system(text: str) -> Survey:
    system = _pairs(text, "=").get("PRETTY_NAME", "").strip('"')
    return {"system": system} if system else {}


def _chassis(text: str) -> Survey:
    pairs = _pairs(text, "=")
    facts: Survey = {}
    if model := " ".join(pairs[key] for key in ("sys_vendor", "product_name") if key in pairs):
        facts["chassis"] = model
    if bios := pairs.get("bios_version"):
        facts["bios"] = bios
    return facts


def _cpu(text: str) -> Survey:
    pairs = _pairs(text, ":")
    cpu: ProcessorFacts = {}
    if model := pairs.get("Model name"):
        cpu["model"] = model
    if (threads := _number(pairs.get("CPU(s)"))) is not None:
        cpu["threads"] = int(threads)
    if (sockets := _number(pairs.get("Socket(s)"))) is not None:
        cpu["sockets"] = int(sockets)
    if (mhz_max := _number(pairs.get("CPU max MHz"))) is not None:
        cpu["mhz_max"] = mhz_max
    if (mhz := _number(pairs.get("CPU MHz"))) is not None:
        cpu["mhz"] = mhz
    cores = _number(pairs.get("Core(s) per socket") or pairs.get("Core(s) per cluster"))
    if sockets is not None and cores is not None:
        cpu["cores"] = int(sockets) * int(cores)
    elif cores is not None:
        cpu["cores_per_socket"] = int(cores)
    return {"cpu": cpu}


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else None


def _memory(text: str) -> Survey:
    return {"memory_bytes": int(_pairs(text, ":")["MemTotal"].split()[0]) * 1024}


def _modules(text: str) -> Survey:
    modules: list[MemoryModule] = []
    for block in text.split("Memory Device")[1:ENTRIES_MAX]:
        pairs = _pairs(block, ":")
        if pairs.get("Size", "No").startswith("No"):
            continue
        module: MemoryModule = {"size": pairs["Size"]}
        if "Type" in pairs:
            module["type"] = pairs["Type"]
        if "Speed" in pairs:
            module["speed"] = pairs["Speed"]
        if "Part Number" in pairs:
            module["part"] = pairs["Part Number"]
        modules.append(module)
    return {"memory_modules": modules}


def _cards(text: str) -> Survey:
    cards: dict[str, CardFacts] = {}
    for block in text.split("\n\n")[:ENTRIES_MAX]:
        pairs = _pairs(block, "=")
        if "name" not in pairs:
            continue
        card: CardFacts = {}
        if "model" in pairs:
            card["model"] = pairs["model"]
        if "driver" in pairs:
            card["driver"] = pairs["driver"]
        if "firmware" in pairs:
            card["firmware"] = pairs["firmware"]
        if "state" in pairs:
            card["state"] = pairs["state"]
        if (speed := pairs.get("speed", "")).isdigit() and int(speed) > 0:
            card["speed_mbit_per_s"] = int(speed)
        if (mtu := pairs.get("mtu", "")).isdigit():
            card["mtu"] = int(mtu)
        cards[pairs["name"]] = card
    return {"network": cards}


def _disks(text: str) -> Survey:
    disks: dict[str, DiskFacts] = {}
    for line in text.splitlines()[:ENTRIES_MAX]:
        fields = {key: clean(value) for key, value in re.findall(r'([A-Z]+)="([^"]*)"', line)}
        name = fields.get("NAME", "")
        if fields.get("TYPE") == "disk":
            disks[name] = _disk(fields)
        elif fields.get("MOUNTPOINT") and fields.get("PKNAME") in disks:
            disks[fields["PKNAME"]].setdefault("mounts", []).append(fields["MOUNTPOINT"])
        if fields.get("TYPE") == "disk" and fields.get("MOUNTPOINT"):
            disks[name]["mounts"] = [fields["MOUNTPOINT"]]
    return {"disks": {name: disk for name, disk in disks.items() if disk.get("bytes")}}


def _disk(fields: Mapping[str, str]) -> DiskFacts:
    disk: DiskFacts = {}
    if model := fields.get("MODEL"):
        disk["model"] = model
    if (size := fields.get("SIZE", "")).isdigit():
        disk["bytes"] = int(size)
    disk["rotates"] = fields.get("ROTA") == "1"
    if transport := fields.get("TRAN"):
        disk["transport"] = transport
    return disk


def _firmware(text: str) -> Survey:
    return {"firmware": _pairs(text, "=")}


def _raid(text: str) -> Survey:
    return {"raid": [clean(line) for line in text.splitlines()[:ENTRIES_MAX] if line.strip()]}


def _mounts(text: str) -> Survey:
    mounts: list[MountFacts] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and FILE_SYSTEMS.fullmatch(words[2]) and len(mounts) < ENTRIES_MAX:
            device, path, kind, options = map(clean, words[:4])
            options = _SECRET.sub(r"\1=(hidden)", options)
            mounts.append({"path": path, "device": device, "type": kind, "options": options})
    return {"mounts": mounts}


def _packages(text: str) -> Survey:
    words = (line.split() for line in text.splitlines())
    named = {clean(word[0]): clean(word[1]) for word in words if len(word) == 2}
    shown = sorted(name for name in named if PACKAGES.match(name))[:ENTRIES_MAX]
    return {"packages": {name: named[name] for name in shown}}


def _pools(text: str) -> Survey:
    pools: list[PoolFacts] = []
    for pool in _POOLS.validate_json(text[text.index("[") :])[:ENTRIES_MAX]:
        profile = pool.get("erasure_code_profile")
        pools.append(
            {
                "name": clean(pool["pool_name"]),
                "placement_groups": pool["pg_num"],
                "copies": None if profile else pool["size"],
                "erasure_code": clean(profile) if profile else None,
            }
        )
    return {"pools": pools}


READERS: Mapping[str, Callable[[str], Survey]] = {
    "kernel": _kernel,
    "name": _name,
    "system": _system,
    "chassis": _chassis,
    "cpu": _cpu,
    "memory": _memory,
    "modules": _modules,
    "cards": _cards,
    "disks": _disks,
    "firmware": _firmware,
    "raid": _raid,
    "mounts": _mounts,
    "packages": _packages,
    "pools": _pools,
}
