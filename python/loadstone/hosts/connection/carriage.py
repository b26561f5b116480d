"""How dask.distributed is set up here: quiet, on one address, and known by certificate only.

A scheduler and a worker of dask are made to be a cluster for Python functions. Here they carry
messages of a controller and its agents: what would disturb a load beside them is turned off.
"""

import logging
import platform
import ssl
from collections.abc import Mapping
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.batched import BatchedSend
from distributed.security import Security

from loadstone.hosts.connection.identity import Identity

MESSAGE = "loadstone"
"""The one kind of message, in both directions, that is ours."""

SETTINGS: Mapping[str, Any] = {
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.comm.retry.count": 0,
    "distributed.comm.timeouts.connect": "20s",
    # Dask allows no less.
    "distributed.comm.timeouts.tcp": "11s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}


def settle() -> None:
    """Set dask up for this process."""
    dask.config.set(SETTINGS)
    # Dask asks platform for it, which runs `uname -p`: a program that would inherit the secrets in
    # our environment.
    vars(platform.uname())["processor"] = platform.machine()
    # Our own errors say what goes wrong, once.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    logging.getLogger("tornado").setLevel(logging.CRITICAL + 1)


def security(authority: str, identity: Identity) -> Security:
    """Return mutual TLS, in which both sides show a certificate of one authority."""
    key, certificate = identity.key, identity.certificate
    # Dask's settings of a user's own have no say here: all of them are given.
    return Security(  # type: ignore[no-untyped-call]
        require_encryption=True,
        tls_ca_file=authority,
        tls_scheduler_cert=certificate,
        tls_scheduler_key=key,
        tls_worker_cert=certificate,
        tls_worker_key=key,
    )


def context_of(security: Security) -> ssl.SSLContext:
    """Return the context by which a host connects to the controller."""
    arguments = security.get_connection_args("worker")  # type: ignore[no-untyped-call]
    context: ssl.SSLContext = arguments["ssl_context"]
    return context


def gather_no_longer(stream: BatchedSend) -> None:
    """Let what is sent next go out at once; called before each message.

    Dask gathers messages for some milliseconds of the wall clock. When that clock is set back in
    between, dask holds every message for as long as it was set back.
    """
    stream.next_deadline = None


class QuietScheduler(Scheduler):
    """A scheduler that listens on its one address: without the pages of dask's dashboard."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start none: it would be open to everybody."""


class QuietWorker(Worker):
    """A worker without dask's dashboard."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start none: it would be open to everybody."""
