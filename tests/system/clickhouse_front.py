"""The HTTP interface of a ClickHouse server over chdb, as far as loadstone's client uses it.

Package registries have no current server. The engine is ClickHouse's own; this file imitates only
its interface: queries, settings and inserts of one client at a time.

python -m tests.system.clickhouse_front FOLDER [PASSWORD]    prints its address
"""

import base64
import http.server
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb import session

ONE_AT_A_TIME = threading.Lock()
_NO_SETTINGS = {
    "query", "database", "query_id", "session_id", "default_format", "enable_http_compression",
    "client_protocol_version", "wait_end_of_query", "send_progress_in_http_headers",
}  # fmt: skip


class Front(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    engine: Any
    folder: Path
    password: str

    def do_POST(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        if self.headers.get("X-ClickHouse-Key", "") != self.password and not self._has_basic():
            self._say(
                403, b"Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)"
            )
            return
        try:
            with ONE_AT_A_TIME:
                answer = self._answer(asked, body)
        except RuntimeError as error:
            self._say(500, str(error).encode())
        else:
            self._say(200, answer)

    def do_GET(self) -> None:
        self.do_POST()

    def _has_basic(self) -> bool:
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        return kind == "Basic" and base64.b64decode(credentials).decode().endswith(
            f":{self.password}"
        )

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, asked: dict[str, str], body: bytes) -> bytes:
        if asked.get("database"):
            self.engine.query(f"USE `{asked['database']}`")
        for name, value in asked.items():
            if name not in _NO_SETTINGS:
                self.engine.query(f"SET {name} = '{value}'")
        text = asked.get("query", "")
        if not text:
            text, body = body.decode(), b""
        words, _, form = text.strip().rstrip(";").rpartition("FORMAT ")
        if body:
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".parquet") as file:
                file.write(body)
                file.flush()
                self.engine.query(f"{words} SELECT * FROM file('{file.name}', {form.strip()})")
            return b""
        form = form.strip() if words else "TabSeparated"
        return bytes(self.engine.query(words or text, form).bytes() or b"")

    def _say(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Timezone", "UTC")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:
        pass


def main() -> None:
    """Serve until ended."""
    Front.folder = Path(sys.argv[1])
    Front.password = sys.argv[2] if len(sys.argv) > 2 else ""
    Front.engine = session.Session(str(Front.folder / "store"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
