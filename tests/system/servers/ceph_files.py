"""The configuration and the keys of a small Ceph: one monitor, some OSDs, all on loopback."""

import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.servers.processes import HOST, ServerError

S3_ACCESS_KEY = "LOADSTONEACCESSKEY01"
S3_SECRET_KEY = "loadstone-secret-for-rgw-0123456789abcde"
SWIFT_USER, SWIFT_KEY = "loadstone:swift", "loadstone-swift-secret-for-rgw"

# The modules that a manager insists on. Importing the real ones takes it up to 30 s and 270 MiB.
MANAGER_MODULES = [
    "balancer",
    "crash",
    "devicehealth",
    "orchestrator",
    "pg_autoscaler",
    "progress",
    "rbd_support",
    "status",
    "telemetry",
    "volumes",
]
STUB_MODULE = """\
from mgr_module import MgrModule
class Module(MgrModule):
    NOTIFY_TYPES = []
    COMMANDS = []
    def serve(self): pass
    def shutdown(self): pass
"""


@dataclass(frozen=True)
class Ports:
    """Where the daemons listen; those without a port of their own take one after `first_other`."""

    monitor: int
    count = 120

    @property
    def monitor_v1(self) -> int:
        """The monitor, by the old protocol."""
        return self.monitor + 1

    @property
    def gateway(self) -> int:
        """The object gateway."""
        return self.monitor + 2

    @property
    def others(self) -> tuple[int, int]:
        """First and last port for all else."""
        return self.monitor + 3, self.monitor + self.count - 1


@dataclass(frozen=True)
class Shape:
    """What a cluster consists of, beside its monitor and its manager."""

    osds: int = 3
    # Where an OSD keeps its data: `bluestore` in a file, `memstore` in memory until it ends.
    store: str = "bluestore"
    # The object gateway, the file system and a pool for images.
    has_services: bool = True


def new_id() -> str:
    """Make an identity that nothing else has."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Identity:
    """What makes a cluster this one and no other."""

    osds: list[str]
    fsid: str = field(default_factory=new_id)


def monitors(ports: Ports) -> str:
    """Return the address of the monitor, by both protocols."""
    return f"[v2:{HOST}:{ports.monitor},v1:{HOST}:{ports.monitor_v1}]"


def write(directory: Path, ports: Ports, identity: Identity, shape: Shape) -> Path:
    """Write everything that the daemons read; give the path of the configuration."""
    # The monitor makes its own directory, and refuses one that is there.
    for name in ("mon", "mgr/x", "mds/a", "crash", *[f"osd/{n}" for n in range(shape.osds)]):
        (directory / name).mkdir(parents=True, exist_ok=True)
    _write_keys(directory / "keyring", shape)
    _write_manager_modules(directory / "mgr-modules")
    configuration = directory / "ceph.conf"
    parts = [_for_all(directory, ports, identity, shape), _for_daemons(directory, shape)]
    configuration.write_text("".join([*parts, _for_gateway(ports)]))
    return configuration


def _write_keys(path: Path, shape: Shape) -> None:
    allow = "allow *"
    capabilities = {
        "mon.": {"mon": allow},
        "client.admin": {"mon": allow, "osd": allow, "mds": allow, "mgr": allow},
        "mgr.x": {"mon": "allow profile mgr", "osd": allow, "mds": allow},
        "mds.a": {"mon": "allow profile mds", "osd": allow, "mds": allow, "mgr": allow},
        "client.rgw.a": {"mon": allow, "osd": allow, "mgr": allow},
    }
    for number in range(shape.osds):
        profile = {"mon": "allow profile osd", "osd": allow, "mgr": "allow profile osd"}
        capabilities[f"osd.{number}"] = profile
    lines = []
    for name, caps in capabilities.items():
        # Ceph 20 refuses the keys that releases before it make.
        made = subprocess.run(["ceph-authtool", "--gen-print-key"], capture_output=True, check=True)
        lines += [f"[{name}]", f"\tkey = {made.stdout.decode().strip()}"]
        lines += [f'\tcaps {service} = "{cap}"' for service, cap in caps.items()]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")


def _write_manager_modules(folder: Path) -> None:
    folder.mkdir()
    for name in ("mgr_module.py", "mgr_util.py"):
        (folder / name).symlink_to(f"/usr/share/ceph/mgr/{name}")
    for name in MANAGER_MODULES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("from .module import Module\n")
        (folder / name / "module.py").write_text(STUB_MODULE)


def _for_all(directory: Path, ports: Ports, identity: Identity, shape: Shape) -> str:
    first, last = ports.others
    copies = min(3, shape.osds)
    return f"""\
[global]
fsid = {identity.fsid}
mon host = {monitors(ports)}
public addr = {HOST}
cluster addr = {HOST}
ms bind ipv4 = true
ms bind ipv6 = false
ms bind port min = {first}
ms bind port max = {last}
auth allow insecure global id reclaim = false
keyring = {directory}/keyring
run dir = {directory}/run
admin socket = {directory}/run/$name.asok
log file = {directory}/log/ceph-$name.log
crash dir = {directory}/crash
mon cluster log file = {directory}/log/cluster.log
pid file =
# One machine: copies go to different OSDs, not hosts.
osd crush chooseleaf type = 0
osd pool default size = {copies}
osd pool default min size = {max(1, copies - 1)}
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool delete = true
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 2000
osd max pg per osd hard ratio = 10
mon warn on pool no app = false
mon data avail warn = 2
mon data avail crit = 1
# A daemon that ends or hangs is noticed in seconds.
osd heartbeat interval = 1
osd heartbeat grace = 6
mon osd adjust heartbeat grace = false
mon osd min down reporters = 1
mon osd reporter subtree level = osd
mon osd down out interval = 600
osd fast fail on connection refused = true
osd max markdown count = 100000
paxos propose interval = 0.1
mds beacon grace = 5
mon tick interval = 1
mon compact on start = false
"""


def _for_daemons(directory: Path, shape: Shape) -> str:
    # Debian's newer builds name it from the root folder, which is not where the daemons run here.
    ways = ("lib*/rados-classes", "lib*/*/rados-classes")
    classes = next((path for way in ways for path in Path("/usr").glob(way)), None)
    if classes is None:
        raise ServerError("no folder rados-classes, which OSDs need, below /usr/lib")
    return f"""\
[mon]
mon data = {directory}/mon/$id
[mgr]
mgr data = {directory}/mgr/$id
mgr initial modules =
mgr module path = {directory}/mgr-modules
mgr stats period = 1
mgr tick period = 1
[mds]
mds data = {directory}/mds/$id
mds cache memory limit = 268435456
mds beacon interval = 0.5
[osd]
osd class dir = {classes}
osd data = {directory}/osd/$id
osd objectstore = {shape.store}
memstore device bytes = 8589934592
bluestore block create = true
bluestore block size = 4294967296
bluestore block db create = false
bluestore block wal create = false
bluestore cache autotune = false
bluestore cache size = 67108864
osd max scrubs = 1
osd scrub begin hour = 0
osd scrub end hour = 1
# A killed gateway leaves watches, and the next one waits for them to expire.
osd client watch timeout = 4
# OSDs on files count as spinning disks, for which recovery is slowed down by default.
osd recovery sleep hdd = 0
osd recovery sleep ssd = 0
osd recovery sleep hybrid = 0
osd delete sleep hdd = 0
osd snap trim sleep hdd = 0
osd op num threads per shard = 1
osd op num shards = 2
"""


def _for_gateway(ports: Ports) -> str:
    return f"""\
[client.rgw.a]
# Without tcp_nodelay some answers wait 40 ms for an acknowledgement.
rgw frontends = beast endpoint={HOST}:{ports.gateway} tcp_nodelay=1
rgw enable usage log = false
# Each shard of the garbage collection costs requests in the background.
rgw gc max objs = 3
rgw gc obj min wait = 10
rgw gc processor period = 10
rgw gc processor max time = 10
rgw swift url = http://{HOST}:{ports.gateway}
rgw swift account in url = true
rgw s3 auth use sts = false
rgw thread pool size = 64
rgw dynamic resharding = false
"""
