"""Sequences of requests by which stores have lost or mixed up data, from published reports.

Each judges acknowledged requests only: a failed request may or may not have taken effect.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.card.conclusion import Conclusion, NotApplicableError, UnansweredError, yes
from loadstone.card.questions.conditions import CREATORS, IF_ABSENT, WRONG_ETAG, race
from loadstone.card.questions.connection import connect
from loadstone.card.questions.parts import (
    PART_BYTES_MIN,
    begin,
    complete,
    complete_request,
    is_done,
    part_request,
    put_part,
    uploads,
)
from loadstone.card.questions.versions import VERSION, set_versioning, version_list
from loadstone.card.store import Reply, Request, Store, must
from loadstone.documents.trial import TargetDocument

ROUNDS: Final = 5
RACES: Final = 20
"""With 5 races a third of the attempts missed the defect of versitygw before version 1.8.0."""
KILLS: Final = 3
AT_ONCE: Final = 16
CHURNED: Final = 48
"""Number of keys that are repeatedly written and deleted."""
OBJECTS: Final = 200
"""Number of objects that a fault may destroy."""
LATER_S: Final = 0.3
READABLE_S: Final = 3.0
"""Seconds to wait for an acknowledged object, to distinguish a late one from a lost one."""
UNSUPPORTED: Final = (400, 405, 501)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Effects on a target by the user's commands, by name."""

    commands: dict[str, Callable[[], None]]

    def do(self, name: str) -> None:
        """Run a command that the user gave; raise TargetError if it fails."""
        self.commands[name]()

    def restart(self, store: Store, fault: str) -> None:
        """Take the store down by a fault, start it, and wait until it responds."""
        self.do(fault)
        self.do("start")
        # Connections from before the fault are broken, which is only detected by using them.
        probes = [_get(store, "absent")] * max(AT_ONCE, CREATORS)
        while not all(0 < reply.status < 500 for reply in store.ask_at_once(probes)):
            time.sleep(0.1)

    def maintain(self) -> None:
        """Run the maintenance, if there is a command for it."""
        if "maintain" in self.commands:
            self.do("maintain")


def failed(finding: str, detail: str) -> Conclusion:
    """Return that the store is defective, with the name that audits use as `finding`."""
    return Conclusion("no", detail, finding)


def undecided(detail: str) -> Conclusion:
    """Return that the responses prove nothing."""
    return Conclusion("undecided", detail)


def one_writer_wins(store: Store) -> Conclusion:
    """Race writers on `If-None-Match: *`, then on the ETag of the winner."""
    replaced = races = 0
    while races < ROUNDS or (races < RACES and store.left_s() > store.limit_s / 2):
        name = f"k{races}"
        answers = race(store, name, "creator", CREATORS, IF_ABSENT)
        if wrong := _several_won(store, name, answers):
            return wrong
        etag = store.head(name).headers.get("etag", "")
        answers = race(store, name, "replacer", CREATORS, {"if-match": etag})
        replaced += any(reply.is_ok for _, reply in answers)
        if wrong := _several_won(store, name, answers):
            return wrong
        races += 1
    words = f"{races} races of {CREATORS}"
    return yes(words if replaced else f"{words} for an absent key; no If-Match succeeds")


def one_writer_wins_across_endpoints(store: Store) -> Conclusion:
    """Race writers on an absent key, each through a different endpoint of the target."""
    target: TargetDocument = store.target.document["target"]
    addresses = addresses_of(facts_of(target["driver"]), dict(target["settings"]))
    if len(addresses) < 2:
        raise NotApplicableError("needs several addresses, as in http://store{1...3}:9000")
    for number in range(ROUNDS):
        answers = race(store, f"k{number}", "creator", CREATORS, IF_ABSENT)
        if wrong := _several_won(store, f"k{number}", answers):
            return wrong
    return yes(f"{ROUNDS} races of {CREATORS} over {len(addresses)} addresses")


def _several_won(
    store: Store, name: str, answers: Sequence[tuple[bytes, Reply]]
) -> Conclusion | None:
    """Return what is wrong with a race in which exactly one writer must win; None if nothing is."""
    winners = [body for body, reply in answers if reply.is_ok]
    if len(winners) > 1:
        return failed("two_winners", f"{len(winners)} of {len(answers)} writers succeeded")
    if not winners:
        if all(reply.status in UNSUPPORTED for _, reply in answers):
            raise NotApplicableError(f"conditional puts: {answers[0][1].words}")
        return None
    read = store.get(name)
    if read.body == winners[0]:
        return None
    if any(reply.status == 0 or reply.status >= 500 for _, reply in answers):
        return undecided("requests failed, and may have been carried out")
    if read.status == 404:
        return failed("lost", f"one writer succeeded, and {read.words}")
    if not read.is_ok:
        return undecided(f"GET: {read.words}")
    if read.body in {body for body, _ in answers}:
        return failed("lost_update", "one writer succeeded, and another's bytes are there")
    return failed("corrupt", "bytes of no writer are there")


def part_sent_again_while_completing(store: Store) -> Conclusion:
    """Send a part again, with the same bytes, while the upload is completed."""
    bodies = [letter * PART_BYTES_MIN for letter in (b"a", b"b")] + [b"c"]
    upload = begin(store)
    parts = [(number, put_part(store, upload, number, body)) for number, body in _numbered(bodies)]
    again = part_request(store, upload, 2, bodies[1])
    completion = complete_request(store, upload, parts)
    _, reply, _ = store.ask_at_once([again, completion, again])
    if not is_done(reply):
        reply = complete(store, upload, parts)
    return _whole(store, reply, b"".join(bodies))


def slow_part_of_the_same_number(store: Store) -> Conclusion:
    """Upload one part twice, the first time slowly; then send two completions concurrently."""
    bodies = [b"a" * PART_BYTES_MIN, b"b" * PART_BYTES_MIN]
    upload = begin(store)
    slow = part_request(store, upload, 1, bodies[0])
    with connect(store, ["http/1.1"]) as stream:
        half = len(bodies[0]) // 2
        stream.settimeout(store.left_s())
        stream.sendall(store.target.head(slow, store.place) + bodies[0][:half])
        parts = [(n, put_part(store, upload, n, body)) for n, body in _numbered(bodies)]
        stream.sendall(bodies[0][half:])
        _end_of_head(stream)
    completion = complete_request(store, upload, parts)
    replies = store.ask_at_once([completion, completion])
    return _whole(store, next(filter(is_done, replies), replies[0]), b"".join(bodies))


def _end_of_head(stream: socket.socket) -> None:
    """Wait for any response: the store need not answer for a replaced part."""
    answer = b""
    while b"\r\n\r\n" not in answer and (more := stream.recv(65536)):
        answer += more


def completed_while_suspended(store: Store) -> Conclusion:
    """While versions are suspended, delete an object, and write it again as a multipart upload."""
    _suspend(store)
    try:
        store.must_put("k", b"first")
        must(store.delete("k"), "DELETE")
        return _whole(store, _upload(store, b"second"), b"second")
    finally:
        must(set_versioning(store, "Enabled"), "versions")


def cut_put_over_a_marker(store: Store) -> Conclusion:
    """After a delete while versions are suspended, abort a put halfway."""
    store.must_put("k", b"first")
    _suspend(store)
    try:
        must(store.delete("k"), "DELETE")
        cut = Request(method="PUT", key=store.key("k"), body=b"second" * 10_000)
        with connect(store, ["http/1.1"]) as stream:
            stream.sendall(store.target.head(cut, store.place) + cut.body[: len(cut.body) // 2])
        for wait_s in (0, LATER_S):
            time.sleep(wait_s)
            reply = store.get("k")
            if reply.is_ok and reply.body == b"first":
                return failed("resurrected", "the deleted version is read")
            if reply.is_ok:
                return failed(
                    "short", f"{len(reply.body):,} bytes of a put that was cut off are read"
                )
        return yes(reply.words)
    finally:
        must(set_versioning(store, "Enabled"), "versions")


def deleted_from_before_versions(store: Store) -> Conclusion:
    """Delete an object that was written before versions were enabled."""
    # The place's first object was written before versions were enabled.
    root, name = store.root, "0"
    store.must_put("neighbour")
    must(root.delete(name), "DELETE")
    if root.get(name).is_ok:
        return failed("resurrected", "it is read")
    keys = root.page(keys_max=1).keys + root.page().keys
    return failed("ghost", "it is listed") if root.key(name) in keys else yes()


def churn(store: Store) -> Conclusion:
    """Write and delete small objects repeatedly, then list them."""
    names = [f"k{number:02}" for number in range(CHURNED)]
    there: dict[str, bool | None] = {}
    for number in range(ROUNDS):
        for method in ("PUT", "DELETE"):
            changed = names[number % 2 :: 2] if method == "DELETE" else names
            requests = [Request(method=method, key=store.key(name)) for name in changed]
            for name, reply in zip(changed, _in_batches(store, requests), strict=True):
                there[name] = method == "PUT" if reply.is_ok else None
    listed = store.listed()
    heads = dict(
        zip(
            names,
            _in_batches(store, [Request(method="HEAD", key=store.key(n)) for n in names]),
            strict=True,
        )
    )
    ghosts = [name for name in listed if name in heads and heads[name].status == 404]
    absent = [name for name in names if there[name] and heads[name].status == 404]
    unlisted = [name for name in names if there[name] and name not in listed]
    back = [name for name in names if there[name] is False and heads[name].is_ok]
    for finding, wrong in (
        ("ghost", ghosts), ("lost", absent), ("list_missing", unlisted), ("resurrected", back),
    ):  # fmt: skip
        if wrong:
            return failed(finding, f"{len(wrong)} of {CHURNED} keys, such as {wrong[0]}")
    return yes(f"{CHURNED} keys, {ROUNDS} rounds")


def read_after_completion(store: Store) -> Conclusion:
    """Read and copy an object right after its completion is acknowledged."""
    for number in range(ROUNDS):
        body = b"upload %d" % number
        must(_upload(store, body), "complete")
        began = time.monotonic()
        copied, read = store.ask_at_once([_copy(store, "k", "copy"), _get(store, "k")])
        if read.is_ok and read.body == body and copied.is_ok and b"<Error>" not in copied.body:
            continue
        while time.monotonic() - began < READABLE_S:
            if store.get("k").body == body:
                late_ms = (time.monotonic() - began) * 1000
                words = f"read: {read.words}, copy: {copied.words}"
                return failed("stale", f"{words}; readable after {late_ms:.0f} ms")
            time.sleep(0.02)
        return _whole(store, None, body)
    return yes(f"{ROUNDS} uploads")


def part_beside_abort(store: Store) -> Conclusion:
    """Send parts while their upload is aborted and uploads are listed."""
    listing = Request(method="GET", query={"uploads": None, "prefix": store.prefix})
    for _ in range(ROUNDS):
        upload = begin(store)
        part = part_request(store, upload, 1, b"a" * 100_000)
        abort = Request(method="DELETE", key=part.key, query={"uploadId": upload})
        store.ask_at_once([part, part, abort, listing, part, part])
        # Late parts may need another abort, according to Amazon.
        aborted = store.ask_at_once([abort])[0]
        if not (aborted.is_ok or aborted.status == 404):
            return undecided(f"abort: {aborted.words}")
        if upload in uploads(store, "k"):
            return failed("abort_without_effect", "the upload is listed after two aborts")
        if store.ask(part).is_ok:
            return failed("abort_without_effect", "it takes parts after two aborts")
    return yes(f"{ROUNDS} uploads")


def condition_on_what_is_absent(store: Store) -> Conclusion:
    """Put with `If-Match` where no object exists."""
    reply = store.put("k", b"first", {"if-match": WRONG_ETAG})
    if reply.is_ok:
        return failed("condition_ignored", f"{reply.status}")
    if store.get("k").is_ok:
        return failed("condition_ignored", f"{reply.words}, and carried out all the same")
    return yes(reply.words)


def versions_written_at_once(store: Store) -> Conclusion:
    """Put one key concurrently with deletes; each acknowledged version must be kept."""
    for number in range(ROUNDS):
        name = f"k{number}"
        bodies = [b"version %d" % version for version in range(ROUNDS)]
        puts = [Request(method="PUT", key=store.key(name), body=body) for body in bodies]
        deletes = [Request(method="DELETE", key=store.key(name))] * (2 if number % 2 else 0)
        replies = store.ask_at_once([*puts, *deletes])
        ids = {
            reply.headers.get(VERSION, ""): body
            for body, reply in zip(bodies, replies, strict=False)
            if reply.is_ok
        }
        if len(ids) < sum(reply.is_ok for reply in replies[: len(puts)]):
            return failed("version_lost", "two puts got one id")
        listed = must(version_list(replace(store, prefix=store.key(name))), "list versions").body
        for version, body in ids.items():
            if f"<VersionId>{version}<".encode() not in listed:
                return failed("version_lost", "an acknowledged version is not listed")
            if store.get(name, query={"versionId": version}).body != body:
                return failed("version_lost", "an acknowledged version cannot be read")
    return yes(f"{ROUNDS} times {ROUNDS} puts at once")


def overwrite_beside_reads(store: Store) -> Conclusion:
    """Read an object while it is overwritten."""
    bodies = [letter * 300_000 for letter in (b"a", b"b", b"c")]
    store.must_put("k", bodies[0])
    read = _get(store, "k")
    for _ in range(ROUNDS):
        puts = [Request(method="PUT", key=store.key("k"), body=body) for body in bodies[1:]]
        for reply in store.ask_at_once([puts[0], *[read] * 6, puts[1], *[read] * 6]):
            if reply.status == 404:
                return failed("lost", "a read beside an overwrite finds nothing")
            if not reply.is_ok or not reply.body or reply.body in bodies:
                continue
            if any(body.startswith(reply.body) for body in bodies):
                return failed("short", f"{len(reply.body):,} bytes of {len(bodies[0]):,}")
            return failed("torn", "a read has bytes of two writers")
    return yes(f"{ROUNDS * 12} reads")


def completions_at_once(store: Store) -> Conclusion:
    """Complete several uploads of one key concurrently."""
    bodies = {}
    completions = []
    for number in range(ROUNDS):
        body = b"upload %d" % number
        upload = begin(store)
        bodies[body] = upload
        parts = [(1, put_part(store, upload, 1, body))]
        completions.append(complete_request(store, upload, parts))
    replies = store.ask_at_once(completions)
    if not any(map(is_done, replies)):
        return undecided(f"complete: {replies[0].words}")
    reply = store.get("k")
    if reply.status == 404:
        return failed("lost", "completed, and not there")
    return yes() if reply.body in bodies else failed("mixed", "bytes of no upload")


def killed_while_completing(store: Store, faults: Faults) -> Conclusion:
    """Kill the store while an upload is completed, then abort what remains of the upload."""
    for _ in range(KILLS):
        upload, body = begin(store), b"a" * PART_BYTES_MIN
        parts = [(1, put_part(store, upload, 1, body))]
        completion = complete_request(store, upload, parts)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(store.ask_at_once, [completion])
            faults.restart(store, "kill")
        reply, read = answer.result()[0], store.get("k")
        if read.code == "NoSuchBucket":
            return failed("lost", "the bucket is gone after the kill")
        is_there = read.body == body
        if is_done(reply) and not is_there:
            return failed("lost", "completed, and not there after the kill")
        if not is_there:
            continue
        if upload in uploads(store, "k"):
            store.delete("k", query={"uploadId": upload})
        faults.maintain()
        if store.get("k").body != body:
            return failed("lost", "gone after the rest of its upload was aborted")
    return yes(f"{KILLS} kills")


def power_cut_after_puts(store: Store, faults: Faults) -> Conclusion:
    """Write objects, cut the power, and restart the store."""
    acknowledged = _put_many(store)
    faults.restart(store, "power_cut")
    faults.maintain()
    return _all_there(store, acknowledged)


def copied_onto_itself(store: Store, faults: Faults) -> Conclusion:
    """Copy an object onto itself with other metadata, then run garbage collection."""
    body = b"a" * PART_BYTES_MIN
    store.must_put("k", body)
    metadata = {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-a": "b"}
    must(store.ask(_copy(store, "k", "k", metadata)), "copy")
    faults.do("maintain")
    return _whole(store, None, body)


def conditions_while_degraded(store: Store, faults: Faults) -> Conclusion:
    """Put with a false condition while the store lacks a source of its reads."""
    store.must_put("k", b"first")
    faults.do("degrade")
    try:
        puts = [
            Request(method="PUT", key=store.key("k"), body=b"second", headers=headers)
            for headers in ({"if-match": WRONG_ETAG}, IF_ABSENT)
        ]
        replies = store.ask_at_once(puts)
    finally:
        faults.do("restore")
    if any(reply.is_ok for reply in replies):
        return failed("condition_ignored", "a put succeeded whose condition did not hold")
    return _whole(store, None, b"first") if _answered(store) else undecided("no answer since")


def completed_while_degraded(store: Store, faults: Faults) -> Conclusion:
    """Complete uploads while the store's disks stall, and read them afterwards."""
    bodies = [b"a" * PART_BYTES_MIN, b"b"]
    upload = begin(store)
    parts = [(number, put_part(store, upload, number, body)) for number, body in _numbered(bodies)]
    faults.do("degrade")
    try:
        reply = store.ask_at_once([complete_request(store, upload, parts)])[0]
    except UnansweredError as error:
        return undecided(str(error))
    finally:
        faults.do("restore")
    return _whole(store, reply, b"".join(bodies)) if _answered(store) else undecided("no answer")


def deleted_while_degraded(store: Store, faults: Faults) -> Conclusion:
    """Delete objects while a part of the store is down, and list them once it is up."""
    names = _put_many(store)
    faults.do("degrade")
    try:
        requests = [Request(method="DELETE", key=store.key(name)) for name in names]
        replies = _in_batches(store, requests)
    finally:
        faults.do("restore")
    deleted = [name for name, reply in zip(names, replies, strict=True) if reply.is_ok]
    if not deleted or not _answered(store):
        return undecided("no delete was acknowledged")
    for _ in range(ROUNDS):
        listed = set(store.listed())
        if ghosts := [name for name in deleted if name in listed]:
            return failed("ghost", f"{len(ghosts)} of {len(deleted)} deleted keys are listed")
    return yes(f"{len(deleted)} deletes")


def _whole(store: Store, reply: Reply | None, body: bytes) -> Conclusion:
    """Judge the object `k`, which must be `body` if `reply` acknowledges it."""
    if reply is not None and not is_done(reply):
        return undecided(f"complete: {reply.words}")
    read = store.get("k")
    if read.status == 404:
        return failed("lost", f"acknowledged, and {read.words}")
    if not read.is_ok:
        return undecided(f"GET: {read.words}")
    if read.body == body:
        return yes()
    if body.startswith(read.body):
        return failed("short", f"{len(read.body):,} bytes of {len(body):,}")
    return failed("corrupt", f"{len(read.body):,} bytes, and others than were written")


def _put_many(store: Store) -> list[str]:
    """Write small objects; return the names of the acknowledged ones."""
    names = [f"k{number:03}" for number in range(OBJECTS)]
    requests = [Request(method="PUT", key=store.key(n), body=n.encode()) for n in names]
    replies = _in_batches(store, requests)
    acknowledged = [name for name, reply in zip(names, replies, strict=True) if reply.is_ok]
    if not acknowledged:
        raise UnansweredError(f"PUT: {replies[0].words}")
    return acknowledged


def _all_there(store: Store, names: Sequence[str]) -> Conclusion:
    replies = _in_batches(store, [_get(store, name) for name in names])
    lost = sum(reply.status == 404 for reply in replies)
    wrong = sum(
        reply.is_ok and reply.body != name.encode()
        for name, reply in zip(names, replies, strict=True)
    )
    if lost or wrong:
        finding = "lost" if lost else "corrupt"
        return failed(finding, f"{lost or wrong} of {len(names)} acknowledged objects")
    read = sum(reply.is_ok for reply in replies)
    if read < len(names):
        return undecided(f"{len(names) - read} of {len(names)} could not be read")
    return yes(f"{len(names)} objects")


def _in_batches(store: Store, requests: Sequence[Request]) -> list[Reply]:
    return [
        reply
        for first in range(0, len(requests), AT_ONCE)
        for reply in store.ask_at_once(requests[first : first + AT_ONCE])
    ]


def _answered(store: Store) -> bool:
    """Wait until the store responds to reads again; return whether it does."""
    give_up = time.monotonic() + store.left_s() / 2
    while time.monotonic() < give_up:
        if 0 < store.ask_at_once([_get(store, "k")])[0].status < 500:
            return True
        time.sleep(0.1)
    return False


def _upload(store: Store, body: bytes) -> Reply:
    """Write `k` as an upload of one part."""
    upload = begin(store)
    return complete(store, upload, [(1, put_part(store, upload, 1, body))])


def _suspend(store: Store) -> None:
    reply = set_versioning(store, "Suspended")
    if not reply.is_ok:
        raise NotApplicableError(f"versions cannot be suspended: {reply.words}")


def _copy(
    store: Store, source: str, name: str, metadata: Mapping[str, str] | None = None
) -> Request:
    headers = {"x-amz-copy-source": f"/{store.place}/{store.key(source)}", **(metadata or {})}
    return Request(method="PUT", key=store.key(name), headers=headers)


def _get(store: Store, name: str) -> Request:
    return Request(method="GET", key=store.key(name))


def _numbered(bodies: Sequence[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(bodies, 1))
