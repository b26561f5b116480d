"""A clean-up that meets other objects than the record expects says so, and only then."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system.command import CommandResult, loadstone
from tests.system.hostile_server import Exchange, Message, Spoiler, hostile

KEYS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "ST_USER": f"{PROJECT}:{USER}", "ST_KEY": PASSWORD,
}  # fmt: skip
LOAD = ("-t", "4", "-n", "100", "-s", "4KiB", "-b", "2", "--object-prefix", "object-")
RULE = "clean-up-miscounted"


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    """Run a sound store, in front of which the lying ones stand."""
    with store_under_test.store() as url:
        yield int(url.rsplit(":", 1)[1])


def every(count: int, matches: Callable[[Message], bool], spoil: Spoiler) -> Spoiler:
    """Spoil one in `count` of the requests that match."""
    lock, met = threading.Lock(), 0

    def choose(exchange: Exchange) -> bool:
        nonlocal met
        if not matches(exchange.request):
            return False
        with lock:
            met += 1
            is_chosen = met % count == 0
        return is_chosen and spoil(exchange)

    return choose


def of_object(method: str) -> Callable[[Message], bool]:
    return lambda request: request.method == method and "/object-" in request.path


def is_put(request: Message) -> bool:
    return of_object("PUT")(request) and request.header("x-amz-copy-source") is None


def is_copy(request: Message) -> bool:
    return request.header("x-amz-copy-source") is not None


def is_bulk_delete(request: Message) -> bool:
    return request.method == "POST" and "delete" in request.path


def put_nothing(exchange: Exchange) -> bool:
    """Acknowledge a put, and keep nothing of it."""
    exchange.send_status("200 OK", ("ETag", '"0123456789abcdef0123456789abcdef"'))
    return True


def delete_nothing(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 204 No Content\r\n\r\n")
    return True


def copy_nothing(exchange: Exchange) -> bool:
    body = b"<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>"
    exchange.send_status("200 OK", ("Content-Type", "application/xml"), body=body)
    return True


def bulk_delete_nothing(exchange: Exchange) -> bool:
    """Acknowledge the deletion of keys that the store is not asked to delete."""
    keys = re.findall(rb"<Key>[^<]*</Key>", exchange.request.body)
    body = b"".join(b"<Deleted>" + key + b"</Deleted>" for key in keys)
    exchange.send_status("200 OK", body=b"<DeleteResult>" + body + b"</DeleteResult>")
    return True


def miscounted(run: Path) -> list[dict[str, Any]]:
    report = loadstone("report", run, "-f", "json").json()
    return [finding for finding in report["findings"] if finding["rule"] == RULE]


def bench(url: str, run: Path, operations: str, *options: str) -> CommandResult:
    return loadstone("bench", operations, url, *LOAD, *options, "-o", run, environment=KEYS)


LIES = {
    "put lost": ("put", every(20, is_put, put_nothing), 95, 100),
    "fill lost": ("head,list", every(50, is_put, put_nothing), 98, 100),
    "delete not done": ("put,delete", every(10, of_object("DELETE"), delete_nothing), 10, 0),
    "copy not done": ("put,copy", every(25, is_copy, copy_nothing), 196, 200),
    "bulk delete not done": (
        "put,bulk_delete", every(2, is_bulk_delete, bulk_delete_nothing), 50, 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_store_that_lies_about_puts_and_deletes_is_told_by_the_count(
    name: str, store_port: int, tmp_path: Path
) -> None:
    operations, spoil, met, expected = LIES[name]
    with hostile(store_port, spoil) as server:
        finished = bench(server.url, tmp_path / "run", operations)
    (finding,) = miscounted(tmp_path / "run")
    (evidence,) = finding["evidence"]
    assert evidence["threshold"] == expected
    assert evidence["value"] == met
    assert finished.code == exit_code.FAILED, finished.err


@pytest.mark.parametrize(
    ("operations", "options"),
    [
        ("put,get,head,list,copy,post,delete", ("-i", "2")),
        ("put,delete", ("-d", "1s")),
        ("get", ("-d", "1s")),
        ("put,bulk_delete", ()),
        ("put,put,get", ()),
    ],
)
@pytest.mark.parametrize("interface", ["s3", "swift", "file"])
def test_a_correct_target_gives_no_findings(
    interface: str, operations: str, options: tuple[str, ...], store_port: int, tmp_path: Path
) -> None:
    address = {
        "s3": f"http://127.0.0.1:{store_port}",
        "swift": f"swift+http://127.0.0.1:{store_port}/auth/v1.0",
        "file": f"file:{tmp_path / 'files'}",
    }[interface]
    if interface == "file":
        (tmp_path / "files").mkdir()
        operations = ",".join(
            operation
            for operation in operations.split(",")
            if operation in ("put", "get", "head", "list", "delete")
        )
    finished = bench(address, tmp_path / "run", operations, *options)
    assert finished.code == 0, finished.err
    assert miscounted(tmp_path / "run") == []


@pytest.mark.parametrize("setting", ["versioning=enabled", "versioning=suspended", "retention_s=2"])
def test_markers_of_deletes_are_not_objects_that_a_store_failed_to_delete(
    setting: str, store_port: int, tmp_path: Path
) -> None:
    words = ("put,delete", "--target-set", setting)
    finished = bench(f"http://127.0.0.1:{store_port}", tmp_path / "run", *words)
    assert finished.code == 0, finished.err
    assert miscounted(tmp_path / "run") == []


def test_failures_leave_it_open_how_many_objects_there_are(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.1, "status": 500}, "delete": {"rate": 0.1, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        for name, operations in {"once": "put,delete", "over": "put,put,get"}.items():
            finished = bench(url, tmp_path / name, operations)
            assert finished.code == exit_code.FAILED
            assert miscounted(tmp_path / name) == []


MIX = """
name: mix
targets: {{store: {{driver: s3, endpoints: ["{url}"]}}}}
dataset: {{objects: 50, size: 4KiB, object_prefix: object-}}
load: {{threads: 4}}
phases:
  - {{name: first, mix: {{get: 2, put: 2, delete: 1}}, duration: 1s}}
  - {{name: second, mix: {{get: 1, put: 1}}, requests: 200}}
"""


@pytest.mark.parametrize("is_sound", [True, False])
def test_objects_that_mixes_put_beyond_their_dataset_are_counted(
    is_sound: bool, store_port: int, tmp_path: Path
) -> None:
    is_beyond = re.compile(r"/object-(\d+)")

    def lies(request: Message) -> bool:
        number = is_beyond.search(request.path)
        return is_put(request) and number is not None and int(number[1]) >= 50 and not is_sound

    with hostile(store_port, every(20, lies, put_nothing)) as server:
        (tmp_path / "mix.yaml").write_text(MIX.format(url=server.url))
        finished = loadstone("run", tmp_path / "mix.yaml", "-o", tmp_path / "run", environment=KEYS)
    assert finished.code == (0 if is_sound else exit_code.FAILED), finished.err
    assert len(miscounted(tmp_path / "run")) == (0 if is_sound else 1)
