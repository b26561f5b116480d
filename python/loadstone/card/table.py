"""All questions of a card, in the order in which they are shown: to add one, write its row here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from loadstone.card.conclusion import Conclusion
from loadstone.card.questions import (
    access,
    checksums,
    conditions,
    connection,
    keys,
    listings,
    parts,
    ranges,
    retention,
    swift,
    versions,
)
from loadstone.card.store import Store
from loadstone.documents.card import CardAnswer

Where = Literal["objects", "versions", "locked", "anywhere"]
"""A place of objects, one that keeps versions, one that locks objects, or none: what is needed."""
IN_TURN: tuple[Where, ...] = ("versions", "locked")
"""Where questions are asked one after another, since each may change what the place does."""
S3, SWIFT = ("S3",), ("Swift",)
BOTH = (*S3, *SWIFT)


@dataclass(frozen=True, slots=True)
class Question:
    """One question: a statement about the store, and the function that tries whether it holds.

    `means` says what a measurement must know where it does not. `usual` is the answer of who made
    the protocol; None where any is as good.
    """

    text: str
    ask: Callable[[Store], Conclusion]
    means: str = ""
    usual: CardAnswer | None = "yes"
    protocols: tuple[str, ...] = S3
    where: Where = "objects"


NO_LOCKS = "locks and table commits on this store lose updates"
RACE = "a benchmark of contention counts wins that are none"
VISIBLE = "reads of fresh objects may fail for no fault of the load"
UNSORTED = "tools that merge listings miss keys"
PARTLY = "range reads move more than was asked for"
CORRUPT = "what is corrupted on the way is kept"
UNLISTED = "datasets with such keys are not cleaned up by listings"
HANDSHAKE = "every request pays a handshake"
OPEN_DOOR = "rates here do not include the check of signatures"
PARTS = "uploads in parts behave in another way than clients expect"
UNLOCKED = "backups on this store can be deleted before their time"
KEPT = "a locked object stays longer than its retention"
HISTORY = "work on versions cannot be compared with other stores"

QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    "conditions": (
        Question(
            "puts where nothing is: If-None-Match: *",
            conditions.put_if_absent_creates,
            NO_LOCKS,
            protocols=BOTH,
        ),
        Question(
            "keeps what is there: If-None-Match: *",
            conditions.put_if_absent,
            NO_LOCKS,
            protocols=BOTH,
        ),
        Question("puts over the same ETag: If-Match", conditions.put_if_match, NO_LOCKS),
        Question("keeps another ETag: If-Match", conditions.put_if_other, NO_LOCKS),
        Question("If-Match puts nothing where nothing is", conditions.put_if_match_absent),
        Question("of 32 creators at once one wins", conditions.one_creates, RACE, protocols=BOTH),
        Question("of 32 replacers at once one wins", conditions.one_replaces, RACE),
        Question("deletes the same ETag: If-Match", conditions.delete_if_match, NO_LOCKS),
        Question("keeps another ETag from a delete", conditions.delete_if_other, NO_LOCKS),
        Question("reads if changed: If-None-Match", conditions.get_if_changed, protocols=BOTH),
        Question("reads if the same: If-Match", conditions.get_if_match, protocols=BOTH),
        Question("copies if the same", conditions.copy_if_match),
    ),
    "listings": (
        Question("a put is read at once", listings.read_after_put, VISIBLE, protocols=BOTH),
        Question("a put is listed at once", listings.list_after_put, VISIBLE, protocols=BOTH),
        Question("a delete is seen at once", listings.list_after_delete, VISIBLE, protocols=BOTH),
        Question("deletes what is not there", listings.delete_absent, protocols=BOTH),
        Question("lists keys in the order of bytes", listings.in_order, UNSORTED, protocols=BOTH),
        Question("lists page by page", listings.pages, UNSORTED, protocols=BOTH),
        Question("begins behind a key: start-after", listings.start_after),
        Question("lists by the first version too", listings.markers),
        Question("gathers keys by a delimiter", listings.folders, protocols=BOTH),
        Question("encodes keys: encoding-type=url", listings.encodes_keys, UNLISTED),
        Question("lists control characters", listings.control_characters, UNLISTED, protocols=BOTH),
        Question(
            "deletes many with one request",
            listings.deletes_many,
            "clean-ups take a request for each object",
            protocols=BOTH,
        ),
    ),
    "ranges": (
        Question("reads a range", ranges.first_bytes, PARTLY, protocols=BOTH),
        Question("reads to the end", ranges.open_end, PARTLY, protocols=BOTH),
        Question("reads the last bytes", ranges.suffix, PARTLY, protocols=BOTH),
        Question("cuts a range at the end", ranges.beyond, PARTLY, protocols=BOTH),
        Question(
            "reads several ranges at once",
            ranges.several,
            "multi_range_get has another meaning here",
            usual="no",
        ),
        Question(
            "reads several ranges at once",
            ranges.several,
            "multi_range_get cannot be measured",
            protocols=SWIFT,
        ),
        Question("refuses a range behind the end", ranges.unsatisfiable, protocols=BOTH),
        Question("refuses a range of no bytes", ranges.of_nothing, protocols=BOTH),
        Question("tells the length by HEAD", ranges.of_head, protocols=BOTH),
    ),
    "versions": (
        Question("keeps each put as a version", versions.keeps_versions, HISTORY, where="versions"),
        Question(
            "lists versions, the newest first", versions.lists_versions, HISTORY, where="versions"
        ),
        Question("a delete leaves a marker", versions.delete_marks, HISTORY, where="versions"),
        Question(
            "what is deleted is not listed", versions.hides_deleted, VISIBLE, where="versions"
        ),
        Question("without its marker it is back", versions.marker_goes, HISTORY, where="versions"),
        Question(
            "a version's delete uncovers the last", versions.version_goes, HISTORY, where="versions"
        ),
        Question("suspended, a put replaces null", versions.suspends, HISTORY, where="versions"),
    ),
    "retention": (
        Question("keeps what is locked", retention.keeps_locked, UNLOCKED, where="locked"),
        Question("keeps what is on legal hold", retention.keeps_held, UNLOCKED, where="locked"),
        Question("lets go when the time is over", retention.lets_go, KEPT, where="locked"),
    ),
    "parts": (
        Question("makes an object of parts", parts.in_parts, PARTS),
        Question(
            "refuses parts below 5 MiB",
            parts.refuses_small_parts,
            "smaller parts can be measured here than elsewhere",
        ),
        Question("refuses parts out of order", parts.refuses_disorder, PARTS),
        Question("refuses another part's ETag", parts.refuses_wrong_part, CORRUPT),
        Question("takes the last of one number", parts.takes_last_of_number, PARTS),
        Question("lets numbers be left out", parts.skips_numbers, PARTS),
        Question(
            "completes a second time",
            parts.completes_twice,
            "a repeated completion counts as a failure",
        ),
        Question("completes only if absent", parts.completes_if_absent, NO_LOCKS),
        Question(
            "forgets what is aborted", parts.aborts, "space of aborted uploads is not given back"
        ),
        Question(
            "lists uploads", parts.lists_uploads, "uploads that are left over cannot be found"
        ),
        Question("lists parts", parts.lists_parts, PARTS),
        Question("copies a part of an object", parts.copies_part, PARTS),
        Question("reads by the number of a part", parts.reads_by_part, PARTS),
        Question("reads a manifest of segments", swift.static_segments, PARTS, protocols=SWIFT),
        Question(
            "refuses another segment's ETag", swift.refuses_wrong_segment, CORRUPT, protocols=SWIFT
        ),
        Question("reads what begins with a prefix", swift.dynamic_segments, PARTS, protocols=SWIFT),
    ),
    "checksums": (
        Question("refuses a wrong CRC32", checksums.refuses_wrong("crc32"), CORRUPT),
        Question("refuses a wrong CRC32C", checksums.refuses_wrong("crc32c"), CORRUPT),
        Question("refuses a wrong CRC64NVME", checksums.refuses_wrong("crc64nvme"), CORRUPT),
        Question("refuses a wrong SHA-1", checksums.refuses_wrong("sha1"), CORRUPT),
        Question("refuses a wrong SHA-256", checksums.refuses_wrong("sha256"), CORRUPT),
        Question("refuses a wrong MD5", checksums.refuses_wrong_md5, CORRUPT, protocols=BOTH),
        Question("tells the CRC32C it was sent", checksums.keeps("crc32c")),
        Question("tells the CRC64NVME it was sent", checksums.keeps("crc64nvme")),
        Question("tells the SHA-256 it was sent", checksums.keeps("sha256")),
        Question(
            "the ETag is the MD5",
            checksums.etag_is_md5,
            "objects cannot be verified by their ETag",
            protocols=BOTH,
        ),
    ),
    "keys": (
        Question("a key of 1,024 bytes", keys.longest_key, protocols=BOTH),
        Question("the same in one segment", keys.longest_segment, protocols=BOTH),
        Question("refuses a key of 1,025 bytes", keys.too_long_key, protocols=BOTH),
        Question("a key with //", keys.keeps_key("a//b"), UNLISTED, protocols=BOTH),
        Question("a key with /../", keys.keeps_key("a/../b"), UNLISTED, protocols=BOTH),
        Question("a key that ends in /", keys.keeps_key("a/"), UNLISTED, protocols=BOTH),
        Question(
            "a key with blanks and signs",
            keys.keeps_key("a b+c%20&'\"<é>"),
            UNLISTED,
            protocols=BOTH,
        ),
        Question(
            "a key and one below it",
            keys.distinct_keys("a", "a/b"),
            "objects lie in folders: keys of datasets may collide",
            protocols=BOTH,
        ),
        Question("two ways to write é", keys.distinct_keys("é", "é"), UNLISTED, protocols=BOTH),
        Question("2 KiB of metadata", keys.keeps_metadata, protocols=BOTH),
        Question("refuses more than 2 KiB", keys.too_much_metadata),
        Question("keeps content type and encoding", keys.keeps_headers, protocols=BOTH),
        Question("a copy onto itself takes new metadata", keys.copies_onto_itself),
        Question("keeps tags", keys.tags),
        Question("an object that expires says when", swift.expires, protocols=SWIFT),
    ),
    "access": (
        Question("refuses unsigned requests", access.refuses_nobody, OPEN_DOOR, protocols=BOTH),
        Question(
            "refuses a wrong signature or token", access.refuses_wrong, OPEN_DOOR, protocols=BOTH
        ),
        Question("reads by a signed URL", access.signed_get),
        Question("puts by a signed URL", access.signed_put),
        Question("refuses a URL that has expired", access.signed_get_ends, OPEN_DOOR),
        Question(
            "takes a clock 10 minutes behind",
            access.skew_of_minutes,
            "clients need clocks that are closer",
        ),
        Question("refuses a clock 20 minutes behind", access.skew_of_20_minutes),
    ),
    "connections": (
        Question("keeps connections open", connection.keeps_open, HANDSHAKE, protocols=BOTH),
        Question(
            "keeps them open after puts",
            connection.keeps_open_after_puts,
            HANDSHAKE,
            protocols=BOTH,
        ),
        Question(
            "keeps them open after a 404",
            connection.keeps_open_after_errors,
            "mixes with failures pay handshakes",
            protocols=BOTH,
        ),
        Question(
            "small answers come at once",
            connection.answers_at_once,
            "Nagle's algorithm and delayed acknowledgements are measured, not the store",
            protocols=BOTH,
        ),
        Question(
            "answers where it is asked",
            connection.does_not_redirect,
            "loadstone follows no redirects",
            protocols=BOTH,
            where="anywhere",
        ),
        Question(
            "says 100 Continue before a body",
            connection.expects,
            "clients that wait for it lose time with each put",
            protocols=BOTH,
        ),
        Question(
            "speaks HTTP/2", connection.speaks_http_2, usual="no", protocols=BOTH, where="anywhere"
        ),
        Question(
            "encrypts: TLS",
            connection.has_tls,
            "no cost of encryption is in the numbers",
            usual=None,
            protocols=BOTH,
            where="anywhere",
        ),
    ),
}
"""By what they are about."""
