"""Serve the embedded object store: S3 and Swift over one account, in memory or in a directory.

It listens on loopback by default, and requires credentials: LOADSTONE_ACCESS_KEY and
LOADSTONE_SECRET_KEY for S3, LOADSTONE_USER and LOADSTONE_PASSWORD for Swift.

With --null it stores nothing and checks no credentials: writes are dropped, and reads get bytes
that do not verify. Run on another host, it shows the ceiling of load generator and network
together: bench it with --verify 0 --keep-data, then: loadstone analyse RUN --null NULL_RUN

\b
Examples:
  LOADSTONE_ACCESS_KEY=me LOADSTONE_SECRET_KEY=secret loadstone serve --port 9000
  LOADSTONE_USER=me LOADSTONE_PASSWORD=secret loadstone serve --data /srv/objects
  loadstone serve --null --bind 10.0.0.5 --object-size 1MiB
"""

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from loadstone import units
from loadstone.cli import plain
from loadstone.errors import InputError, LoadstoneError

PAIRS = (
    ("access_key", "LOADSTONE_ACCESS_KEY", "secret_key", "LOADSTONE_SECRET_KEY"),
    ("user", "LOADSTONE_USER", "password", "LOADSTONE_PASSWORD"),
)


def command(
    port: Annotated[int, typer.Option("--port", "-p", help="Port; 0 chooses a free one.")] = 9000,
    bind: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    data: Annotated[
        Path | None, typer.Option(help="Directory for the objects; default: memory.")
    ] = None,
    fsync: Annotated[
        bool, typer.Option("--fsync", help="With --data: flush before each acknowledgement.")
    ] = False,
    memory: Annotated[str, typer.Option(help="Maximum memory for objects.")] = "4GiB",
    region: Annotated[str, typer.Option(help="Region of the store.")] = "us-east-1",
    token_life: Annotated[str, typer.Option(help="Lifetime of a Swift token.")] = "1h",
    threads: Annotated[int | None, typer.Option(help="Threads; default: one per core.")] = None,
    null: Annotated[
        bool, typer.Option("--null", help="Store nothing, and answer at once.")
    ] = False,
    object_size: Annotated[
        str | None, typer.Option(help="With --null: size of every object; default 4KiB.")
    ] = None,
    burn: Annotated[
        int,
        typer.Option(
            min=0,
            help="Processor time to waste on each request, in rounds of about 1 ns: a slower "
            "build, to try `loadstone ab` with.",
        ),
    ] = 0,
) -> None:
    from loadstone import _loadgen

    if object_size is not None and not null:
        raise InputError(
            "--object-size needs --null", "without --null, objects have the sizes that were written"
        )
    if null:
        if data is not None:
            raise InputError("--data does not apply to --null, which stores nothing")
        if burn:
            raise InputError("--burn does not apply to --null, which answers at once")
        _serve_null(bind, port, threads, units.parse_size(object_size or "4KiB"))
        return
    config: dict[str, object] = {
        "bind": bind,
        "port": port,
        "region": region,
        "memory_bytes_max": units.parse_size(memory),
        "token_seconds": units.parse_duration_ns(token_life) // 1_000_000_000,
    }
    config |= {"data": str(data)} if data is not None else {}
    config |= {"fsync": True} if fsync else {}
    config |= {"threads": threads} if threads is not None else {}
    config |= {"faults": {"burn_rounds": burn}} if burn else {}
    config |= _credentials()
    _run(lambda: _loadgen.Store(json.dumps(config)), "S3; Swift at /auth/v1.0 and /v3")


def _serve_null(bind: str, port: int, threads: int | None, object_bytes: int) -> None:
    from loadstone import _loadgen

    config: dict[str, object] = {"bind": bind, "port": port, "object_bytes": object_bytes}
    config |= {"threads": threads} if threads is not None else {}
    # Each connection needs a descriptor, and the default limit is too low for a server.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _run(lambda: _loadgen.NullServer(json.dumps(config)), "S3; Swift at /v3; stores nothing")


def _run(start: Callable[[], Any], what: str) -> None:
    """Start a server, print its address, and serve until a signal ends it."""
    try:
        server = start()
    except (OSError, ValueError) as error:
        message, _, hint = str(error).partition("\nhint: ")
        raise LoadstoneError(message, hint or None) from error
    for line in getattr(server, "damage", ()):
        print(plain(f"warning: damaged and not served: {line}"), file=sys.stderr)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    # A caller may stop the server as soon as it has read this line.
    print(f"listening on http://{server.address} ({what})", flush=True)
    ended.wait()
    server.stop()


def _credentials() -> dict[str, object]:
    credentials: dict[str, object] = {}
    for name, name_variable, secret, secret_variable in PAIRS:
        if name_variable in os.environ and secret_variable in os.environ:
            credentials[name] = os.environ[name_variable]
            credentials[secret] = {"env": secret_variable}
    if not credentials:
        raise InputError(
            "the store has no credentials",
            "set LOADSTONE_ACCESS_KEY and LOADSTONE_SECRET_KEY for S3, "
            "LOADSTONE_USER and LOADSTONE_PASSWORD for Swift, or all four",
        )
    return credentials
