"""Audits find each copy that a store acknowledged and did not make, and accuse no sound one."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import CommandResult, loadstone
from tests.system.hostile_server import Exchange, hostile
from tests.system.test_audit import audit_of, lies_in, named
from tests.system.test_clean_up_counts import KEYS

OBJECTS = 200
LOAD = ("-t", "8", "-n", str(OBJECTS), "-b", "3", "-s", "10KiB", "--object-prefix", "object-")


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    with store_under_test.store() as url:
        yield int(url.rsplit(":", 1)[1])


def address_of(interface: str, port: int, folder: Path) -> str:
    (folder / "files").mkdir()
    return {
        "s3": f"http://127.0.0.1:{port}",
        "swift": f"swift+http://127.0.0.1:{port}/auth/v1.0",
        "file": f"file:{folder / 'files'}",
    }[interface]


def bench(address: str, run: Path, operations: str, *options: str) -> CommandResult:
    return loadstone(
        "bench", operations, address, *LOAD, "--audit", *options, "-o", run, environment=KEYS
    )


class Forgetful:
    """Acknowledges one in seven copies without making it, and remembers which."""

    def __init__(self) -> None:
        self.copies: list[tuple[str, bool]] = []
        self._lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> bool:
        request = exchange.request
        is_s3 = request.header("x-amz-copy-source") is not None
        if not is_s3 and request.header("x-copy-from") is None:
            return False
        with self._lock:
            is_lost = len(self.copies) % 7 == 6
            self.copies.append((urlsplit(request.path).path, is_lost))
        if is_lost and is_s3:
            body = b"<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>"
            exchange.send_status("200 OK", ("Content-Type", "application/xml"), body=body)
        elif is_lost:
            exchange.send_status("201 Created", ("Etag", "0" * 32))
        return is_lost

    def expected(self) -> dict[str, set[tuple[str, ...]]]:
        """Return the keys of the copies that are wrong in the end, by what they are."""
        wrong: dict[str, set[tuple[str, ...]]] = {}
        turns: dict[str, list[bool]] = {}
        for path, is_lost in self.copies:
            turns.setdefault(path, []).append(is_lost)
        for path, lost in turns.items():
            if lost[-1]:
                kind = "lost" if all(lost) else "stale"
                wrong.setdefault(kind, set()).add(tuple(path.split("/")[-2:]))
        return wrong


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize(
    ("operations", "kinds"), [("put,copy", {"lost"}), ("put,copy,put,copy", {"lost", "stale"})]
)
def test_copies_that_were_not_made_are_found_and_named(
    operations: str, kinds: set[str], interface: str, store_port: int, tmp_path: Path
) -> None:
    forgetful = Forgetful()
    with hostile(store_port, forgetful) as server:
        address = address_of(interface, urlsplit(server.url).port or 0, tmp_path)
        # Not a multiple of seven, so that the second copies of other objects are not made.
        finished = bench(address, tmp_path / "run", operations, "-n", "201")
    audit = audit_of(tmp_path / "run")
    assert named(audit) == forgetful.expected(), finished.err
    assert {finding["kind"] for finding in audit["findings"]} <= kinds
    assert audit["unknown"] == audit["unanswered"] == audit["listings_failed"] == 0
    assert audit["acknowledged"] == audit["read_back"] == 2 * 201
    assert finished.code == exit_code.FAILED
    for finding in audit["findings"]:
        *copied, read, again = finding["calls"]
        assert {call["operation"] for call in copied} == {"copy"}
        assert copied[-1]["version"] == operations.count("put")
        assert (read["operation"], again["operation"]) == ("get", "get")


@pytest.mark.parametrize("interface", ["s3", "swift"])
def test_a_store_that_loses_and_damages_copies_is_found_out(interface: str, tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    shares = {"lost_write": 0.03, "corrupt_byte": 0.03}
    lies = {**shares, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        port = int(url.rsplit(":", 1)[1])
        finished = bench(address_of(interface, port, tmp_path), tmp_path / "run", "put,copy")
    wrong, keys_of_lie = named(audit_of(tmp_path / "run")), lies_in(log)
    assert finished.code == exit_code.FAILED
    assert wrong["lost"] == keys_of_lie["lost_write"]
    assert any(key.endswith(".copy") for _, key in wrong["lost"])
    # The copy of a damaged object is damaged, if it is there.
    inherited = {(bucket, f"{key}.copy") for bucket, key in keys_of_lie["corrupt_byte"]}
    assert keys_of_lie["corrupt_byte"] <= wrong["corrupt"]
    assert wrong["corrupt"] - keys_of_lie["corrupt_byte"] <= inherited - keys_of_lie["lost_write"]
    assert set(wrong) == {"lost", "corrupt"}


SOUND = {
    "put,copy,put,copy,copy": (),
    "copy,delete": (),
    "put=2,copy=3,delete=1,get=2": ("-d", "2s"),
}


@pytest.mark.parametrize("interface", ["s3", "swift", "file"])
@pytest.mark.parametrize("operations", SOUND)
def test_copies_on_a_correct_target_give_no_findings(
    operations: str, interface: str, store_port: int, tmp_path: Path
) -> None:
    address = address_of(interface, store_port, tmp_path)
    finished = bench(address, tmp_path / "run", operations, *SOUND[operations])
    assert finished.code == 0, finished.err
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert audit["read_back"] == audit["acknowledged"] > OBJECTS
    assert audit["unknown"] == audit["unanswered"] == audit["listings_failed"] == 0


def test_a_copy_that_failed_is_not_claimed(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.1, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        bench(url, tmp_path / "run", "put,copy,put,copy")
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert audit["unknown"] > OBJECTS / 10
    assert audit["acknowledged"] > OBJECTS


def test_a_replay_of_a_copy_makes_it_again(store_port: int, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def copies_nothing(exchange: Exchange) -> bool:
        is_copy = exchange.request.header("x-amz-copy-source") is not None
        if is_copy and "object-1" in exchange.request.path:
            exchange.send_status("200 OK", body=b"<CopyObjectResult/>")
            return True
        return False

    def replayed(url: str, name: str) -> tuple[int, list[str]]:
        target, out = f"targets.s3.endpoints={url}", tmp_path / name
        again = loadstone(
            "run", run / finding["replay"], "--set", target, "-o", out, environment=KEYS
        )
        return again.code, [finding["kind"] for finding in audit_of(out)["findings"]]

    with hostile(store_port, copies_nothing) as server:
        bench(server.url, run, "put,copy")
        finding = audit_of(run)["findings"][0]
        assert replayed(server.url, "again") == (exit_code.FAILED, ["lost"])
    assert replayed(f"http://127.0.0.1:{store_port}", "sound") == (0, [])
