"""Lies told by mitmproxy, which is not ours, between loadstone and a sound store."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import loadstone
from tests.system.servers.install import python_of
from tests.system.servers.processes import HOST, Processes, answers, free_ports
from tests.system.test_audit import audit_of, lies_in, named
from tests.system.test_clean_up_counts import KEYS

ADDON = Path(__file__).parent / "servers" / "lying_addon.py"
MITMDUMP = python_of("mitmproxy").with_name("mitmdump")
LOAD = ("-t", "4", "-n", "300", "-s", "4KiB", "--object-prefix", "object-", "--audit")

LIES: dict[str, tuple[str, set[str]]] = {
    "put_not_done": ("put", {"lost"}),
    "stored_damaged": ("put", {"corrupt"}),
    "lost_later": ("put,head", {"lost"}),
    "delete_not_done": ("put,delete", {"resurrected"}),
    "deleted_and_back": ("put,delete", {"resurrected"}),
    "copy_not_done": ("put,copy", {"lost"}),
    "bits_flipped": ("put", {"corrupt"}),
    "stale": ("put,put", {"stale"}),
    "not_listed": ("put", {"list_missing"}),
    "listed_twice": ("put", {"listed_twice"}),
}


@contextlib.contextmanager
def lying(url: str, lie: str, log: Path, folder: Path) -> Iterator[str]:
    """Run mitmproxy before a store; give its URL."""
    port = free_ports(1)
    words = [
        MITMDUMP, "--quiet", "--mode", f"reverse:{url}", "--listen-host", HOST,
        "--listen-port", str(port), "--set", "keep_host_header=true", "-s", ADDON,
        "--set", f"confdir={folder}", "--set", f"lie={lie}:0.03:{log}",
    ]  # fmt: skip
    processes = Processes(folder)
    try:
        processes.start("mitmdump", words)
        processes.wait_for("mitmdump", lambda: answers(f"http://{HOST}:{port}/"))
        yield f"http://{HOST}:{port}"
    finally:
        processes.stop()


@pytest.mark.real
@pytest.mark.long(cpu_s=15)
@pytest.mark.parametrize("lie", LIES)
def test_each_lie_of_another_proxy_is_found_and_rightly_named(lie: str, tmp_path: Path) -> None:
    if not MITMDUMP.exists():
        pytest.skip("mitmproxy is not installed here: tests.system.servers install mitmproxy")
    operations, kinds = LIES[lie]
    log = tmp_path / "lies.jsonl"
    log.touch()
    (tmp_path / "proxy").mkdir()
    with (
        store_under_test.store() as store,
        lying(store, lie, log, tmp_path / "proxy") as url,
    ):
        finished = loadstone(
            "bench", operations, url, *LOAD, "-o", tmp_path / "run", environment=KEYS
        )
        audit = audit_of(tmp_path / "run")
    wrong = named(audit)
    assert finished.code == exit_code.FAILED, finished.err
    assert set(wrong) == kinds
    lied_about = lies_in(log)[lie]
    # Clean-up lists the objects again after the audit, and is lied to as well.
    contradicted = set().union(*wrong.values())
    assert contradicted <= lied_about if "list" in lie else contradicted == lied_about
