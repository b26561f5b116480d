"""Cards of real stores, each compared with the kept card of the store's version.

MinIO, moto and SeaweedFS are tested if they were installed by name: python -m tests.system.servers
install minio moto seaweedfs
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from loadstone.card.table import QUESTIONS
from tests.system.command import loadstone
from tests.system.servers import ceph, light_s3, swift
from tests.system.test_card import golden_part_of

pytestmark = pytest.mark.real

Golden = Callable[[str, bytes], None]


TRIES = 3
"""Cards made until one answers each question: a busy host can leave some unanswered."""


def check_card(
    name: str,
    url: str,
    environment: Mapping[str, str],
    golden: Golden,
    unsteady: Collection[str] = (),
    undecided: Collection[str] = (),
) -> None:
    """Make the card of a store, which leaves nothing behind, and compare it with the kept one.

    The answers to `unsteady` questions are not the same each time; `undecided` ones may have none.
    """
    rows: dict[str, Any] = {}
    for _ in range(TRIES):
        finished = loadstone("card", url, "-f", "json", environment=environment)
        assert finished.code == 0, finished.err
        card = json.loads(finished.out)
        decided = {row["name"]: row for row in card["rows"] if row["answer"] != "undecided"}
        rows = {row["name"]: row for row in card["rows"]} | rows | decided
        if all(row["answer"] != "undecided" or name in undecided for name, row in rows.items()):
            break
    left_out = {*unsteady, *undecided}
    card["rows"] = [row for name, row in rows.items() if name not in left_out]
    golden(f"cards/{name}.json", golden_part_of(card))


def check_s3_card(
    name: str, login: Mapping[str, str], golden: Golden, undecided: Collection[str] = ()
) -> None:
    """Make the card of a store that speaks S3."""
    keys = {
        "AWS_ACCESS_KEY_ID": login["access_key"],
        "AWS_SECRET_ACCESS_KEY": login["secret_key"],
        "AWS_REGION": login.get("region", "us-east-1"),
    }
    check_card(name, login["endpoint"], keys, golden, undecided=undecided)


def test_versitygw(versitygw_server: dict[str, str], golden: Golden) -> None:
    check_s3_card("versitygw-1.8.0", versitygw_server, golden)


def test_versitygw_keeps_what_is_locked_and_lets_go(versitygw_server: dict[str, str]) -> None:
    """A card leaves nothing behind; otherwise its exit code says so."""
    keys = {
        "AWS_ACCESS_KEY_ID": versitygw_server["access_key"],
        "AWS_SECRET_ACCESS_KEY": versitygw_server["secret_key"],
    }
    words = ("card", versitygw_server["endpoint"], "-f", "json", "--retention")
    finished = loadstone(*words, environment=keys)
    assert finished.code == 0, finished.err
    rows = [row for row in finished.json()["rows"] if row["group"] == "retention"]
    assert [row["answer"] for row in rows] == ["yes"] * len(QUESTIONS["retention"])


def test_ceph(ceph_server: ceph.Cluster, golden: Golden) -> None:
    check_s3_card("ceph-16.2.15", ceph_server.endpoints["s3"], golden)


@pytest.mark.parametrize(
    ("server", "version", "undecided"),
    [
        ("minio", "2026-02-12", []),
        ("moto", "5.2.5", ["no-delayed-answers"]),
        # On a busy host the racing writers wait for each other longer than the card's time limit.
        ("seaweedfs", "4.48", ["one-creator-wins", "one-replacer-wins"]),
    ],
)
def test_servers_of_one_process(
    server: str, version: str, undecided: list[str], golden: Golden
) -> None:
    if not light_s3.SERVERS[server].program.exists():
        pytest.skip(f"{server} is not installed here: tests.system.servers install {server}")
    with light_s3.running(server) as login:
        check_s3_card(f"{server}-{version}", login, golden, undecided)


@pytest.mark.parametrize(("whose", "algorithm"), [("store", "AES256"), ("kms", "aws:kms")])
def test_minio_encrypts_what_a_load_writes(whose: str, algorithm: str, tmp_path: Path) -> None:
    """Objects are written whole, in parts and as copies, and read back."""
    if not light_s3.SERVERS["minio"].program.exists():
        pytest.skip("minio is not installed here: tests.system.servers install minio")
    with light_s3.running("minio") as login:
        keys = {
            "AWS_ACCESS_KEY_ID": login["access_key"],
            "AWS_SECRET_ACCESS_KEY": login["secret_key"],
        }
        flags = ("-n", "4", "-s", "6MiB", "--part-size", "5MiB", "--keep-data")
        flags += ("--target-set", f"server_encryption={whose}", "-o", str(tmp_path / "run"))
        operations = "put,copy,multipart_put,get,multipart_get"
        finished = loadstone("bench", operations, login["endpoint"], *flags, environment=keys)
        assert finished.code == 0, finished.err
        client = boto3.client(
            "s3",
            endpoint_url=login["endpoint"],
            aws_access_key_id=login["access_key"],
            aws_secret_access_key=login["secret_key"],
        )
        [bucket] = client.list_buckets()["Buckets"]
        listed = client.list_objects_v2(Bucket=bucket["Name"])["Contents"]
        heads = [client.head_object(Bucket=bucket["Name"], Key=row["Key"]) for row in listed]
        assert {head.get("ServerSideEncryption") for head in heads} == {algorithm}


def test_swift(swift_server: swift.Endpoints, golden: Golden) -> None:
    """Swift by TempAuth, where two of the creators that race may win, or one."""
    login = swift_server["tempauth"]
    environment = {"ST_USER": login["user"], "ST_KEY": login["password"]}
    address = f"swift+{login['auth_url']}"
    check_card("swift-2.38.3", address, environment, golden, unsteady=["one-creator-wins"])
