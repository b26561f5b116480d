"""How long keys become whose paths are encrypted, as the load generator seals them."""

from dataclasses import dataclass

from loadstone.campaign.drivers import ProtocolLimits

IV_BYTES = 16


def sealed_bytes(segment_bytes: int) -> int:
    """Return how long a segment is as it is stored: its IV and itself, in base64url."""
    return (4 * (IV_BYTES + segment_bytes) + 2) // 3 if segment_bytes else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKeys:
    """What planning must know of a script's keys as they are stored, without `object_prefix`.

    `partial_prefix` is a prefix that some action lists and that ends within a segment, which sealed
    keys do not have in common.
    """

    longest: str
    longest_bytes: int
    flat_longest: str
    flat_longest_bytes: int
    """Of names of files, in which three bytes stand for each slash."""
    partial_prefix: str | None

    def mistake(self, object_prefix: str, limits: ProtocolLimits) -> tuple[str, str] | None:
        """Return what is wrong with them and what would be right, if anything is."""
        if self.partial_prefix is not None:
            return (
                f'a listing of "{self.partial_prefix}", which ends within a name',
                "none, or listings of prefixes that are empty or end in a slash",
            )
        leaf_bytes = len(object_prefix.rpartition("/")[2].encode())
        whole_bytes = len(object_prefix.encode())
        for limit, key, key_bytes, what in (
            (limits.key_bytes_max, self.longest, whole_bytes + self.longest_bytes, "a key"),
            (limits.name_bytes_max, self.flat_longest, leaf_bytes + self.flat_longest_bytes,
             "the name of a file"),
        ):  # fmt: skip
            if limit is not None and key_bytes > limit:
                return (
                    f'"{key}", which becomes {what} of {key_bytes:,} bytes',
                    f"none, or keys that become at most {limit:,} bytes",
                )
        return None
