"""All questions of a card, in display order: to add one, write its row here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from loadstone.card.conclusion import Conclusion
from loadstone.card.questions import (
    access,
    checksums,
    conditions,
    connection,
    encryption,
    keys,
    listings,
    parts,
    ranges,
    retention,
    swift,
    versions,
)
from loadstone.card.questions.shared import SPECIAL
from loadstone.card.store import QUESTION_S, Store
from loadstone.documents.card import CardAnswer

Where = Literal["objects", "versions", "locked", "anywhere"]
"""The place that a question needs: for objects, with versions, with locks, or any."""
IN_TURN: tuple[Where, ...] = ("versions", "locked")
"""Places whose questions run one after another, since each may change the place's behaviour."""
ALONE = "alone"
"""The turn of questions that run alone: the target may be down meanwhile."""
S3, SWIFT = ("S3",), ("Swift",)
BOTH = (*S3, *SWIFT)


@dataclass(frozen=True, slots=True)
class Question:
    """One question: a statement about the store, and the function that tests it.

    `name` does not change when the statement is reworded; it is unique in a protocol. `means` says
    what a false statement implies for measurements. `usual` is the answer in the protocol's
    documentation; None if any answer is acceptable. Questions with the same `turn` run one after
    another.
    """

    name: str
    text: str
    ask: Callable[[Store], Conclusion]
    means: str = ""
    usual: CardAnswer | None = "yes"
    protocols: tuple[str, ...] = S3
    where: Where = "objects"
    turn: str = ""
    limit_s: float = QUESTION_S


NO_LOCKS = "locks and table commits on this store lose updates"
STUCK = "conditional writes of common clients do not succeed here"
RACE = "contending writers on this store have no single winner"
VISIBLE = "reads of fresh objects may fail without any error of the load"
UNSORTED = "tools that merge listings miss keys"
PARTLY = "range reads move more bytes than requested"
CORRUPT = "data that is corrupted on the way is kept"
UNLISTED = "datasets with such keys are not cleaned up by listings"
HANDSHAKE = "every request pays a handshake"
OPEN_DOOR = "rates here do not include the check of signatures"
PARTS = "multipart uploads behave differently than clients expect"
UNLOCKED = "backups on this store can be deleted before their time"
KEPT_LOCK = "a locked object stays longer than its retention"
UNENCRYPTED = "encryption by the store cannot be measured here"
HISTORY = "work on versions cannot be compared with other stores"

# fmt: off
QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    "conditions": (
        Question("put-if-absent-creates", "If-None-Match: * creates an object",
            conditions.put_if_absent_creates, NO_LOCKS, protocols=BOTH, turn="one object"),
        Question("put-if-absent-refuses", "If-None-Match: * keeps what is there",
            conditions.put_if_absent, NO_LOCKS, protocols=BOTH, turn="one object"),
        Question("put-if-match-replaces", "a put with the current If-Match replaces",
            conditions.put_if_match, STUCK, turn="one object"),
        Question("put-if-match-refuses", "a put heeds If-Match of another ETag",
            conditions.put_if_other, NO_LOCKS, turn="one object"),
        Question("put-if-match-absent", "If-Match without an object gives 404",
            conditions.put_if_match_absent),
        Question("one-creator-wins", "of 32 creators at once one wins", conditions.one_creates,
            RACE, protocols=BOTH, turn="race"),
        Question("one-replacer-wins", "of 16 replacers at once one wins", conditions.one_replaces,
            RACE, turn="race"),
        Question("delete-if-match-refuses", "a delete heeds If-Match of another ETag",
            conditions.delete_if_other, NO_LOCKS, turn="one object"),
        Question("delete-if-match-deletes", "a delete with the current If-Match works",
            conditions.delete_if_match, NO_LOCKS, turn="one object"),
        Question("get-if-none-match", "If-None-Match of a read gives 304",
            conditions.get_if_changed, protocols=BOTH),
        Question("get-if-match", "If-Match of a read gives 412", conditions.get_if_match,
            protocols=BOTH),
        Question("copy-if-match", "a copy checks its source's ETag", conditions.copy_if_match),
    ),
    "listings": (
        Question("read-after-put", "a put is read at once", listings.read_after_put, VISIBLE,
            protocols=BOTH, turn="changes"),
        Question("list-after-put", "a put is listed at once", listings.list_after_put, VISIBLE,
            protocols=BOTH, turn="changes"),
        Question("list-after-delete", "a delete is seen at once", listings.list_after_delete,
            VISIBLE, protocols=BOTH, turn="changes"),
        Question("delete-absent", "a missing key is deleted as documented", listings.delete_absent,
            protocols=BOTH),
        Question("list-order", "keys are listed in byte order", listings.in_order, UNSORTED,
            protocols=BOTH, turn="listed keys"),
        Question("list-pages", "a listing continues page by page", listings.pages, UNSORTED,
            protocols=BOTH, turn="listed keys"),
        Question("list-start-after", "start-after begins behind a key", listings.start_after,
            turn="listed keys"),
        Question("list-marker", "the first version of listings works", listings.markers,
            turn="listed keys"),
        Question("list-delimiter", "a delimiter groups keys", listings.folders, protocols=BOTH,
            turn="listed keys"),
        Question("list-encoding", "encoding-type=url encodes keys", listings.encodes_keys,
            UNLISTED, turn="odd keys"),
        Question("list-control-characters", "control characters can be listed",
            listings.control_characters, UNLISTED, protocols=BOTH),
        Question("delete-many", "one request deletes many objects", listings.deletes_many,
            "clean-ups take a request for each object", protocols=BOTH, turn="listed keys"),
    ),
    "ranges": (
        Question("range", "a range is read", ranges.first_bytes, PARTLY, protocols=BOTH),
        Question("range-open-end", "a range without an end is read", ranges.open_end, PARTLY,
            protocols=BOTH),
        Question("range-suffix", "the last bytes are read", ranges.suffix, PARTLY, protocols=BOTH),
        Question("range-beyond-end", "a range is cut at the object's end", ranges.beyond, PARTLY,
            protocols=BOTH),
        Question("range-several", "several ranges are read at once", ranges.several,
            "multi_range_get has another meaning here", usual="no"),
        Question("range-several", "several ranges are read at once", ranges.several,
            "multi_range_get cannot be measured", protocols=SWIFT),
        Question("range-unsatisfiable", "a range behind the end gives 416", ranges.unsatisfiable,
            protocols=BOTH),
        Question("range-of-empty", "a range of an empty object gives 416", ranges.of_nothing,
            protocols=BOTH),
        Question("head-length", "HEAD reports the length", ranges.of_head, protocols=BOTH),
    ),
    "versions": (
        Question("versions-kept", "each put keeps a version", versions.keeps_versions, HISTORY,
            where="versions"),
        Question("versions-listed", "versions are listed, the newest first",
            versions.lists_versions, HISTORY, where="versions"),
        Question("delete-marker", "a delete leaves a marker", versions.delete_marks, HISTORY,
            where="versions"),
        Question("delete-marker-hides", "a deleted object is not listed", versions.hides_deleted,
            VISIBLE, where="versions"),
        Question("delete-marker-removed", "deleting its marker restores an object",
            versions.marker_goes, HISTORY, where="versions"),
        Question("version-deleted", "deleting a version uncovers the last", versions.version_goes,
            HISTORY, where="versions"),
        Question("versions-suspended", "suspended, a put replaces null", versions.suspends,
            HISTORY, where="versions"),
        # Last of its turn: a store that deletes the bucket would lose the versions.
        Question("bucket-with-objects-kept", "a bucket with objects is not deleted",
            versions.bucket_stays, "a bucket that is removed takes along what others put into it",
            where="versions"),
    ),
    "retention": (
        Question("retention-kept", "a locked version cannot be deleted", retention.keeps_locked,
            UNLOCKED, where="locked"),
        Question("legal-hold-kept", "a version on hold cannot be deleted", retention.keeps_held,
            UNLOCKED, where="locked"),
        Question("retention-ends", "a lock ends with its retention", retention.lets_go, KEPT_LOCK,
            where="locked"),
    ),
    "parts": (
        Question("upload-in-parts", "an object is made of parts", parts.in_parts, PARTS,
            turn="object of parts"),
        Question("list-uploads", "uploads are listed", parts.lists_uploads,
            "uploads that are left over cannot be found", turn="open upload"),
        Question("list-parts", "parts are listed", parts.lists_parts, PARTS, turn="open upload"),
        Question("part-size-min", "parts below 5 MiB are refused", parts.refuses_small_parts,
            "smaller parts can be measured here than elsewhere", turn="open upload"),
        Question("part-order", "parts out of order are refused", parts.refuses_disorder, PARTS,
            turn="open upload"),
        Question("part-etag", "another part's ETag is refused", parts.refuses_wrong_part, CORRUPT,
            turn="open upload"),
        Question("part-repeated", "a part sent again replaces the first",
            parts.takes_last_of_number, PARTS, turn="seventh part"),
        Question("part-numbers-skipped", "part numbers may be skipped", parts.skips_numbers, PARTS,
            turn="seventh part"),
        Question("complete-twice", "completing a second time succeeds", parts.completes_twice,
            "a repeated completion counts as a failure", turn="object of parts"),
        Question("complete-if-absent", "completing heeds If-None-Match: *",
            parts.completes_if_absent, NO_LOCKS, turn="seventh part"),
        Question("abort-upload", "an aborted upload is gone", parts.aborts,
            "space of aborted uploads is not given back", turn="open upload"),
        Question("copy-part", "a part is copied from an object", parts.copies_part, PARTS,
            turn="object of parts"),
        Question("get-part", "a part is read by its number", parts.reads_by_part, PARTS,
            turn="object of parts"),
        Question("static-manifest", "a static manifest is read as one", swift.static_segments,
            PARTS, protocols=SWIFT),
        Question("static-manifest-etag", "another segment's ETag is refused",
            swift.refuses_wrong_segment, CORRUPT, protocols=SWIFT),
        Question("dynamic-manifest", "a dynamic manifest is read as one", swift.dynamic_segments,
            PARTS, protocols=SWIFT),
    ),
    "checksums": (
        Question("crc32-checked", "a wrong CRC32 is refused", checksums.refuses_wrong("crc32"),
            CORRUPT, turn="wrong checksum"),
        Question("crc32c-checked", "a wrong CRC32C is refused", checksums.refuses_wrong("crc32c"),
            CORRUPT, turn="wrong checksum"),
        Question("crc64nvme-checked", "a wrong CRC64NVME is refused",
            checksums.refuses_wrong("crc64nvme"), CORRUPT, turn="wrong checksum"),
        Question("sha1-checked", "a wrong SHA-1 is refused", checksums.refuses_wrong("sha1"),
            CORRUPT, turn="wrong checksum"),
        Question("sha256-checked", "a wrong SHA-256 is refused", checksums.refuses_wrong("sha256"),
            CORRUPT, turn="wrong checksum"),
        Question("md5-checked", "a wrong MD5 is refused", checksums.refuses_wrong_md5, CORRUPT,
            protocols=BOTH, turn="wrong checksum"),
        Question("crc32c-reported", "a CRC32C is kept and reported", checksums.keeps("crc32c")),
        Question("crc64nvme-reported", "a CRC64NVME is kept and reported",
            checksums.keeps("crc64nvme")),
        Question("sha256-reported", "a SHA-256 is kept and reported", checksums.keeps("sha256")),
        Question("etag-is-md5", "the ETag is the MD5", checksums.etag_is_md5,
            "objects cannot be verified by their ETag", protocols=BOTH),
    ),
    "encryption": (
        Question("sse-s3", "it encrypts with its own key", encryption.encrypts("AES256"),
            UNENCRYPTED),
        Question("sse-kms", "it encrypts with its key service's key",
            encryption.encrypts("aws:kms"), UNENCRYPTED),
        Question("sse-c", "it encrypts with the client's key", encryption.encrypts_for_customer,
            UNENCRYPTED),
    ),
    "keys": (
        Question("key-1024-bytes", "a key of 1,024 bytes is kept", keys.longest_key,
            protocols=BOTH),
        Question("key-one-segment", "the same in one segment", keys.longest_segment,
            protocols=BOTH),
        Question("key-1025-bytes", "a key of 1,025 bytes is refused", keys.too_long_key,
            protocols=BOTH),
        Question("key-double-slash", "a key with // is kept", keys.keeps_key("a//b"), UNLISTED,
            protocols=BOTH, turn="odd keys"),
        Question("key-dot-dot", "a key with /../ is kept", keys.keeps_key("a/../b"), UNLISTED,
            protocols=BOTH, turn="odd keys"),
        Question("key-trailing-slash", "a key that ends in / is kept", keys.keeps_key("a/"),
            UNLISTED, protocols=BOTH, turn="odd keys"),
        Question("key-special-characters", "a key with special characters is kept",
            keys.keeps_key(SPECIAL), UNLISTED, protocols=BOTH, turn="odd keys"),
        Question("key-below-key", "a and a/b are two objects", keys.distinct_keys("a", "a/b"),
            "objects lie in folders: keys of datasets may collide", protocols=BOTH,
            turn="odd keys"),
        Question("key-unicode-forms", "two Unicode forms of é are two keys",
            keys.distinct_keys("é", "e\u0301"), UNLISTED, protocols=BOTH, turn="odd keys"),
        Question("metadata-2-kib", "2 KiB of metadata are kept", keys.keeps_metadata,
            protocols=BOTH, turn="headers"),
        Question("metadata-beyond-2-kib", "more than 2 KiB are refused", keys.too_much_metadata),
        Question("content-headers", "content type and encoding are kept", keys.keeps_headers,
            protocols=BOTH, turn="headers"),
        Question("copy-onto-itself", "a copy onto itself replaces metadata",
            keys.copies_onto_itself, turn="headers"),
        Question("tags", "tags are kept", keys.tags),
        Question("expiry", "an expiring object reports when", swift.expires, protocols=SWIFT),
    ),
    "access": (
        Question("unsigned-refused", "unsigned requests are refused", access.refuses_nobody,
            OPEN_DOOR, protocols=BOTH),
        Question("wrong-signature-refused", "a wrong signature or token is refused",
            access.refuses_wrong, OPEN_DOOR, protocols=BOTH),
        Question("presigned-get", "a presigned GET is answered", access.signed_get),
        Question("presigned-put", "a presigned PUT is carried out", access.signed_put),
        Question("presigned-expired", "an expired presigned URL is refused",
            access.signed_get_ends, OPEN_DOOR),
        Question("clock-10-minutes-behind", "a clock 10 minutes behind is accepted",
            access.skew_of_minutes, "clients need clocks that are closer"),
        Question("clock-20-minutes-behind", "a clock 20 minutes behind is refused",
            access.skew_of_20_minutes),
    ),
    "connections": (
        Question("keep-alive", "connections stay open", connection.keeps_open, HANDSHAKE,
            protocols=BOTH),
        Question("keep-alive-after-put", "connections stay open after puts",
            connection.keeps_open_after_puts, HANDSHAKE, protocols=BOTH),
        Question("keep-alive-after-404", "connections stay open after a 404",
            connection.keeps_open_after_errors, "mixes with failures pay handshakes",
            protocols=BOTH),
        Question("no-delayed-answers", "small answers are not delayed by 40 ms",
            connection.answers_at_once,
            "Nagle's algorithm and delayed acknowledgements are measured, not the store",
            protocols=BOTH),
        Question("no-redirects", "requests are not redirected", connection.does_not_redirect,
            "loadstone follows no redirects", protocols=BOTH, where="anywhere"),
        Question("expect-continue", "100 Continue comes before a body", connection.expects,
            "clients that wait for it lose time with each put", protocols=BOTH),
        Question("chunked-put", "a put in chunks, without a length, is taken",
            connection.takes_chunks, usual="no"),
        Question("chunked-put", "a put in chunks, without a length, is taken",
            connection.takes_chunks, "clients must know lengths before", protocols=SWIFT),
        Question("http-1-0", "HTTP/1.0 is answered", connection.speaks_http_1_0, protocols=BOTH),
        Question("http-2", "HTTP/2 is spoken", connection.speaks_http_2, usual="no",
            protocols=BOTH, where="anywhere"),
        Question("tls", "TLS encrypts", connection.has_tls,
            "no cost of encryption is in the numbers", usual=None, protocols=BOTH,
            where="anywhere"),
    ),
}
# fmt: on
"""By subject."""
