"""Connections: the overhead of each request besides its own work."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

from loadstone.card.conclusion import Conclusion, UnansweredError, differs, no, yes
from loadstone.card.questions.shared import (
    five_reads,
    missing_object,
    two_objects,
    whole_reads,
)
from loadstone.card.store import Reply, Request, Store

STALL_NS = (38_000_000, 48_000_000)
"""Duration of a response that waits for a delayed acknowledgement (Nagle's algorithm)."""
WAIT_S = 1.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""A client's HTTP/2 connection preface (RFC 9113, 3.4) with empty settings."""


def keeps_open(store: Store) -> Conclusion:
    """Check that consecutive reads use one connection."""
    return _keeps(_reads(store))


def keeps_open_after_puts(store: Store) -> Conclusion:
    """Check that consecutive puts use one connection."""
    return _keeps(store.shared(two_objects)[1])


def keeps_open_after_errors(store: Store) -> Conclusion:
    """Check that a connection stays open after a read of an absent object."""
    return _keeps(store.shared(missing_object)[1])


def answers_at_once(store: Store) -> Conclusion:
    """Check that small responses do not wait 40 ms for a delayed acknowledgement."""
    replies = [reply for reply in _reads(store) if not reply.is_fresh]
    if len(replies) < 2:
        raise UnansweredError("each connection is closed")
    least, most = STALL_NS
    is_stalled = all(least <= reply.took_ns <= most for reply in replies)
    return no("each read takes some 40 ms") if is_stalled else yes()


def expects(store: Store) -> Conclusion:
    """Check that `Expect: 100-continue` gets a response before the body is sent."""
    request = Request(method="PUT", key=store.key("k"), body=b"later")
    # Not signed, because a proxy may remove the header.
    head = store.target.head(request, store.place).removesuffix(b"\r\n")
    with connect(store, ["http/1.1"]) as stream:
        stream.sendall(head + b"expect: 100-continue\r\n\r\n")
        first = _read(stream)
        if not first.startswith(b"HTTP/1.1 100"):
            return no("no word before the body" if not first else _line(first))
        stream.sendall(b"later")
        # Both responses may have arrived together.
        last = first.partition(b"\r\n\r\n")[2] or _read(stream)
    return yes() if _is_success(last) else differs(_line(last))


def takes_chunks(store: Store) -> Conclusion:
    """Check that a chunked put of unknown length is accepted; Amazon requires the length."""
    head = store.target.head(Request(method="PUT", key=store.key("k"), body=b"later"), store.place)
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length:")]
    chunked = b"\r\n".join(lines).removesuffix(b"\r\n") + b"transfer-encoding: chunked\r\n\r\n"
    with connect(store, ["http/1.1"]) as stream:
        stream.sendall(chunked + b"5\r\nlater\r\n0\r\n\r\n")
        answer = _read(stream)
    if not _is_success(answer):
        return no(_line(answer))
    return yes() if store.get("k").body == b"later" else no("acknowledged, and not written")


def speaks_http_1_0(store: Store) -> Conclusion:
    """Check that HTTP/1.0 works, which health checks and old programs use."""
    there, _ = store.shared(two_objects)
    head = store.target.head(Request(method="GET", key=there.key("k")), store.place)
    with connect(store, ["http/1.1"]) as stream:
        stream.sendall(head.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
        answer = _read(stream)
    return yes() if _is_success(answer) else no(_line(answer))


def speaks_http_2(store: Store) -> Conclusion:
    """Check for HTTP/2, negotiated by TLS, or with prior knowledge without TLS."""
    with connect(store, ["h2", "http/1.1"]) as stream:
        if isinstance(stream, ssl.SSLSocket):
            chosen = stream.selected_alpn_protocol()
            return yes("h2 by ALPN") if chosen == "h2" else no(f"ALPN: {chosen}")
        stream.sendall(PREFACE)
        answer = _read(stream)
    # The fourth byte is the type of the frame; 4 means SETTINGS.
    return yes("h2c") if len(answer) > 3 and answer[3] == 4 else no()


def has_tls(store: Store) -> Conclusion:
    """Check for TLS, and report the version and cipher that the load generator negotiates."""
    tls = store.shared(missing_object)[1][0].tls
    return no("plain HTTP") if tls is None else yes(", ".join(tls))


def does_not_redirect(store: Store) -> Conclusion:
    """Check that requests are answered without a redirect."""
    reply = store.shared(missing_object)[1][0]
    if 300 <= reply.status < 400:
        return no(f"{reply.words} to {reply.headers.get('location', 'nowhere')}")
    return yes()


def _reads(store: Store) -> list[Reply]:
    return store.together(five_reads) or store.shared(whole_reads)[1]


def _keeps(replies: list[Reply]) -> Conclusion:
    if not any(reply.is_kept for reply in replies):
        return no("closes each connection")
    fresh = sum(reply.is_fresh for reply in replies[1:])
    return differs(f"closes {fresh} of {len(replies) - 1}") if fresh else yes()


@contextlib.contextmanager
def connect(store: Store, protocols: list[str]) -> Iterator[socket.socket]:
    """Open a separate connection to the target's endpoint."""
    reply = store.shared(missing_object)[1][0]
    address, _, port = reply.peer.rpartition(":")
    settings = store.target.document["target"]["settings"]
    try:
        with socket.create_connection((address.strip("[]"), int(port)), WAIT_S) as plain:
            if reply.tls is None:
                yield plain
                return
            context = _tls_context(settings.get("tls") or {})
            context.set_alpn_protocols(protocols)
            head = store.target.head(Request(method="HEAD"), store.place)
            host = head.partition(b"\r\nhost: ")[2].partition(b"\r\n")[0].decode()
            name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
            with context.wrap_socket(plain, server_hostname=name.strip("[]")) as stream:
                yield stream
    except OSError as error:
        raise UnansweredError(f"a connection: {error}") from error


def _tls_context(settings: dict[str, object]) -> ssl.SSLContext:
    ca_file = settings.get("ca_file")
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    if settings.get("verify") is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _read(stream: socket.socket) -> bytes:
    """Return the next received bytes; empty if nothing arrives in time."""
    try:
        return stream.recv(65536)
    except TimeoutError:
        return b""


def _is_success(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.") and answer[8:12] in (b" 200", b" 201")


def _line(answer: bytes) -> str:
    return answer.partition(b"\r\n")[0].decode(errors="replace")[:80] or "no answer"
