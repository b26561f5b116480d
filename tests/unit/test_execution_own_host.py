"""Whether a target is on the client's own host, whatever its address is called."""

import socket

import pytest

from loadstone.execution import executor
from loadstone.execution.executor import is_on_own_host


@pytest.mark.parametrize(
    ("driver", "settings", "expected"),
    [
        ("s3", {"endpoints": ["http://127.0.0.1:9000"]}, True),
        ("s3", {"endpoints": ["http://127.3.2.1:9000", "http://192.0.2.7:9000"]}, True),
        ("swift", {"auth_url": "http://localhost:5000/v3"}, True),
        # Addresses for documents: no host has them.
        ("s3", {"endpoints": ["http://192.0.2.7:9000"]}, False),
        ("s3", {"endpoints": ["192.0.2.7:9000"]}, False),
        ("file", {"path": "/mnt/data"}, None),
        ("s3", {"endpoints": ["http://no-such-host.invalid"]}, None),
        ("s3", {"endpoints": ["http://[::1"]}, None),
    ],
)
def test_an_address_of_ours_is_ours(
    driver: str, settings: dict[str, object], expected: bool | None
) -> None:
    assert is_on_own_host(driver, settings) is expected


def test_a_name_counts_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    assert is_on_own_host("s3", {"endpoints": ["http://this-machine:9000"]}) is True


def test_an_address_is_unknown_if_any_address_can_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_lets_anything_bind", lambda: True)
    assert is_on_own_host("s3", {"endpoints": ["http://127.0.0.1:9000"]}) is None
