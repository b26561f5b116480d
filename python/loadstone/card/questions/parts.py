"""Multipart uploads: the rules for writing large objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from loadstone.card.conclusion import Conclusion, UnansweredError, differs, no, yes
from loadstone.card.questions.conditions import IF_ABSENT, WRONG_ETAG
from loadstone.card.questions.shared import two_objects
from loadstone.card.store import Reply, Request, Store, must, upload_id

PART_BYTES_MIN = 5 << 20
"""Minimum size of all parts except the last."""
Parts = Sequence[tuple[int, str]]
"""Part numbers and ETags, as in a completion request."""
Upload = tuple[str, str, str]
"""The id of an upload of two parts, and their ETags."""


def in_parts(store: Store) -> Conclusion:
    """Check that two parts become one object whose ETag contains the number of parts."""
    there, (_, _, reply) = store.shared(_object_of_two_parts)
    if not is_done(reply):
        return no(reply.words)
    read = there.get("k", {"range": f"bytes={PART_BYTES_MIN - 1}-"})
    if read.body != b"ab":
        return no("the object is not its parts")
    etag = read.headers.get("etag", "").strip('"')
    return yes() if etag.endswith("-2") else differs("the ETag does not tell the number of parts")


def reads_by_part(store: Store) -> Conclusion:
    """Check that an object can be read by part number."""
    there, _ = _needed_object(store)
    reply = there.get("k", query={"partNumber": "2"})
    if not reply.is_ok:
        return no(reply.words)
    if reply.body != b"b":
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
    if store.together(_seventh_part_twice) == b"second":
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
    if store.together(_seventh_part_twice) == b"second":
        return yes()
    upload = begin(store)
    etag = put_part(store, upload, 7, b"seven")
    reply = complete(store, upload, [(7, etag)])
    if not is_done(reply):
        return no(reply.words)
    return yes() if store.get("k").body == b"seven" else no("other bytes")


def completes_twice(store: Store) -> Conclusion:
    """Check that a repeated completion gets the same response as the first."""
    there, (upload, parts) = _needed_object(store)
    reply = complete(there, upload, parts)
    if there.get("k", {"range": f"bytes={PART_BYTES_MIN}-"}).body != b"b":
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
        return no("it is listed still")
    late = there.ask(part_request(there, upload, 1, b"a"))
    return no("it takes parts still") if late.is_ok else yes(late.words)


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
    source, _ = store.shared(two_objects)
    upload = begin(store)
    headers = {
        "x-amz-copy-source": f"/{store.place}/{source.key('k')}",
        "x-amz-copy-source-range": "bytes=2-4",
    }
    query = {"partNumber": "1", "uploadId": upload}
    reply = store.put("k", b"", headers, query=query)
    etag = re.search(rb"<ETag>(?:&quot;|&#34;|\")?([0-9a-fA-F-]+)", reply.body)
    if not reply.is_ok or etag is None:
        return no(reply.words)
    done = complete(store, upload, [(1, f'"{etag[1].decode()}"')])
    if not is_done(done):
        return no(done.words)
    return yes() if store.get("k").body == b"234" else no("other bytes")


def completes_if_absent(store: Store) -> Conclusion:
    """Check that a completion with `If-None-Match: *` is refused for an existing object."""
    store.must_put("k", b"first")
    # Ceph refuses to complete an upload without one of its parts, so this one has a single part.
    upload = begin(store)
    etag = put_part(store, upload, 1, b"second")
    reply = complete(store, upload, [(1, etag)], IF_ABSENT)
    if is_done(reply):
        return no("condition ignored")
    if store.get("k").body != b"first":
        return no(f"{reply.words}, and carried out all the same")
    return yes(reply.words) if reply.status == 412 else differs(reply.words)


def _object_of_two_parts(store: Store) -> tuple[str, Parts, Reply]:
    """Complete an upload; return its id, its parts, and the reply."""
    upload = begin(store)
    first = put_part(store, upload, 1, b"a" * PART_BYTES_MIN)
    parts = [(1, first), (2, put_part(store, upload, 2, b"b"))]
    return upload, parts, complete(store, upload, parts)


def _needed_object(store: Store) -> tuple[Store, tuple[str, Parts]]:
    """Return the object of two parts for a question that needs it."""
    there, (upload, parts, reply) = store.shared(_object_of_two_parts)
    if not is_done(reply):
        raise UnansweredError(f"complete: {reply.words}")
    return there, (upload, parts)


def _seventh_part_twice(store: Store) -> bytes:
    """Complete an upload whose only part, number 7, was sent twice; return the object's bytes."""
    upload = begin(store)
    put_part(store, upload, 7, b"first")
    etag = put_part(store, upload, 7, b"second")
    return store.get("k").body if is_done(complete(store, upload, [(7, etag)])) else b""


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
