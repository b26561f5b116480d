"""Whether a server answers, where the server says anything but that."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from loadstone.execution.programs import answers
from loadstone.execution.programs.answers import answer_of


@contextlib.contextmanager
def saying(
    speak: Callable[[socket.socket], object], requests: list[bytes] | None = None
) -> Iterator[str]:
    """Accept one connection, speak on it once it has asked, and close it; keep its request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                request = connection.recv(4096)
                if requests is not None:
                    requests.append(request)
                speak(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/ready?a=b"
        thread.join()


@pytest.mark.parametrize(
    ("first_bytes", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", 200),
        (b"HTTP/1.0 503\r\n", 503),
        # A redirect is an answer; where it leads is not asked.
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", 302),
        (b"", None),
        (b"hello\r\n", None),
        (b"HTTP/1.1 99999 x\r\n\r\n", None),
        (b"\x16\x03\x01" + b"\0" * 100, None),
        (b"HTTP/1.1 2" + b"x" * (1 << 20), None),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, 200),
    ],
)
def test_an_answer_needs_a_status(first_bytes: bytes, status: int | None) -> None:
    with saying(lambda connection: connection.sendall(first_bytes)) as url:
        assert answer_of(url) == status


def test_a_user_and_password_of_the_address_stay_out_of_the_request() -> None:
    requests: list[bytes] = []
    with saying(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n"), requests) as url:
        assert answer_of(url.replace("http://", "http://somebody:pass-word@")) == 200
    assert b"Host: 127.0.0.1:" in requests[0]
    assert b"pass-word" not in requests[0]


def test_a_server_that_answers_in_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 0.5)
    drops = []
    is_over = threading.Event()

    def drip(connection: socket.socket) -> None:
        while not is_over.wait(0.1):
            connection.send(b"H")
            drops.append(1)

    with saying(drip) as url:
        try:
            assert answer_of(url) is None
            # Else each drop would begin the wait anew, up to the longest line.
            assert len(drops) < answers.LINE_MAX
        finally:
            is_over.set()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://", "http://[::1", "http://ü:x/"])
def test_an_address_without_a_server_has_no_answer(url: str) -> None:
    assert answer_of(url) is None
