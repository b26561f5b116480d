"""Runs null servers, which store nothing, in separate processes for the duration of a block.

They share this host's CPU with the load generator, but separate processes keep its own CPU time
apart. A server ends when its standard input is closed, so it never outlives this process.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadstone.errors import LoadstoneError
from loadstone.execution import secrets


@contextlib.contextmanager
def null_servers(trials: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield the addresses of servers that answer reads with the objects of these trials."""
    if not trials:
        yield []
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "loadstone.execution.programs.null_servers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=secrets.inherited(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps([{"trial": trial} for trial in trials]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            _, errors = process.communicate()
            raise LoadstoneError(
                f"the server that stores nothing did not start: {errors.strip().splitlines()[-1:]}"
            )
        yield json.loads(line)
    finally:
        # Closing its input ends the server; unread output does not matter.
        with contextlib.suppress(OSError, ValueError):
            process.communicate()


def _serve() -> None:
    import resource

    from loadstone import _loadgen

    # Each connection needs a descriptor, and the default limit is too low for a server.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    configs = json.loads(sys.stdin.readline())
    servers = [_loadgen.NullServer(json.dumps(config)) for config in configs]
    sys.stdout.write(json.dumps([server.address for server in servers]) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    for server in servers:
        server.stop()


if __name__ == "__main__":
    _serve()
