"""Published sequences on real stores, and what one store's acknowledged writes survive.

MinIO and SeaweedFS are tested if they were installed by name: python -m tests.system.servers
install minio seaweedfs seaweedfs-4.30
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from tests.system.command import loadstone
from tests.system.servers import ceph, light_s3
from tests.system.servers.install import BIN
from tests.system.servers.processes import free_ports
from tests.system.test_card import KEYS
from tests.system.test_durability import SMALL, faults_in

pytestmark = pytest.mark.real

Golden = Callable[[str, bytes], None]

TRIES = 3
"""Runs of a bestiary until one decides each sequence: a busy host can leave some undecided."""


def tried(login: Mapping[str, str]) -> dict[str, str]:
    """Return the answers to the sequences that need no fault, with what was found."""
    environment = {
        "AWS_ACCESS_KEY_ID": login["access_key"],
        "AWS_SECRET_ACCESS_KEY": login["secret_key"],
        "AWS_REGION": login.get("region", "us-east-1"),
    }
    words = ("audit", "bestiary", login["endpoint"], "-f", "json")
    answers: dict[str, str] = {}
    for _ in range(TRIES):
        rows = loadstone(*words, environment=environment).json()["rows"]
        for row in rows:
            if row["answer"] != "not applicable" and answers.get(row["name"]) in (
                None,
                "undecided",
            ):
                answers[row["name"]] = row["finding"] or row["answer"]
        if "undecided" not in answers.values():
            break
    return answers


def check(
    name: str, login: Mapping[str, str], golden: Golden, unsteady: Collection[str] = ()
) -> None:
    """Compare a store's answers with the kept ones; `unsteady` ones differ by chance."""
    answers = {name: answer for name, answer in tried(login).items() if name not in unsteady}
    golden(f"bestiaries/{name}.json", (json.dumps(answers, indent=2) + "\n").encode())


def test_versitygw(versitygw_server: dict[str, str], golden: Golden) -> None:
    """A put that was cut off is kept; of versions put at once some are lost, now and then."""
    check("versitygw-1.8.0", versitygw_server, golden, ["versions-written-at-once"])


def test_ceph(ceph_server: ceph.Cluster, golden: Golden) -> None:
    check("ceph-16.2.15", ceph_server.endpoints["s3"], golden)


@pytest.mark.parametrize(
    ("server", "version", "unsteady"),
    [
        ("minio", "2026-02-12", []),
        # The racing writers wait for each other longer than the time limit of a sequence.
        ("seaweedfs", "4.48", ["one-writer-wins"]),
        ("seaweedfs-4.30", "4.30", ["one-writer-wins"]),
    ],
)
def test_servers_of_one_process(
    server: str, version: str, unsteady: list[str], golden: Golden
) -> None:
    """The published defects of SeaweedFS 4.30 are found in that version, and not in 4.48."""
    if not light_s3.SERVERS[server].program.exists():
        pytest.skip(f"{server} is not installed here: tests.system.servers install {server}")
    with light_s3.running(server) as login:
        check(f"{server.partition('-')[0]}-{version}", login, golden, unsteady)


def test_versitygw_over_a_directory_survives_the_kill_of_its_process(
    versitygw_server: dict[str, str], tmp_path: Path
) -> None:
    """The server of the fixture is not killed; that there is one says that it is installed."""
    (tmp_path / "objects").mkdir()
    url = f"http://127.0.0.1:{free_ports(1)}"
    start = f"{BIN / 'versitygw'} --port {url[7:]} --quiet posix {tmp_path / 'objects'}"
    root = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}  # fmt: skip
    finished = loadstone(
        "audit", "durability", url, *SMALL, "--times", "2", "--start", start,
        "-o", tmp_path / "run", environment={**KEYS, **root},
    )  # fmt: skip
    assert finished.code == 0, finished.err
    kill = faults_in(finished)["kill"]
    assert (kill["times"], kill["wrong"]) == (2, 0)
    assert kill["read_back"] > 0
