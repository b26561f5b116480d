"""Serves the pages on loopback to clients with the token; only GET, and nothing is written."""

import hmac
import json
import secrets
import socketserver
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from loadstone.errors import LoadstoneError
from loadstone.report.pages.frame import script_hashes
from loadstone.view.live_run import LiveRun
from loadstone.view.rendering import UNFIT, PageRenderer, RenderedPage
from loadstone.view.run_list import ListedRun, RunList

LOOPBACK = "127.0.0.1"
OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host headers of browsers on this host, or through a tunnel. A page of another site that has bound
its own name to this address (DNS rebinding) sends that name.
"""

IDLE_S = 10.0


class PageServer(ThreadingHTTPServer):
    """One folder of runs, on a port of loopback."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self.runs = RunList(folder)
        self.pages = PageRenderer(self.runs)
        self._live: dict[str, tuple[threading.Lock, LiveRun]] = {}
        self._live_lock = threading.Lock()
        super().__init__((LOOPBACK, port), _PageRequest)

    @property
    def url(self) -> str:
        """Return the URL of the list of runs, including the token."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def server_bind(self) -> None:
        """Bind without a DNS query for this host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect."""

    def live(self, run: ListedRun) -> dict[str, Any]:
        """Return the current state of a run."""
        with self._live_lock:
            lock, live = self._live.setdefault(run.id, (threading.Lock(), LiveRun(run.path)))
        with lock:
            return live.read()


class _PageRequest(BaseHTTPRequestHandler):
    server: PageServer
    timeout = IDLE_S
    server_version = "loadstone"
    sys_version = ""

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or _name_of(hosts[0]) not in OWN_NAMES:
            self._send(403, "text/plain", b"this page is for browsers on this host\n")
            return
        parts = urlsplit(self.path)
        token, _, rest = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            words = b"open the whole address that loadstone view printed: it holds a token\n"
            self._send(403, "text/plain", words)
            return
        kind, _, name = rest.partition("/")
        match kind, name:
            case "", "":
                self._page(self.server.pages.index())
            case "compare", "":
                self._compare(parse_qs(parts.query).get("run") or [])
            case "run" | "live", _:
                run = self.server.runs.find(name.removesuffix(".json"))
                if run is None:
                    self._absent()
                elif kind == "run" and name.endswith(".json"):
                    self._json(self.server.pages.answer(run))
                elif kind == "run":
                    self._page(self.server.pages.report(run))
                elif name.endswith(".json"):
                    self._live(run)
                else:
                    self._page(self.server.pages.live(run))
            case _:
                self._absent()

    do_HEAD = do_GET  # noqa: N815

    def _absent(self) -> None:
        words = "There is no such page, or the run is no longer in its folder."
        self._page(self.server.pages.message(words, status=404))

    def _compare(self, names: list[str]) -> None:
        if len(names) != 2:
            words = "A comparison needs two runs: go back, and tick two."
            self._page(self.server.pages.message(words, status=400))
            return
        a, b = (self.server.runs.find(name) for name in names)
        if a is None or b is None:
            self._absent()
            return
        # The older run is the baseline, whatever the order of selection.
        first, second = sorted((a, b), key=lambda run: run.started)
        self._page(self.server.pages.comparison(first, second))

    def _live(self, run: ListedRun) -> None:
        state: dict[str, Any] = {"state": run.state, "problem": run.problem}
        try:
            state |= self.server.live(run)
        except LoadstoneError as error:
            state["problem"] = error.message
        except UNFIT as error:
            state["problem"] = f"{type(error).__name__}: {error}"
        self._json(state)

    def _json(self, document: Mapping[str, object]) -> None:
        self._send(200, "application/json", json.dumps(document).encode())

    def _page(self, page: RenderedPage) -> None:
        self._send(page.status, "text/html", page.body, script_hashes(page.template))

    def _send(self, status: int, kind: str, body: bytes, scripts: tuple[str, ...] = ()) -> None:
        self.send_response(status)
        allowed = " ".join(f"'{script}'" for script in scripts) or "'none'"
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": (
                f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline';"
                " img-src data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none';"
                " frame-ancestors 'none'"
            ),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing, because the URL contains the token."""


def _name_of(host: str) -> str:
    """Return a Host header without its port, which a tunnel may have changed."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdigit() else host.strip().lower()
