"""Facts about a machine, from the output of `execution/programs/survey.sh`.

The output is not trusted: parts are bounded and read separately, and unreadable ones are
listed with the reason.
"""

import re
from collections.abc import Callable, Mapping
from typing import Required, TypeVar

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
"""Packages relevant to storage, out of thousands on a machine."""

FILE_SYSTEMS = re.compile(
    r"(ext[234]|xfs|btrfs|zfs|f2fs|ceph|nfs4?|cifs|smb3|lustre|beegfs|gpfs|glusterfs|overlay|fuse\..+|fuseblk)"
)
_SECRET = re.compile(r"\b(secret|secretfile|password|pass|credentials)=[^,]*")


Facts = TypeVar("Facts")


class Survey(NodeDocument, total=False):
    """The facts of a machine; the firmware of its disks is printed separately."""

    firmware: dict[str, str]


class SurveyedPool(TypedDict, total=False):
    """A pool as Ceph lists it."""

    pool_name: Required[str]
    pg_num: Required[int]
    size: int
    erasure_code_profile: str | None


_POOLS = TypeAdapter(list[SurveyedPool])


def read_survey(text: str, mark: str) -> NodeDocument:
    """Parse a machine's survey; `not_read` lists missing facts with reasons.

    Sizes are bytes, speeds of cards Mbit/s and of processors MHz, as the machine states them.
    """
    parts = read_parts(text, mark)
    facts: Survey = {}
    not_read: dict[str, str] = {}
    for name, read in READERS.items():
        if name not in parts:
            if name != "pools":
                not_read[name] = "the output of the machine ended before it"
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
            not_read[name] = "the machine does not report it"
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


def _system(text: str) -> Survey:
    return _known({"system": _pairs(text, "=").get("PRETTY_NAME", "").strip('"')}, Survey)


def _known(facts: Mapping[str, object], kind: Callable[..., Facts]) -> Facts:
    """Return the facts that a machine states: neither None nor empty."""
    return kind(**{name: fact for name, fact in facts.items() if fact not in (None, "")})


def _chassis(text: str) -> Survey:
    pairs = _pairs(text, "=")
    model = " ".join(pairs[key] for key in ("sys_vendor", "product_name") if key in pairs)
    return _known({"chassis": model, "bios": pairs.get("bios_version")}, Survey)


def _cpu(text: str) -> Survey:
    pairs = _pairs(text, ":")
    sockets = _whole(pairs.get("Socket(s)"))
    cores = _whole(pairs.get("Core(s) per socket") or pairs.get("Core(s) per cluster"))
    facts = {
        "model": pairs.get("Model name"),
        "threads": _whole(pairs.get("CPU(s)")),
        "sockets": sockets,
        "mhz_max": _number(pairs.get("CPU max MHz")),
        "mhz": _number(pairs.get("CPU MHz")),
        "cores": sockets * cores if sockets is not None and cores is not None else None,
        "cores_per_socket": cores if sockets is None else None,
    }
    return {"cpu": _known(facts, ProcessorFacts)}


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else None


def _modules(text: str) -> Survey:
    modules: list[MemoryModule] = []
    for block in text.split("Memory Device")[1:ENTRIES_MAX]:
        pairs = _pairs(block, ":")
        if pairs.get("Size", "No").startswith("No"):
            continue
        names = {"size": "Size", "type": "Type", "speed": "Speed", "part": "Part Number"}
        facts = {fact: pairs.get(name) for fact, name in names.items()}
        modules.append(_known(facts, MemoryModule))
    return {"memory_modules": modules}


def _cards(text: str) -> Survey:
    cards: dict[str, CardFacts] = {}
    for block in text.split("\n\n")[:ENTRIES_MAX]:
        pairs = _pairs(block, "=")
        if "name" not in pairs:
            continue
        facts: dict[str, object] = {
            name: pairs.get(name) for name in ("model", "driver", "firmware", "state")
        }
        speed, mtu = pairs.get("speed", ""), pairs.get("mtu", "")
        facts["speed_mbit_per_s"] = (int(speed) or None) if speed.isdigit() else None
        facts["mtu"] = int(mtu) if mtu.isdigit() else None
        cards[pairs["name"]] = _known(facts, CardFacts)
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
    size = fields.get("SIZE", "")
    facts = {
        "model": fields.get("MODEL"),
        "bytes": int(size) if size.isdigit() else None,
        "rotates": fields.get("ROTA") == "1",
        "transport": fields.get("TRAN"),
    }
    return _known(facts, DiskFacts)


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
    "name": lambda text: {"name": clean(text)},
    "system": _system,
    "chassis": _chassis,
    "cpu": _cpu,
    "memory": lambda text: {"memory_bytes": int(_pairs(text, ":")["MemTotal"].split()[0]) * 1024},
    "modules": _modules,
    "cards": _cards,
    "disks": _disks,
    "firmware": lambda text: {"firmware": _pairs(text, "=")},
    "raid": lambda text: {
        "raid": [clean(line) for line in text.splitlines()[:ENTRIES_MAX] if line.strip()]
    },
    "mounts": _mounts,
    "packages": _packages,
    "pools": _pools,
}
