"""OpenStack Swift with TempAuth, with Keystone v3, or with both, as plain processes.

Three storage policies: `single` (one copy), `triple` (three copies) and `ec` (erasure code 4+2),
and the S3 API over the same objects.
"""

import contextlib
import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.system.servers import keystone, swift_files
from tests.system.servers.install import python_of
from tests.system.servers.processes import (
    HOST,
    Processes,
    ServerError,
    answers,
    free_ports,
    scratch_directory,
)
from tests.system.servers.swift_files import POLICIES, TEMPAUTH_KEY, TEMPAUTH_USER, Ports

AUTHS = ("tempauth", "keystone", "both")

Endpoints = dict[str, dict[str, str]]


@contextlib.contextmanager
def running(auth: str = "both") -> Iterator[Endpoints]:
    """Run an empty Swift; give what a client needs to know, one entry for each way to log in."""
    with scratch_directory("swift") as directory:
        processes = Processes(directory)
        try:
            yield up(directory, processes, auth)
        finally:
            processes.stop()


def up(directory: Path, processes: Processes, auth: str) -> Endpoints:
    """Start every process and wait until the first request is answered."""
    ports = Ports.from_first(free_ports(6))
    swift_files.write(directory, ports, auth)
    _start_memcached(processes, ports)
    with_keystone = auth in ("keystone", "both")
    is_new = with_keystone and keystone.prepare(directory, processes, ports)
    if with_keystone:
        keystone.start(directory, processes, ports)
    _start_swift(directory, processes, ports)
    proxy = f"http://{HOST}:{ports.proxy}"
    endpoints: Endpoints = {"swift": {"proxy": proxy, "policies": " ".join(POLICIES)}}
    if with_keystone:
        endpoints["keystone"] = keystone.fill(directory, processes, ports, is_new)
    processes.wait_for("swift proxy", lambda: answers(f"{proxy}/healthcheck"))
    if with_keystone:
        # The proxy logs in to Keystone with its first request. Several first requests at once get
        # in each other's way there, and some are answered 401; so one goes before all.
        _touch(*keystone.account_of(endpoints["keystone"]))
    if auth in ("tempauth", "both"):
        login = {"auth_url": f"{proxy}/auth/v1.0", "user": TEMPAUTH_USER, "password": TEMPAUTH_KEY}
        keys = {"s3_access_key": TEMPAUTH_USER, "s3_secret_key": TEMPAUTH_KEY}
        endpoints["tempauth"] = {**login, **keys}
    return endpoints


def _touch(storage_url: str, token: str) -> None:
    headers = {"X-Auth-Token": token}
    request = urllib.request.Request(storage_url, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def _start_memcached(processes: Processes, ports: Ports) -> None:
    program = shutil.which("memcached", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin")
    if program is None:
        raise ServerError("memcached is missing; on Debian: apt-get install memcached")
    # It refuses to run as root unless told so.
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [program, "-l", HOST, "-p", str(ports.memcached), "-U", "0", "-m", "64", "-t", "1"]
    processes.start("memcached", [*command, *user])


def _start_swift(directory: Path, processes: Processes, ports: Ports) -> None:
    etc = directory / "etc"
    python = [python_of("swift"), "-W", "ignore"]
    numbers = [str(ports.account), str(ports.container), str(ports.object)]
    processes.run("rings", [*python, etc / "rings.py", etc, *numbers])
    for service in ("account", "container", "object", "proxy"):
        processes.start(service, [*python, etc / "launch.py", etc, service])
    for service in ("account", "container", "object"):
        url = f"http://{HOST}:{getattr(ports, service)}/healthcheck"
        processes.wait_for(f"swift {service} server", lambda url=url: answers(url))
