"""What `execution/programs/survey.sh` printed on a machine, as facts about it.

A machine may print anything: each part is read by itself, is bounded, and what cannot be read is
named with the reason, never guessed.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from loadstone.formats.parts import clean, read_parts, why

Facts = dict[str, Any]

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


def read_survey(text: str, mark: str) -> Facts:
    """Return what a machine said of itself; `not_read` names what it did not say, and why.

    Sizes are bytes, speeds of cards Mbit/s and of processors MHz, as the machine states them.
    """
    parts = read_parts(text, mark)
    facts: Facts = {}
    not_read: dict[str, str] = {}
    for name, read in READERS.items():
        if name not in parts:
            if name != "pools":
                not_read[name] = "the machine broke off before it"
            continue
        said, code = parts[name]
        if code != 0:
            not_read[name] = why(said, code)
            continue
        try:
            found = read(said)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            not_read[name] = f"cannot be read: {type(error).__name__}: {clean(str(error))}"
            continue
        if found:
            facts |= found
        else:
            not_read[name] = "the machine does not say"
    firmware = facts.pop("firmware", {})
    for name, disk in facts.get("disks", {}).items():
        if firmware.get(name):
            disk["firmware"] = firmware[name]
    return facts | ({"not_read": not_read} if not_read else {})


def _pairs(text: str, between: str) -> dict[str, str]:
    pairs = (line.partition(between) for line in text.splitlines()[: 4 * ENTRIES_MAX])
    return {key.strip(): clean(value) for key, found, value in pairs if found and value.strip()}


def _kernel(text: str) -> Facts:
    system, release, machine = text.split()
    return {"kernel": clean(f"{system} {release}"), "machine": clean(machine)}


def _name(text: str) -> Facts:
    return {"name": clean(text)}


def _system(text: str) -> Facts:
    told = _pairs(text, "=").get("PRETTY_NAME", "").strip('"')
    return {"system": told} if told else {}


def _chassis(text: str) -> Facts:
    told = _pairs(text, "=")
    model = " ".join(told[key] for key in ("sys_vendor", "product_name") if key in told)
    facts = {"chassis": model, "bios": told.get("bios_version")}
    return {key: value for key, value in facts.items() if value}


def _cpu(text: str) -> Facts:
    told = _pairs(text, ":")
    numbers = {
        "threads": told.get("CPU(s)"),
        "sockets": told.get("Socket(s)"),
        "cores_per_socket": told.get("Core(s) per socket") or told.get("Core(s) per cluster"),
        "mhz_max": told.get("CPU max MHz"),
        "mhz": told.get("CPU MHz"),
    }
    facts: Facts = {"model": told.get("Model name")}
    facts |= {key: float(value) for key, value in numbers.items() if value and _is_number(value)}
    whole = ("threads", "sockets", "cores_per_socket")
    facts |= {key: int(facts[key]) for key in whole if key in facts}
    if "sockets" in facts and "cores_per_socket" in facts:
        facts["cores"] = facts["sockets"] * facts.pop("cores_per_socket")
    return {"cpu": {key: value for key, value in facts.items() if value is not None}}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) is not None


def _memory(text: str) -> Facts:
    return {"memory_bytes": int(_pairs(text, ":")["MemTotal"].split()[0]) * 1024}


def _modules(text: str) -> Facts:
    modules = []
    for block in text.split("Memory Device")[1:ENTRIES_MAX]:
        told = _pairs(block, ":")
        if not told.get("Size", "No").startswith("No"):
            keys = {"size": "Size", "type": "Type", "speed": "Speed", "part": "Part Number"}
            modules.append({key: told[head] for key, head in keys.items() if head in told})
    return {"memory_modules": modules}


def _cards(text: str) -> Facts:
    cards = {}
    for block in text.split("\n\n")[:ENTRIES_MAX]:
        told = _pairs(block, "=")
        if "name" not in told:
            continue
        card: Facts = {key: told.get(key) for key in ("model", "driver", "firmware", "state")}
        speed = told.get("speed", "")
        card["speed_mbit_per_s"] = int(speed) if speed.isdigit() and int(speed) > 0 else None
        card["mtu"] = int(told["mtu"]) if told.get("mtu", "").isdigit() else None
        cards[told["name"]] = {key: value for key, value in card.items() if value is not None}
    return {"network": cards}


def _disks(text: str) -> Facts:
    disks: dict[str, Facts] = {}
    for line in text.splitlines()[:ENTRIES_MAX]:
        told = {key: clean(value) for key, value in re.findall(r'([A-Z]+)="([^"]*)"', line)}
        name = told.get("NAME", "")
        if told.get("TYPE") == "disk":
            disks[name] = {
                "model": told.get("MODEL") or None,
                "bytes": int(told["SIZE"]) if told.get("SIZE", "").isdigit() else None,
                "rotates": told.get("ROTA") == "1",
                "transport": told.get("TRAN") or None,
            }
        elif told.get("MOUNTPOINT") and told.get("PKNAME") in disks:
            disks[told["PKNAME"]].setdefault("mounts", []).append(told["MOUNTPOINT"])
        if told.get("TYPE") == "disk" and told.get("MOUNTPOINT"):
            disks[name]["mounts"] = [told["MOUNTPOINT"]]
    return {
        "disks": {
            name: {key: value for key, value in disk.items() if value is not None}
            for name, disk in disks.items()
            if disk["bytes"]
        }
    }


def _firmware(text: str) -> Facts:
    return {"firmware": _pairs(text, "=")}


def _raid(text: str) -> Facts:
    return {"raid": [clean(line) for line in text.splitlines()[:ENTRIES_MAX] if line.strip()]}


def _mounts(text: str) -> Facts:
    mounts: list[Facts] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and FILE_SYSTEMS.fullmatch(words[2]) and len(mounts) < ENTRIES_MAX:
            device, path, kind, options = map(clean, words[:4])
            options = _SECRET.sub(r"\1=(hidden)", options)
            mounts.append({"path": path, "device": device, "type": kind, "options": options})
    return {"mounts": mounts}


def _packages(text: str) -> Facts:
    words = (line.split() for line in text.splitlines())
    named = {clean(one[0]): clean(one[1]) for one in words if len(one) == 2}
    kept = sorted(name for name in named if PACKAGES.match(name))[:ENTRIES_MAX]
    return {"packages": {name: named[name] for name in kept}}


def _pools(text: str) -> Facts:
    pools = []
    for one in json.loads(text[text.index("[") :])[:ENTRIES_MAX]:
        is_coded = bool(one.get("erasure_code_profile"))
        pools.append(
            {
                "name": clean(str(one["pool_name"])),
                "placement_groups": int(one["pg_num"]),
                "copies": None if is_coded else int(one["size"]),
                "erasure_code": clean(str(one["erasure_code_profile"])) if is_coded else None,
            }
        )
    return {"pools": pools}


READERS: Mapping[str, Callable[[str], Facts]] = {
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
