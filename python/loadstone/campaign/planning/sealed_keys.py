"""How long a script's keys become whose paths are encrypted, and whether a target takes them."""

from dataclasses import dataclass

from loadstone.campaign.drivers import ProtocolLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKeys:
    """What planning must know of a script's keys as they are stored, without `object_prefix`.

    `longest` is the key that is stored as the longest, with its bytes, `longest_flat` the one that
    has the longest name as a file. `partial_prefix` is a prefix that some action lists and that
    ends within a segment, which sealed keys do not have in common.
    """

    longest: tuple[str, int]
    longest_flat: tuple[str, int]
    partial_prefix: str | None

    def mistake(self, object_prefix: str, limits: ProtocolLimits) -> tuple[str, str] | None:
        """Return what is wrong with them and what would be right, if anything is."""
        if self.partial_prefix is not None:
            return (
                f'a listing of "{self.partial_prefix}", which ends within a name',
                "none, or listings of prefixes that are empty or end in a slash",
            )
        leaf = object_prefix.rpartition("/")[2]
        for limit, prefix, (key, own_bytes), what in (
            (limits.key_bytes_max, object_prefix, self.longest, "a key"),
            (limits.name_bytes_max, leaf, self.longest_flat, "the name of a file"),
        ):
            key_bytes = len(prefix.encode()) + own_bytes
            if limit is not None and key_bytes > limit:
                return (
                    f'"{key}", which becomes {what} of {key_bytes:,} bytes',
                    f"none, or keys that become at most {limit:,} bytes",
                )
        return None
