"""What a host or the controller shows the other side. Agents need nothing that makes such."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate with its key, both as PEM texts. The key is secret: never write it anywhere
    but where the host that it is for reads it.
    """

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity(...)"
