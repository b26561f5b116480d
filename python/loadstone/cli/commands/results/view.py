"""Show the runs of a folder in a browser: reports, comparisons, and running runs live.

The page is served on 127.0.0.1 only, at an address with a secret token. It reads run folders and
writes nothing. A running run is read from its folder, so the load is not disturbed. Ctrl-C ends the
page, never a run.

From another host: ssh -L 8080:127.0.0.1:8080 HOST, and --port 8080 there.

\b
Examples:
  loadstone view
  loadstone view runs --port 8080
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import extras, plain
from loadstone.errors import InputError, LoadstoneError


def command(
    folder: Annotated[
        Path, typer.Argument(help="A folder of run folders, or one run.", metavar="[DIR]")
    ] = Path("runs"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on loopback; 0 chooses a free one.")
    ] = 0,
) -> None:
    if not extras.has("report"):
        raise extras.refuse("loadstone view", "report")
    if not folder.is_dir():
        raise InputError(f'there is no folder "{folder}" to show', "name a folder of run folders")
    from loadstone.view.page_server import PageServer

    try:
        server = PageServer(folder, port)
    except OSError as error:
        raise LoadstoneError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}",
            "name another --port, or leave it out",
        ) from error
    with server:
        print(plain(f"showing {folder} to everyone who has this address:"), file=sys.stderr)
        print(server.url, flush=True)
        print("Ctrl-C ends it.", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("ended", file=sys.stderr)
