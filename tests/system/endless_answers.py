"""Responses that never end, or cause a further request each time, which could block a client for
ever.

Each states which requests it spoils; all others get their true responses.
"""

import itertools
import json
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from tests.system.hostile_server import Exchange, Message, Spoiler, wait_forever
from tests.system.spoilers import Case

_NUMBERS = itertools.count()


def _is_log_in(request: Message) -> bool:
    return request.path.startswith(("/v3", "/auth/v1.0"))


def _is_listing(request: Message) -> bool:
    query = parse_qs(urlsplit(request.path).query, keep_blank_values=True)
    return request.method == "GET" and bool({"list-type", "format", "marker", "limit"} & set(query))


def _redirect_to_itself(exchange: Exchange) -> bool:
    exchange.send_status("307 Temporary Redirect", ("Location", exchange.request.path))
    return True


def _unauthorized(exchange: Exchange) -> bool:
    exchange.send_status("401 Unauthorized")
    return True


def _unauthorized_but_log_ins(exchange: Exchange) -> bool:
    return not _is_log_in(exchange.request) and _unauthorized(exchange)


def _endless_body(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        exchange.send(b"1000\r\n" + b" " * 4096 + b"\r\n")


def _half_a_head(exchange: Exchange) -> bool:
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    exchange.wait(3600)
    return True


def _keys(first: int) -> list[str]:
    # Some look like the dataset's keys, but with numbers far beyond its size.
    return [f"object-{first:09d}0", f"object-{first:09d}x", f"x{first:09d}"]


def _pages(token: Callable[[], int]) -> Spoiler:
    """Answer each listing with a page that has a continuation."""

    def spoil(exchange: Exchange) -> bool:
        if not _is_listing(exchange.request):
            return False
        number = token()
        if "list-type" in exchange.request.path:
            entry = "<Contents><Key>{}</Key><Size>1</Size></Contents>"
            entries = "".join(entry.format(key) for key in _keys(number))
            more = f"<NextContinuationToken>t{number}</NextContinuationToken>"
            text = f"<ListBucketResult><IsTruncated>true</IsTruncated>{more}{entries}"
            body = f"{text}</ListBucketResult>".encode()
        else:
            facts = {"bytes": 1, "hash": "", "content_type": "", "last_modified": ""}
            page = [{"name": key, **facts} for key in _keys(number)]
            # A full page, so that the client requests another.
            limit = int(parse_qs(urlsplit(exchange.request.path).query).get("limit", ["10000"])[0])
            names = (f"y{number:09d}-{index}" for index in range(limit - len(page)))
            body = json.dumps(page + [{"name": name, **facts} for name in names]).encode()
        exchange.send_status("200 OK", ("Content-Type", "application/json"), body=body)
        return True

    return spoil


def _of_log_ins(spoil: Spoiler) -> Spoiler:
    return lambda exchange: _is_log_in(exchange.request) and spoil(exchange)


def _token_until(expires_at: str, life_s: str) -> Spoiler:
    """Issue valid tokens that claim to expire at that time."""

    def spoil(exchange: Exchange) -> bool:
        if not _is_log_in(exchange.request):
            return False
        answer = exchange.true_answer()
        headers = [
            (key, life_s if key.lower() == "x-auth-token-expires" else value)
            for key, value in answer.headers
        ]
        if exchange.request.path.startswith("/v3"):
            document = json.loads(answer.body)
            document["token"]["expires_at"] = expires_at
            answer.body = json.dumps(document).encode()
            headers = [pair for pair in headers if pair[0].lower() != "content-length"]
            headers.append(("Content-Length", str(len(answer.body))))
        answer.headers = headers
        exchange.send(answer.head() + answer.body)
        return True

    return spoil


def _case(name: str, spoil: Spoiler) -> Case:
    return Case(name, spoil, frozenset())


ENDLESS = [
    _case("endless body", _endless_body),
    _case("half a head", _half_a_head),
    _case("redirects to itself", _redirect_to_itself),
    _case("unauthorized for ever", _unauthorized),
    _case("listing without end", _pages(lambda: next(_NUMBERS))),
    _case("listing that repeats", _pages(lambda: 7)),
]

_LONG_AGO, _BEYOND = "2001-01-01T00:00:00.000000Z", "99999999999-01-01T00:00:00.000000Z"
OF_LOG_INS = [
    _case("log-in without answer", _of_log_ins(wait_forever)),
    _case("log-in with half a head", _of_log_ins(_half_a_head)),
    _case("log-in with an endless body", _of_log_ins(_endless_body)),
    _case("log-in that redirects", _of_log_ins(_redirect_to_itself)),
    _case("log-in refused", _of_log_ins(_unauthorized)),
    _case("tokens that nothing takes", _unauthorized_but_log_ins),
    _case("token that is over", _token_until(_LONG_AGO, "-1")),
    _case("token of no time", _token_until(time.strftime("%Y-%m-%dT%H:%M:%S.0Z"), "0")),
    _case("token without end", _token_until(_BEYOND, "9" * 30)),
]
