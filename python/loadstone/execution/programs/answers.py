"""Checks whether a server responds."""

import re
import socket
import time
from typing import Final
from urllib.parse import urlsplit

ANSWER_S: Final = 2.0
"""Longest time until the first line of a response is complete, in seconds."""

LINE_MAX: Final = 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)\b")


def answer_of(url: str) -> int | None:
    """Return the HTTP status of a URL; None if there is no response.

    Redirects are not followed, and certificates not verified; the load does that.
    """
    give_up = time.monotonic() + ANSWER_S
    try:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        host = parts.netloc.rpartition("@")[2]
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        address = (parts.hostname or "", parts.port or (443 if is_tls else 80))
        with socket.create_connection(address, ANSWER_S) as plain:
            stream = _tls(plain) if is_tls else plain
            with stream:
                stream.sendall(head)
                return _status(stream, give_up)
    except (OSError, ValueError):
        return None


def _status(stream: socket.socket, give_up: float) -> int | None:
    line = b""
    while b"\n" not in line and len(line) < LINE_MAX:
        stream.settimeout(max(0.001, give_up - time.monotonic()))
        piece = stream.recv(LINE_MAX)
        if not piece:
            break
        line += piece
    match = _STATUS.match(line)
    return int(match[1]) if match is not None else None


def _tls(plain: socket.socket) -> socket.socket:
    # Imported late, because most runs query no server.
    import ssl

    # Without this host's certificate authorities: loading them would take most of the time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)
