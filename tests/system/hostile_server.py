"""A proxy that forwards requests to a sound store, and spoils chosen responses.

A spoiler is a function that decides, for one request, which response replaces the true one: other
bytes, too few, too many, too late, or none. It is called with the exchange and returns whether it
handled the request; otherwise the true response is forwarded.
"""

import contextlib
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
_BUFFER_BYTES = 1 << 16


class ConnectionLostError(Exception):
    """The client or the store has disconnected."""


@dataclass
class Message:
    """A request or a response: its first line, its unchanged headers, and its body."""

    start: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return None

    def head(self) -> bytes:
        """Return the bytes of the first line and the headers."""
        lines = [self.start, *(f"{key}: {value}" for key, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    @property
    def method(self) -> str:
        """Return the method of a request."""
        return self.start.split(" ", 1)[0]

    @property
    def path(self) -> str:
        """Return the path of a request, with its query."""
        return self.start.split(" ")[1]


@dataclass
class Exchange:
    """A request in progress, its client, and how many such requests were spoiled before."""

    server: "HostileServer"
    client: socket.socket
    request: Message
    number: int

    def true_answer(self) -> Message:
        """Return the store's true response."""
        with socket.create_connection((HOST, self.server.upstream_port)) as store:
            store.sendall(self.request.head() + self.request.body)
            return Reader(store).answer(self.request.method)

    def send(self, content: bytes) -> None:
        """Send bytes to the client."""
        try:
            self.client.sendall(content)
        except OSError as error:
            raise ConnectionLostError from error

    def send_status(self, status: str, *headers: tuple[str, str], body: bytes = b"") -> None:
        """Send a complete response that keeps the connection open."""
        length = ("Content-Length", str(len(body)))
        answer = Message(f"HTTP/1.1 {status}", [length, *headers], body)
        self.send(answer.head() + answer.body)

    def close(self) -> None:
        """Close the connection gracefully."""
        raise ConnectionLostError

    def reset(self) -> None:
        """Abort the connection, so that the client's kernel reports a reset."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionLostError

    def wait(self, seconds: float) -> None:
        """Wait silently, but not longer than the server lives."""
        if self.server.is_stopping.wait(seconds):
            raise ConnectionLostError


Spoiler = Callable[[Exchange], bool]


class Reader:
    """Reads HTTP messages from a socket."""

    def __init__(self, source: socket.socket) -> None:
        """Read from `source`."""
        self.source = source
        self.buffer = b""

    def request(self) -> Message | None:
        """Read a request; None if there is no further one."""
        message = self._head()
        # Another protocol's preface may look like a head, but not what follows it.
        if message is None or message.start.count(" ") != 2:
            return None
        message.body = self._body(message)
        return message

    def answer(self, method: str) -> Message:
        """Read the response to a request with `method`."""
        message = self._head()
        if message is None:
            raise ConnectionLostError
        if message.start.split(" ")[1] == "100":
            return self.answer(method)
        if method != "HEAD":
            message.body = self._body(message)
        return message

    def _head(self) -> Message | None:
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return None
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        start, *lines = head.decode("latin-1").split("\r\n")
        headers = [line.split(":", 1) for line in lines]
        return Message(start, [(key, value.strip()) for key, value in headers])

    def _body(self, message: Message) -> bytes:
        if (message.header("expect") or "").lower() == "100-continue":
            self.source.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            message.headers = [pair for pair in message.headers if pair[0].lower() != "expect"]
        if (message.header("transfer-encoding") or "").lower() == "chunked":
            return self._chunks()
        length = int(message.header("content-length") or 0)
        while len(self.buffer) < length:
            if not self._more():
                raise ConnectionLostError
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return body

    def _chunks(self) -> bytes:
        raw = b""
        # Unchanged, so that the forwarded bytes match the signature.
        while not raw.endswith(b"0\r\n\r\n"):
            if not self.buffer and not self._more():
                raise ConnectionLostError
            raw, self.buffer = raw + self.buffer, b""
        return raw

    def _more(self) -> bool:
        try:
            content = self.source.recv(_BUFFER_BYTES)
        except OSError:
            return False
        self.buffer += content
        return bool(content)


class HostileServer:
    """Listens, and handles each connection in its own thread."""

    def __init__(
        self, upstream_port: int, spoil: Spoiler, tls: ssl.SSLContext | None = None
    ) -> None:
        """Forward requests to the store at `upstream_port`, unless `spoil` handles them."""
        self.upstream_port = upstream_port
        self.spoil = spoil
        self.tls = tls
        self.is_stopping = threading.Event()
        self.connections = 0
        self.requests = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self._port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        """Return the server's URL for clients."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self._port}"

    def stop_listening(self) -> None:
        """Refuse every new connection from now on."""
        with contextlib.suppress(OSError):
            # After a mere close, a thread waiting in accept() would keep the socket alive.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def stop(self) -> None:
        """Refuse new connections and close open ones."""
        self.is_stopping.set()
        self.stop_listening()
        for thread in self._threads:
            thread.join(timeout=5)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.is_stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(30)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, ConnectionLostError), contextlib.closing(client):
            if self.tls is not None:
                client = self.tls.wrap_socket(client, server_side=True)
            reader = Reader(client)
            while not self.is_stopping.is_set():
                request = reader.request()
                if request is None:
                    return
                with self._lock:
                    self.requests += 1
                    number = self.requests
                exchange = Exchange(self, client, request, number)
                if not self.spoil(exchange):
                    answer = exchange.true_answer()
                    exchange.send(answer.head() + answer.body)


@contextlib.contextmanager
def hostile(
    upstream_port: int, spoil: Spoiler, tls: ssl.SSLContext | None = None
) -> Iterator[HostileServer]:
    """Run a hostile server for the duration of the block."""
    server = HostileServer(upstream_port, spoil, tls)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def self_made_authority(*, shows_itself: bool = False) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """Make an unknown certificate authority and a certificate; return a TLS context and the CA's
    file.

    With `shows_itself` the server presents the authority's own certificate.
    """
    with tempfile.TemporaryDirectory(prefix="loadstone-") as name:
        folder = Path(name)
        (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
        steps = [
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=unknown-authority"
            " -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE"
            " -addext subjectAltName=IP:127.0.0.1",
            "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr",
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
            " -extfile extensions -out server.pem",
        ]
        for step in steps:
            subprocess.run(
                ["openssl", *step.split()], cwd=folder, check=True, capture_output=True, timeout=60
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        name = "ca" if shows_itself else "server"
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        yield context, folder / "ca.pem"


def every(count: int, spoil: Spoiler) -> Spoiler:
    """Spoil one in `count` object reads, counted over all connections."""
    lock = threading.Lock()
    requests = 0

    def choose(exchange: Exchange) -> bool:
        nonlocal requests
        if not is_object_read(exchange.request):
            return False
        with lock:
            requests += 1
            is_chosen = requests % count == 0
        return is_chosen and spoil(exchange)

    return choose


def is_object_read(request: Message) -> bool:
    """Tell whether a request reads one of the objects of a dataset."""
    return request.method == "GET" and "/object-" in request.path


def wait_forever(exchange: Exchange) -> bool:
    """Never respond to the request."""
    exchange.wait(3600)
    return True


def drip(exchange: Exchange) -> bool:
    """Respond one byte at a time, so that data always arrives but never the whole response."""
    answer = exchange.true_answer()
    for byte in answer.head() + answer.body:
        exchange.send(bytes([byte]))
        exchange.wait(0.05)
    return True
