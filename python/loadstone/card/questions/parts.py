"""Multipart uploads: the rules for writing large objects."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadstone.card.conclusion import Conclusion, DeniedError, UnansweredError, differs, no, yes
from loadstone.card.questions.conditions import IF_ABSENT, WRONG_ETAG
from loadstone.card.questions.shared import BODY, two_objects
from loadstone.card.store import Reply, Request, Store, must, upload_id

PART_BYTES_MIN = 5 << 20
"""Minimum size of all parts except the last."""
Parts = Sequence[tuple[int, str]]
"""Part numbers and ETags, as in a completion request."""
Upload = tuple[str, str, str]
"""The id of an upload of two parts, and their ETags."""
COPIED = "bytes=2-4"
LAST_PART = BODY[2:5]
"""The bytes in that range of the object that parts are copied from."""
TAIL = b"a" + LAST_PART


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assembled:
    """An upload of two parts, the answer to its completion, and its object's last bytes."""

    upload: str
    parts: Parts
    completion: Reply
    tail: Reply
    is_last_copied: bool

    @property
    def is_right(self) -> bool:
        """Whether the object is its parts."""
        return is_done(self.completion) and self.tail.body == TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """An upload that was to be refused where an object is; then completed without a condition."""

    refusal: Reply
    afterwards: bytes
    completed: bytes


def in_parts(store: Store) -> Conclusion:
    """Check that two parts become one object whose ETag contains the number of parts."""
    _, assembled = store.shared(_object_of_two_parts)
    if not is_done(assembled.completion):
        return no(assembled.completion.words)
    if not assembled.is_right:
        return no("the object is not its parts")
    etag = assembled.tail.headers.get("etag", "").strip('"')
    return yes() if etag.endswith("-2") else differs("the ETag does not tell the number of parts")


def reads_by_part(store: Store) -> Conclusion:
    """Check that an object can be read by part number."""
    there, _ = _needed_object(store)
    reply = there.get("k", query={"partNumber": "2"})
    if not reply.is_ok:
        return no(reply.words)
    if reply.body != LAST_PART:
        return differs(f"{reply.status}, the whole object")
    count = reply.headers.get("x-amz-mp-parts-count")
    return yes() if reply.status == 206 and count == "2" else differs(f"{reply.status}, no count")


def refuses_small_parts(store: Store) -> Conclusion:
    """Check that a part below 5 MiB that is not the last is refused."""
    reply = _complete_wrongly(store, lambda first, second: [(1, first), (2, second)])
    if is_done(reply):
        return no("parts of 1 byte are accepted")
    return yes(reply.words) if reply.status == 400 else differs(reply.words)


def refuses_disorder(store: Store) -> Conclusion:
    """Check that parts not in ascending order are refused."""
    reply = _complete_wrongly(store, lambda first, second: [(2, second), (1, first)])
    if is_done(reply):
        return no("accepted")
    return yes(reply.words) if reply.code == "InvalidPartOrder" else differs(reply.words)


def takes_last_of_number(store: Store) -> Conclusion:
    """Check that the later of two uploads of one part number is used."""
    if _is_seventh_completed(store):
        return yes()
    upload = begin(store)
    put_part(store, upload, 1, b"first")
    etag = put_part(store, upload, 1, b"second")
    reply = complete(store, upload, [(1, etag)])
    if not is_done(reply):
        return no(reply.words)
    return yes() if store.get("k").body == b"second" else no("the earlier one's bytes are kept")


def refuses_wrong_part(store: Store) -> Conclusion:
    """Check that a completion with a wrong ETag of a part is refused."""
    reply = _complete_wrongly(store, lambda first, second: [(1, WRONG_ETAG)])
    if is_done(reply):
        return no("accepted")
    return yes(reply.words) if reply.code == "InvalidPart" else differs(reply.words)


def skips_numbers(store: Store) -> Conclusion:
    """Check that part numbers may be skipped."""
    if _is_seventh_completed(store):
        return yes()
    upload = begin(store)
    etag = put_part(store, upload, 7, b"seven")
    reply = complete(store, upload, [(7, etag)])
    if not is_done(reply):
        return no(reply.words)
    return yes() if store.get("k").body == b"seven" else no("other bytes")


def completes_twice(store: Store) -> Conclusion:
    """Check that a repeated completion gets the same response as the first."""
    there, assembled = _needed_object(store)
    reply = complete(there, assembled.upload, assembled.parts)
    if there.get("k", {"range": f"bytes={PART_BYTES_MIN}-"}).body != LAST_PART:
        return no("the object is lost")
    return yes() if is_done(reply) else differs(reply.words)


def aborts(store: Store) -> Conclusion:
    """Check that an aborted upload is gone: not listed, and refusing parts."""
    there, upload, reply = _ask_of_upload(
        store, lambda there, upload: there.delete("k", query={"uploadId": upload[0]})
    )
    if not reply.is_ok:
        return no(reply.words)
    if upload in uploads(there, "k"):
        return no("it is still listed")
    late = there.ask(part_request(there, upload, 1, b"a"))
    return no("it still takes parts") if late.is_ok else yes(late.words)


def lists_uploads(store: Store) -> Conclusion:
    """Check that an open upload is listed."""
    there, (upload, _, _) = store.shared(_open_upload)
    if upload in uploads(there):
        return yes()
    return differs("only by its whole key") if upload in uploads(there, "k") else no("not listed")


def lists_parts(store: Store) -> Conclusion:
    """Check that the parts of an upload are listed."""
    there, (upload, etag, _) = store.shared(_open_upload)
    reply = there.get("k", query={"uploadId": upload})
    if not reply.is_ok:
        return no(reply.words)
    return yes() if etag.strip('"').encode() in reply.body else no("the part is not listed")


def copies_part(store: Store) -> Conclusion:
    """Check that a part can be copied from a range of an object."""
    assembled = store.together(_object_of_two_parts)
    if assembled is not None and assembled.is_last_copied:
        return yes()
    upload = begin(store)
    reply, etag = _copy_part(store, upload, 1)
    if etag is None:
        return no(reply.words)
    done = complete(store, upload, [(1, etag)])
    if not is_done(done):
        return no(done.words)
    return yes() if store.get("k").body == LAST_PART else no("other bytes")


def completes_if_absent(store: Store) -> Conclusion:
    """Check that a completion with `If-None-Match: *` is refused for an existing object."""
    refused = store.together(_seventh_part_twice)
    if refused is None or not (is_done(refused.refusal) or refused.refusal.status == 412):
        # Ceph refuses to complete an upload without one of its parts: this one has a single part.
        refused = _complete_if_absent(store, 1)
    reply = refused.refusal
    if is_done(reply):
        return no("condition ignored")
    if refused.afterwards != b"there":
        return no(f"{reply.words}, and carried out all the same")
    return yes(reply.words) if reply.status == 412 else differs(reply.words)


def _object_of_two_parts(store: Store) -> _Assembled:
    """Complete an upload of two parts, the second of which is copied if that works."""
    with contextlib.suppress(DeniedError, UnansweredError):
        assembled = _assemble(store.hurried, is_copying=True)
        if assembled.is_right:
            return assembled
    return _assemble(store, is_copying=False)


def _assemble(store: Store, *, is_copying: bool) -> _Assembled:
    upload = begin(store)
    first = put_part(store, upload, 1, b"a" * PART_BYTES_MIN)
    copied = _copy_part(store, upload, 2)[1] if is_copying else None
    parts = [(1, first), (2, copied or put_part(store, upload, 2, LAST_PART))]
    completion = complete(store, upload, parts)
    return _Assembled(
        upload=upload,
        parts=parts,
        completion=completion,
        tail=store.get("k", {"range": f"bytes={PART_BYTES_MIN - 1}-"}),
        is_last_copied=copied is not None,
    )


def _copy_part(store: Store, upload: str, number: int) -> tuple[Reply, str | None]:
    """Copy a part of `k`; return the answer, and the part's ETag if it was copied."""
    source, _ = store.shared(two_objects)
    headers = {
        "x-amz-copy-source": f"/{store.place}/{source.key('k')}",
        "x-amz-copy-source-range": COPIED,
    }
    query = {"partNumber": str(number), "uploadId": upload}
    reply = store.put("k", b"", headers, query=query)
    etag = re.search(rb"<ETag>(?:&quot;|&#34;|\")?([0-9a-fA-F-]+)", reply.body)
    return reply, f'"{etag[1].decode()}"' if reply.is_ok and etag else None


def _needed_object(store: Store) -> tuple[Store, _Assembled]:
    """Return the object of two parts for a question that needs it."""
    there, assembled = store.shared(_object_of_two_parts)
    if not is_done(assembled.completion):
        raise UnansweredError(f"complete: {assembled.completion.words}")
    return there, assembled


def _seventh_part_twice(store: Store) -> _Refused:
    """Complete an upload whose only part has the number 7 and was sent twice."""
    return _complete_if_absent(store, 7, b"first")


def _complete_if_absent(store: Store, number: int, *before: bytes) -> _Refused:
    """Complete an upload of one part where an object is, on the condition that there is none.

    The part is sent with the bytes `before` first. What was refused is then completed without the
    condition.
    """
    store.must_put("k", b"there")
    upload = begin(store)
    *_, etag = [put_part(store, upload, number, body) for body in (*before, b"second")]
    refusal = complete(store, upload, [(number, etag)], IF_ABSENT)
    afterwards = store.get("k").body
    if is_done(refusal):
        return _Refused(refusal=refusal, afterwards=afterwards, completed=afterwards)
    is_completed = is_done(complete(store, upload, [(number, etag)]))
    completed = store.get("k").body if is_completed else b""
    return _Refused(refusal=refusal, afterwards=afterwards, completed=completed)


def _is_seventh_completed(store: Store) -> bool:
    refused = store.together(_seventh_part_twice)
    return refused is not None and refused.completed == b"second"


def _open_upload(store: Store) -> Upload:
    """Start an upload with two parts."""
    upload = begin(store)
    return upload, put_part(store, upload, 1, b"a"), put_part(store, upload, 2, b"a")


def _ask_of_upload(store: Store, ask: Callable[[Store, Upload], Reply]) -> tuple[Store, str, Reply]:
    """Send a request about an upload with two parts; return its store, its id, and the reply."""
    there, upload = store.shared(_open_upload)
    reply = ask(there, upload)
    if reply.status == 404:
        # An earlier question's request was accepted, or ended the upload although it was refused.
        upload = _open_upload(there)
        reply = ask(there, upload)
    return there, upload[0], reply


def _complete_wrongly(store: Store, parts: Callable[[str, str], Parts]) -> Reply:
    """Complete an upload of two parts with an invalid request."""
    _, _, reply = _ask_of_upload(
        store, lambda there, upload: complete(there, upload[0], parts(*upload[1:]))
    )
    return reply


def begin(store: Store) -> str:
    """Start an upload of `k`; return its id."""
    reply = must(store.post("k", {"uploads": None}), "begin an upload")
    upload = upload_id(reply)
    if upload is None:
        raise UnansweredError("begin an upload: no id")
    return upload


def part_request(store: Store, upload: str, number: int, body: bytes) -> Request:
    """Return the request that uploads a part of `k`."""
    query = {"partNumber": str(number), "uploadId": upload}
    return Request(method="PUT", key=store.key("k"), body=body, query=query)


def put_part(store: Store, upload: str, number: int, body: bytes) -> str:
    """Upload a part of `k`; return its ETag."""
    reply = must(store.ask(part_request(store, upload, number, body)), "put a part")
    return reply.headers.get("etag", "")


def complete_request(store: Store, upload: str, parts: Parts) -> Request:
    """Return the request that completes the object `k` from parts."""
    rows = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
        for number, etag in parts
    )
    body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
    return Request(method="POST", key=store.key("k"), query={"uploadId": upload}, body=body)


def complete(
    store: Store, upload: str, parts: Parts, headers: Mapping[str, str] | None = None
) -> Reply:
    """Complete the object `k` from parts."""
    return store.ask(replace(complete_request(store, upload, parts), headers=headers or {}))


def is_done(reply: Reply) -> bool:
    """Tell whether a completion succeeded: it may fail after status 200 was sent."""
    return reply.is_ok and b"<Error>" not in reply.body


def uploads(store: Store, name: str = "") -> list[str]:
    """Return the ids of the uploads that are listed below a key."""
    query = {"uploads": None, "prefix": store.key(name)}
    reply = must(store.ask(Request(method="GET", query=query)), "list uploads")
    return re.findall(r"<UploadId>([^<]+)</UploadId>", reply.body.decode(errors="replace"))
