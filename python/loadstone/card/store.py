"""The store as questions use it: requests below a prefix in a card's place, and whole replies."""

import json
import re
import threading
import time
import xml.etree.ElementTree as ET
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote_plus
from xml.sax.saxutils import escape

from loadstone import _loadgen
from loadstone.card.conclusion import DeniedError, UnansweredError

QUESTION_S: Final = 5.0
"""Time limit of one question of a card, in seconds."""
SWIFT: Final = "Swift"
DENIED: Final = (401, 403)

Signing = str | Mapping[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; a key is below the question's own prefix unless `is_whole_key`."""

    method: str
    key: str = ""
    query: Mapping[str, str | None] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    signing: Signing = "usual"
    signed_ago_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response; `status` is 0 if there was no head, and `failure` then has the reason."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    failure: str | None
    is_fresh: bool
    is_kept: bool
    took_ns: int
    tls: tuple[str, str] | None
    peer: str

    @property
    def is_ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        """The code of S3's error document; empty without one."""
        code = re.search(rb"<Code>([A-Za-z0-9._-]{1,60})</Code>", self.body)
        return code[1].decode() if code and not self.is_ok else ""

    @property
    def words(self) -> str:
        """Status and code, as details show them."""
        return f"{self.status} {self.code}".strip() if self.status else str(self.failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a listing; keys in listed order, decoded."""

    keys: list[str]
    prefixes: list[str]
    next: str | None
    is_encoded: bool
    text: str


class AskedTarget:
    """The connection to a target, with the number of requests sent."""

    def __init__(self, document: Mapping[str, Any], protocol: str) -> None:
        self.document = document
        self.protocol = protocol
        self.requests = 0
        self.server: str | None = None
        self._uploads: set[tuple[str, str, str]] = set()
        self._written: set[tuple[str, str]] = set()
        self._asker = _loadgen.Asker(json.dumps(document))

    def ask(self, requests: Sequence[Request], place: str, timeout_s: float) -> list[Reply]:
        """Send requests concurrently, each over its own connection."""
        self.requests += len(requests)
        texts = [(_text(request, place), request.body) for request in requests]
        # Recorded before the result is known.
        self._written |= {
            (place, request.key) for request in requests if request.method in ("PUT", "POST")
        }
        answers = self._asker.ask(texts, timeout_s)
        replies = [_reply(json.loads(text), body) for text, body in answers]
        for request, reply in zip(requests, replies, strict=True):
            self._note_upload(request, reply, place)
        self.server = self.server or replies[0].headers.get("server")
        return replies

    def _note_upload(self, request: Request, reply: Reply, place: str) -> None:
        """Record an upload that has begun, or is over."""
        if request.method == "POST" and "uploads" in request.query:
            if upload := upload_id(reply):
                self._uploads.add((place, request.key, upload))
        elif request.method in ("POST", "DELETE") and reply.is_ok and b"<Error>" not in reply.body:
            upload = request.query.get("uploadId")
            self._uploads.discard((place, request.key, upload or ""))

    def head(self, request: Request, place: str) -> bytes:
        """Return the head of a request, which the caller sends over its own connection."""
        self.requests += 1
        self._written.add((place, request.key))
        return self._asker.head(_text(request, place), request.body)

    def written(self, place: str) -> set[str]:
        """Return the keys in a place that were or may have been written."""
        return {key for where, key in self._written if where == place and key}

    def uploads(self, place: str) -> set[tuple[str, str]]:
        """Return key and id of the uploads that were begun in a place."""
        return {(key, upload) for where, key, upload in self._uploads if where == place}


class Shared:
    """Objects that several questions need in one place; the first question creates them below its
    prefix.

    A failure to create them is raised for each of these questions.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._lock = threading.Lock()
        self._results: dict[Callable[[Store], Any], Future[Any]] = {}

    def made(self, make: Callable[["Store"], T], store: "Store") -> tuple["Store", T]:
        """Return the store below the prefix in which `make` wrote, and its result."""
        there = replace(store, prefix=f"{self.prefix}{make.__name__}/")
        with self._lock:
            is_first = make not in self._results
            result = self._results.setdefault(make, Future())
        if is_first:
            try:
                result.set_result(make(there))
            except Exception as error:
                result.set_exception(error)
        return there, result.result()


@dataclass(frozen=True, slots=True)
class Store:
    """A place on a target in which one question writes below its own prefix."""

    target: AskedTarget
    place: str
    prefix: str
    ends: float
    limit_s: float
    common: Shared

    def shared(self, make: Callable[["Store"], T]) -> tuple["Store", T]:
        """Return the result of `make`, shared by all questions that need it, and its store."""
        return self.common.made(make, self)

    @property
    def hurried(self) -> "Store":
        """The same, where half of the question's time is kept for what comes afterwards."""
        return replace(self, ends=self.ends - self.limit_s / 2)

    def together(self, make: Callable[["Store"], T]) -> T | None:
        """Return the result of `make`, shared by several questions; None if it failed.

        Each question then repeats it alone, with half of its time left.
        """
        try:
            return self.common.made(make, self.hurried)[1]
        except (DeniedError, UnansweredError):
            return None

    @property
    def root(self) -> "Store":
        """The store above the prefixes of all questions."""
        return replace(self, prefix=self.common.prefix)

    @property
    def is_swift(self) -> bool:
        """Whether the protocol is Swift instead of S3."""
        return self.target.protocol == SWIFT

    def ask(self, request: Request, *, may_be_denied: bool = False) -> Reply:
        """Send a request; raise if it gets no response, or is denied."""
        reply = self.target.ask([request], self.place, self.left_s())[0]
        if reply.failure is not None:
            raise UnansweredError(self._why(request, reply.failure))
        if reply.status in DENIED and not may_be_denied:
            raise DeniedError(f"{request.method}: {reply.words}")
        return reply

    def ask_at_once(
        self, requests: Sequence[Request], within_s: float | None = None
    ) -> list[Reply]:
        """Send requests at once; raise where one of them is not answered.

        With `within_s` none is waited for longer, and nothing is raised for those that fail by it.
        """
        left_s = self.left_s()
        replies = self.target.ask(requests, self.place, min(within_s or left_s, left_s))
        for request, reply in zip(requests, replies, strict=True):
            if reply.failure == "timeout" and within_s is None:
                raise UnansweredError(self._why(request, reply.failure))
        if all(reply.status in DENIED for reply in replies):
            raise DeniedError(f"{requests[0].method}: {replies[0].words}")
        return replies

    def key(self, name: str) -> str:
        """Return a key below the question's prefix."""
        return self.prefix + name

    def put(
        self, name: str, body: bytes = b"x", headers: Mapping[str, str] | None = None, **more: Any
    ) -> Reply:
        """Write an object."""
        request = Request(method="PUT", key=self.key(name), body=body, headers=headers or {})
        return self._ask_more(request, more)

    def must_put(
        self, name: str, body: bytes = b"x", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Write an object that a question needs."""
        return must(self.put(name, body, headers), "PUT")

    def get(self, name: str, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
        """Read an object."""
        request = Request(method="GET", key=self.key(name), headers=headers or {})
        return self._ask_more(request, more)

    def head(self, name: str, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
        """Request the head of an object."""
        request = Request(method="HEAD", key=self.key(name), headers=headers or {})
        return self._ask_more(request, more)

    def delete(self, name: str, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
        """Delete an object."""
        request = Request(method="DELETE", key=self.key(name), headers=headers or {})
        return self._ask_more(request, more)

    def _ask_more(self, request: Request, more: Mapping[str, Any]) -> Reply:
        """Send a request with additional fields."""
        fields = {name: value for name, value in more.items() if name != "may_be_denied"}
        return self.ask(replace(request, **fields), may_be_denied=more.get("may_be_denied", False))

    def post(
        self, name: str, query: Mapping[str, str | None], body: bytes = b"", **more: Any
    ) -> Reply:
        """Send a POST to an object, or to the place if there is no name."""
        key = self.key(name) if name else ""
        return self._ask_more(Request(method="POST", key=key, query=query, body=body), more)

    def page(
        self,
        *,
        below: str = "",
        keys_max: int = 1000,
        after: str | None = None,
        delimiter: str | None = None,
        is_encoded: bool = True,
    ) -> Page:
        """Return one page of a listing of the question's objects; raise if it is invalid."""
        reply = self.ask(self._listing(below, keys_max, after, delimiter, is_encoded))
        must(reply, "list")
        return _swift_page(reply, keys_max) if self.is_swift else s3_page(reply)

    def _listing(
        self, below: str, keys_max: int, after: str | None, delimiter: str | None, is_encoded: bool
    ) -> Request:
        query: dict[str, str | None] = {"prefix": self.key(below)}
        if delimiter is not None:
            query["delimiter"] = delimiter
        if self.is_swift:
            query |= {"format": "json", "limit": str(keys_max)}
            query |= {"marker": after} if after is not None else {}
        else:
            query |= {"list-type": "2", "max-keys": str(keys_max)}
            query |= {"continuation-token": after} if after is not None else {}
            query |= {"encoding-type": "url"} if is_encoded else {}
        return Request(method="GET", query=query)

    def listed(self, below: str = "") -> list[str]:
        """Return the listed names of the question's objects."""
        return [key.removeprefix(self.prefix) for key in self.page(below=below).keys]

    def _why(self, request: Request, failure: str) -> str:
        if failure == "timeout":
            return f"{request.method}: no answer within {self.limit_s:g} s"
        return f"{request.method}: {failure}"

    def left_s(self) -> float:
        """Return the remaining seconds for the question; raise if there are none."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise UnansweredError(f"not done within {self.limit_s:g} s")
        return left


def delete_many(store: Store, objects: Sequence[tuple[str, str | None]]) -> Reply:
    """Delete several keys, or versions of them, with one request."""
    if store.is_swift:
        lines = (f"{quote(store.place)}/{quote(key)}\n" for key, _ in objects)
        headers = {"content-type": "text/plain", "accept": "application/json"}
        return store.post("", {"bulk-delete": None}, "".join(lines).encode(), headers=headers)
    rows = "".join(
        f"<Object><Key>{escape(key)}</Key>"
        + (f"<VersionId>{escape(version)}</VersionId>" if version else "")
        + "</Object>"
        for key, version in objects
    )
    body = f"<Delete><Quiet>true</Quiet>{rows}</Delete>".encode()
    digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    return store.post("", {"delete": None}, body, headers={"content-md5": digest})


def upload_id(reply: Reply) -> str | None:
    """Return the id of the started upload from a reply."""
    element = re.search(rb"<UploadId>([^<]+)</UploadId>", reply.body)
    return element[1].decode(errors="replace") if element else None


def must(reply: Reply, what: str) -> Reply:
    """Return a reply that must be a success; raise otherwise."""
    if not reply.is_ok:
        raise UnansweredError(f"{what}: {reply.words}")
    return reply


def _text(request: Request, place: str) -> str:
    return json.dumps(
        {
            "method": request.method,
            "place": place,
            "key": request.key,
            "query": list(request.query.items()),
            "headers": list(request.headers.items()),
            "signing": request.signing,
            "signed_ago_s": request.signed_ago_s,
        }
    )


def _reply(answer: dict[str, Any], body: bytes) -> Reply:
    tls = answer["tls"]
    return Reply(
        status=answer["status"],
        # If a header is sent twice, the first is used.
        headers=dict(reversed(answer["headers"])),
        body=body,
        failure=answer["failure"],
        is_fresh=answer["is_fresh"],
        is_kept=answer["is_kept"],
        took_ns=answer["took_ns"],
        tls=(tls[0], tls[1]) if tls else None,
        peer=answer["peer"],
    )


def s3_page(reply: Reply) -> Page:
    """Return the page that an answer of S3 is; ValueError if no XML."""
    root, plain = parse_listing(reply)
    is_truncated = root.findtext("IsTruncated") == "true"
    return Page(
        keys=[plain(entry.findtext("Key") or "") for entry in root.iter("Contents")],
        prefixes=[plain(entry.findtext("Prefix") or "") for entry in root.iter("CommonPrefixes")],
        next=root.findtext("NextContinuationToken") if is_truncated else None,
        is_encoded=plain is not str,
        text=reply.body.decode(errors="replace"),
    )


def parse_listing(reply: Reply) -> tuple[ET.Element, Callable[[str], str]]:
    """Return a listing without namespaces, and its decoder of keys; ValueError if it is not XML."""
    try:
        root = ET.fromstring(reply.body)
    except ET.ParseError as error:
        raise ValueError("the listing is not XML") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root, unquote_plus if root.findtext("EncodingType") == "url" else str


def _swift_page(reply: Reply, keys_max: int) -> Page:
    rows = json.loads(reply.body or b"[]")
    names = [row.get("name") or row.get("subdir") for row in rows]
    return Page(
        keys=[row["name"] for row in rows if "name" in row],
        prefixes=[row["subdir"] for row in rows if "subdir" in row],
        next=names[-1] if len(rows) >= keys_max else None,
        is_encoded=False,
        text=reply.body.decode(errors="replace"),
    )
