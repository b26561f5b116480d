"""Settings of engines, with their secrets resolved; the campaign's schema says what each means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where Spark runs, libraries for it, and settings of Spark's own."""

    master: str | None = None
    jars: str | None = None
    packages: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """How a ClickHouse server is reached, and the storage policy that puts tables on a target."""

    url: str
    user: str | None = None
    password: str | None = None
    policy: str | None = None


EngineSettings = SparkOptions | ServerAccess | None
"""Most engines have none."""
