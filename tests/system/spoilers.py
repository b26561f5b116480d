"""Ways in which a hostile server spoils a response, and the outcomes that loadstone must record."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.trials import SECOND_NS
from tests.system.hostile_server import Exchange, Message, Spoiler, drip, wait_forever


@dataclass(frozen=True)
class Case:
    """A kind of misbehaviour, and the outcomes that count as having understood it."""

    name: str
    spoil: Spoiler
    outcomes: frozenset[str]

    @property
    def timeout_ns(self) -> int:
        """Give a request little time only where its time runs out: good answers may be slow."""
        return 2 * SECOND_NS if "timeout" in self.outcomes else 60 * SECOND_NS


def error_document(code: str) -> bytes:
    """Return the body of an answer of S3 that refuses."""
    return f"<Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode()


def refuse(status: str, *headers: tuple[str, str], body: bytes = b"") -> Spoiler:
    """Answer with a status."""

    def spoil(exchange: Exchange) -> bool:
        exchange.send_status(status, *headers, body=body)
        return True

    return spoil


def _changed(change: Callable[[Message], Message]) -> Spoiler:
    """Send the true answer after a change."""

    def spoil(exchange: Exchange) -> bool:
        answer = change(exchange.true_answer())
        exchange.send(answer.head() + answer.body)
        return True

    return spoil


def _raw(content: bytes, ends: bool = True) -> Spoiler:
    """Send bytes that may be no HTTP at all, and end the connection."""

    def spoil(exchange: Exchange) -> bool:
        exchange.send(content)
        if ends:
            exchange.close()
        return True

    return spoil


def _close(exchange: Exchange) -> bool:
    exchange.close()
    return True


def _reset(exchange: Exchange) -> bool:
    exchange.reset()
    return True


def _part_then(end: Callable[[Exchange], None]) -> Spoiler:
    def spoil(exchange: Exchange) -> bool:
        answer = exchange.true_answer()
        exchange.send(answer.head() + answer.body[: len(answer.body) // 2])
        # Time for the first half to be read, so that a reset does not overtake it.
        exchange.wait(0.1)
        end(exchange)
        return True

    return spoil


def _half_a_head(exchange: Exchange) -> bool:
    exchange.send(exchange.true_answer().head()[:40])
    exchange.close()
    return True


def _flip(answer: Message) -> Message:
    body = bytearray(answer.body)
    if body:
        body[len(body) // 2] ^= 0x10
    return Message(answer.start, answer.headers, bytes(body))


def _resized(length: int) -> Callable[[Message], Message]:
    """Send a body of another length, and say so truthfully in the head."""

    def change(answer: Message) -> Message:
        body = (answer.body + bytes(1000))[: len(answer.body) + length]
        return Message(answer.start, _with_length(answer, len(body)), body)

    return change


def _surplus(answer: Message) -> Message:
    """Send more than the head says."""
    return Message(answer.start, answer.headers, answer.body + b"surplus" * 20)


def _chunked(answer: Message) -> Message:
    half = len(answer.body) // 2
    parts = [answer.body[:half], answer.body[half:], b""]
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return Message(answer.start, _chunked_headers(answer), body)


def _bad_chunks(answer: Message) -> Message:
    return Message(
        answer.start, _chunked_headers(answer), b"zz\r\n" + answer.body + b"\r\n0\r\n\r\n"
    )


def _chunked_headers(answer: Message) -> list[tuple[str, str]]:
    return [*_without_length(answer), ("Transfer-Encoding", "chunked")]


def _with_header(name: str, value: str) -> Callable[[Message], Message]:
    def change(answer: Message) -> Message:
        return Message(answer.start, [*answer.headers, (name, value)], answer.body)

    return change


def _claims_length(value: str) -> Callable[[Message], Message]:
    def change(answer: Message) -> Message:
        headers = [*_without_length(answer), ("Content-Length", value)]
        return Message(answer.start, headers, answer.body)

    return change


def _closing(exchange: Exchange) -> bool:
    answer = _with_header("Connection", "close")(exchange.true_answer())
    exchange.send(answer.head() + answer.body)
    exchange.close()
    return True


def _until_close(exchange: Exchange) -> bool:
    """Answer as HTTP/1.0 does: no length, the end of the connection is the end of the body."""
    answer = exchange.true_answer()
    headers = [*_without_length(answer), ("Connection", "close")]
    exchange.send(Message("HTTP/1.0 200 OK", headers, b"").head() + answer.body)
    exchange.close()
    return True


def _without_length(answer: Message) -> list[tuple[str, str]]:
    return [pair for pair in answer.headers if pair[0].lower() != "content-length"]


def _with_length(answer: Message, length: int) -> list[tuple[str, str]]:
    return [*_without_length(answer), ("Content-Length", str(length))]


def _case(name: str, spoil: Spoiler, *outcomes: str) -> Case:
    return Case(name, spoil, frozenset(outcomes))


_XML_ERROR = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>later</Message></Error>"
_OTHER_SITE = ("Location", "http://127.0.0.1:1/elsewhere")

# Those whose outcome is "ok" are odd but within the protocol: they must do no harm.
CASES = [
    _case("internal error", refuse("500 Internal Server Error"), "http_500"),
    _case("slow down", refuse("503 Slow Down", body=_XML_ERROR), "throttled"),
    _case("too many requests", refuse("429 Too Many Requests", ("Retry-After", "1")), "throttled"),
    _case("forbidden", refuse("403 Forbidden", body=_XML_ERROR), "http_403"),
    _case("not found", refuse("404 Not Found"), "http_404"),
    _case("redirect", refuse("307 Temporary Redirect", _OTHER_SITE), "http_307"),
    _case("success without a body", refuse("204 No Content"), "http_204", "truncated"),
    _case("unasked part", refuse("206 Partial Content", body=b"x"), "http_206", "truncated"),
    _case("closed before the answer", _close, "closed"),
    _case("reset before the answer", _reset, "reset", "closed"),
    _case("closed inside the head", _half_a_head, "closed", "truncated", "protocol"),
    _case("closed inside the body", _part_then(Exchange.close), "truncated"),
    _case("reset inside the body", _part_then(Exchange.reset), "reset", "truncated"),
    _case("stalled before the answer", wait_forever, "timeout"),
    _case("stalled inside the body", _part_then(lambda exchange: exchange.wait(3600)), "timeout"),
    _case("a byte at a time", drip, "timeout"),
    _case("one wrong bit", _changed(_flip), "corrupt"),
    _case("shorter than written", _changed(_resized(-96)), "truncated"),
    _case("longer than written", _changed(_resized(96)), "overlong"),
    # The surplus bytes may be seen with this answer or spoil the next one on the connection.
    _case("more than announced", _changed(_surplus), "ok", "protocol", "overlong"),
    _case("no http", _raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "protocol", "closed"),
    _case("binary", _raw(bytes(range(256)) * 16), "protocol"),
    _case("no status", _raw(b"HTTP/1.1 abc\r\n\r\n"), "protocol"),
    _case("endless head", _raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (4 << 20)), "protocol"),
    _case("endless headers", _raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500_000), "protocol"),
    _case("no end of the line", _raw(b"HTTP/1.1 200 OK\r\n\x00\x00\r\n\r\n"), "protocol"),
    _case("length below zero", _changed(_claims_length("-1")), "protocol"),
    _case("length beyond all", _changed(_claims_length("9" * 40)), "protocol"),
    _case("length that no memory holds", _changed(_claims_length("9" * 15)), "overlong", "timeout"),
    _case("two lengths", _changed(_with_header("Content-Length", "7")), "protocol"),
    _case("bad chunks", _changed(_bad_chunks), "protocol"),
    _case("chunked", _changed(_chunked), "ok"),
    _case("connection closed each time", _closing, "ok"),
    _case("until the end of the connection", _until_close, "ok"),
    _case("interim answers", _raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3, ends=False), "timeout"),
]
