"""A script's keys as they are stored where paths are encrypted."""

from collections.abc import Iterator

from loadstone.campaign.planning.sealed_keys import SealedKeys, sealed_bytes
from loadstone.script.expansion import NO_WRAP, Subjects
from loadstone.script.table import SPACES

SLASH_BYTES = 3
"""A slash in the name of a file is written as %2F."""
ROWS = 65_536


def sealed_keys(subjects: Subjects) -> SealedKeys:
    """Return what planning must know of a script's keys."""
    users = _users(subjects)
    longest, flat_longest, partial_prefix = (0, ""), (0, ""), None
    for coded, _ in _rows(subjects):
        kind, key = coded[0], coded[coded.index("/") + 1 :]
        if kind == "p" and key and not key.endswith("/") and partial_prefix is None:
            partial_prefix = key
        head, rest = _split(key, users)
        segments = rest.split("/")
        whole = len(head.encode()) + len(segments) - 1
        whole += sum(sealed_bytes(len(one.encode())) for one in segments)
        flat = whole + (SLASH_BYTES - 1) * key.count("/") + 2 * head.count("%")
        longest, flat_longest = max(longest, (whole, key)), max(flat_longest, (flat, key))
    return SealedKeys(
        longest=longest[1],
        longest_bytes=longest[0],
        flat_longest=flat_longest[1],
        flat_longest_bytes=flat_longest[0],
        partial_prefix=partial_prefix,
    )


def _users(subjects: Subjects) -> frozenset[str]:
    """Return the users whom objects are wrapped for: those that the load generator knows."""
    keys = (coded[coded.index("/") + 1 :] for coded, wrap in _rows(subjects) if wrap != NO_WRAP)
    return frozenset(key.partition("/")[0] for key in keys)


def _rows(subjects: Subjects) -> Iterator[tuple[str, int]]:
    for start in range(0, len(subjects.coded), ROWS):
        coded = subjects.coded.slice(start, ROWS).to_pylist()
        yield from zip(coded, subjects.wraps[start : start + ROWS], strict=True)


def _split(key: str, users: frozenset[str]) -> tuple[str, str]:
    """Return what of a key stays plain, and what is sealed: as `dataset/paths.rs` has it."""
    user, slash, below = key.partition("/")
    if not slash or user not in users:
        return "", key
    if below == "keystore" or below.startswith("profile/"):
        return key, ""
    space, slash, rest = below.partition("/")
    if slash and space in SPACES:
        return f"{user}/{space}/", rest
    return f"{user}/", below
