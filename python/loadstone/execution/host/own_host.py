"""Is a target on this very host? Then client and target share its processors."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadstone.campaign.drivers import addresses_of, facts_of


def is_on_own_host(driver: str, settings: Mapping[str, Any]) -> bool | None:
    """Tell whether any address of a target is one of this host's; None if it has no address."""
    hosts = dict.fromkeys(_hosts(driver, settings))
    found = [_is_own(host) for host in hosts]
    known = [one for one in found if one is not None]
    return any(known) if known else None


def _hosts(driver: str, settings: Mapping[str, Any]) -> Iterator[str]:
    for address in addresses_of(facts_of(driver), settings):
        try:
            host = urlsplit(address if "://" in address else f"//{address}").hostname
        except ValueError:
            continue
        if host:
            yield host


def _lets_anything_bind() -> bool:
    """Tell whether this host lets sockets have addresses that are not its own."""
    names = ("ipv4", "ipv6")
    paths = (Path(f"/proc/sys/net/{name}/ip_nonlocal_bind") for name in names)
    return any(path.exists() and path.read_text().strip() == "1" for path in paths)


def _is_own(host: str) -> bool | None:
    """Ask the kernel: it lets a socket have an address only if that is the host's own."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return None
    if _lets_anything_bind():
        return None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as one:
            try:
                one.bind(address)
            except OSError:
                continue
            return True
    return False
