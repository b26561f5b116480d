"""Seconds and bytes of 22 queries on a local disk, on CephFS and on S3, all on this machine's disk.

    python bench/queries_on_storage.py --folder /data --scale 0.1 --loops 2

Ceph (three OSDs, three copies, ceph-fuse) and versitygw are started on loopback, with their data
below the folder. CephFS is mounted anew before each query, since ceph-fuse has a cache of its own
that nothing else empties. Needs root, and: python -m tests.system.servers install ceph versitygw
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.system.servers import ceph, versitygw
from tests.system.servers.ceph_files import Shape
from tests.system.servers.install import SPARK_JARS
from tests.system.servers.processes import Processes

MIB = 1 << 20
CAMPAIGN = """\
name: storage
targets:
  disk: {{driver: file, path: {disk}}}
  cephfs: {{driver: file, path: {cephfs}}}
  s3: {{driver: s3, endpoint: "{endpoint}", access_key: {access_key}, secret_key: {{env: KEY}}}}
queries:
  scale: {scale}
  engine: [{engines}]
  loops: {loops}
  cache: cold
  data: {made}
hooks:
  - {{at: before_trial, targets: [cephfs], shell: "{remount}"}}
"""


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--engines", default="clickhouse, datafusion, spark")
    parser.add_argument("--keep", type=Path, help="where the run's folder is put")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ls-queries-", dir=asked.folder))
    try:
        with _servers(folder) as (mount, remount, login):
            document = _measure(asked, folder, mount, remount, login)
        if asked.keep is not None:
            shutil.copytree(folder / "run", asked.keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(document["queries"]["arms"])
    print(f"\nload average {os.getloadavg()[0]:.1f}")


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    """Yield CephFS's mount, the command that remounts it, and the login of the S3 gateway."""
    for name in ("ceph", "gateway", "cephfs", "disk"):
        (folder / name).mkdir()
    cluster = ceph.Cluster(folder / "ceph", Shape())
    gateway = Processes(folder / "gateway")
    mount = folder / "cephfs"
    again = f"ceph-fuse -c {cluster.conf} -n client.admin --client_fs lsfs {mount}"
    try:
        cluster.start()
        login = versitygw.up(folder / "gateway", gateway)
        subprocess.run(again, shell=True, check=True, capture_output=True)
        yield mount, f"umount {mount} && {again}", login
    finally:
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
        gateway.stop()
        cluster.processes.kill()


def _measure(
    asked: argparse.Namespace, folder: Path, mount: Path, remount: str, login: Mapping[str, str]
) -> dict[str, Any]:
    engines = asked.engines.replace("spark", f"{{spark: {{jars: {SPARK_JARS}}}}}")
    file = folder / "campaign.yaml"
    file.write_text(
        CAMPAIGN.format(
            disk=folder / "disk", cephfs=mount, endpoint=login["endpoint"], remount=remount,
            access_key=login["access_key"], engines=engines, scale=asked.scale,
            loops=asked.loops, made=folder / "made",
        )
    )  # fmt: skip
    words = [sys.executable, "-m", "loadstone"]
    environment = {**os.environ, "KEY": login["secret_key"]}
    run = [*words, "run", file, "-o", folder / "run", "--allow-commands", "--quiet"]
    subprocess.run(run, check=True, env=environment)
    report = [*words, "report", folder / "run", "-f", "json"]
    report_of_run: dict[str, Any] = json.loads(
        subprocess.run(report, check=True, capture_output=True).stdout
    )
    return report_of_run


def show(arms: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each query, and the total."""
    print("| | " + " | ".join(f"{arm['target']}, {arm['engine']}" for arm in arms) + " |")
    print("|---|" + "---:|" * len(arms))
    for rows in zip(*(arm["queries"] for arm in arms), strict=True):
        cells = (_cell(query["median_s"], query["read_bytes"]) for query in rows)
        print(f"| {rows[0]['query']} | " + " | ".join(cells) + " |")
    cells = (
        _cell(arm["total_s"], sum(query["read_bytes"] or 0 for query in arm["queries"]))
        for arm in arms
    )
    print("| all | " + " | ".join(cells) + " |")
    print("| right | " + " | ".join(f"{arm['right']} of {len(arm['queries'])}" for arm in arms))


def _cell(seconds: float | None, read_bytes: int | None) -> str:
    if seconds is None:
        return "failed"
    read = "?" if read_bytes is None else f"{read_bytes / MIB:.0f} MiB"
    return f"{seconds:.2f} s, {read}"


if __name__ == "__main__":
    main()
