"""Measure the embedded store, end to end: two rounds of put, get (three times) and delete of 4 KiB
objects, by the S3 API, by the Swift API with Keystone, and in a directory.

It starts the store on loopback, runs the campaign, writes report.html and prints the results.
Client and store share this machine, so the numbers are an example, not a result.

\b
Examples:
  loadstone demo -o /tmp/demo
  loadstone demo --blocks 6
"""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli.flags import RunFolder
from loadstone.cli.running import session
from loadstone.errors import LoadstoneError

NEEDED = ("HOME", "LANG", "LC_", "LD_LIBRARY_PATH", "LOADSTONE_", "PATH", "PYTHON", "TMPDIR")
"""Prefixes of the environment variables that the store's process needs."""

CAMPAIGN = """\
# The campaign of `loadstone demo`: report 1's shape on a small scale.
name: demo
description: 4 KiB objects on the embedded store by two APIs, and in a directory
seed: 1
targets:
  s3:
    driver: s3
    endpoint: http://{address}
    region: us-east-1
    access_key: {{env: LOADSTONE_ACCESS_KEY}}
    secret_key: {{env: LOADSTONE_SECRET_KEY}}
  swift:
    driver: swift
    auth_url: http://{address}/v3
    project: test
    user: demo
    password: {{env: LOADSTONE_PASSWORD}}
  directory:
    driver: file
    path: {directory}
dataset: {{containers: 10, objects: {objects}, size: 4KiB, prefix: "demo-{{round}}-"}}
load: {{threads: 32}}
{repetition}
phases:
  - {{op: put}}
  - {{op: get, iterations: 3}}
  - {{op: delete}}
"""


def command(
    output: RunFolder = None,
    objects: Annotated[int, typer.Option(help="Objects of each round.", min=10)] = 20_000,
    blocks: Annotated[
        int | None,
        typer.Option(
            help="Interleaved blocks instead of two rounds; six can decide which is faster.", min=1
        ),
    ] = None,
) -> int:
    from loadstone.campaign.parse import parse_campaign

    folder = output or session.default_folder("demo")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Next to the run instead of in the temporary directory, which is often in memory.
    with (
        tempfile.TemporaryDirectory(prefix=".loadstone-demo-", dir=folder.parent) as directory,
        _store() as address,
    ):
        text = CAMPAIGN.format(
            address=address,
            directory=Path(directory).resolve(),
            objects=objects,
            repetition="rounds: 2" if blocks is None else f"blocks: {blocks}",
        )
        campaign = parse_campaign(text, origin="demo")
        return session.measure(
            campaign, folder, text=text, command="loadstone demo", with_page=True
        )


@contextmanager
def _store() -> Iterator[str]:
    """Run the embedded store in its own process, so that its CPU time is not counted as the
    client's.
    """
    os.environ |= {
        "LOADSTONE_ACCESS_KEY": "demo",
        "LOADSTONE_SECRET_KEY": secrets.token_hex(16),
        "LOADSTONE_USER": "demo",
        "LOADSTONE_PASSWORD": secrets.token_hex(16),
    }
    store = subprocess.Popen(
        [sys.executable, "-m", "loadstone", "serve", "--port", "0"],
        # The store must not get the user's own secrets.
        env={name: value for name, value in os.environ.items() if name.startswith(NEEDED)},
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C stops only the run; the store is stopped once the run has written its results.
        start_new_session=True,
    )
    try:
        assert store.stdout is not None
        words = store.stdout.readline().split()
        if len(words) < 3:
            raise LoadstoneError("the embedded store did not start", 'try "loadstone serve"')
        yield words[2].removeprefix("http://")
    finally:
        store.terminate()
        store.communicate()
