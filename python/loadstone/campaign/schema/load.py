"""How requests arrive: so many clients that each wait, or a rate that waits for no answer."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.values import PositiveCount, Rate, Section
from loadstone.documents.trial import LoadDocument
from loadstone.errors import InputError

NUMBERS_MAX = 4096
NUMBERS_ALLOWED = "numbers from 0 up, each once, such as [0, 2] or 0-3,8"


def _read_numbers(value: Any) -> tuple[int, ...]:
    """Parse CPU or NUMA node numbers, also in the kernel's list format."""
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(value, int) and not isinstance(value, bool):
        parts = [value]
    if not isinstance(parts, (list, tuple)):
        raise InputError.of_value(value, NUMBERS_ALLOWED)
    numbers: list[int] = []
    for part in parts:
        first, _, last = str(part).strip().partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise InputError.of_value(value, NUMBERS_ALLOWED)
        numbers += range(int(first), min(int(last or first), int(first) + NUMBERS_MAX) + 1)
    if not numbers or len(set(numbers)) < len(numbers) or len(numbers) > NUMBERS_MAX:
        raise InputError.of_value(value, NUMBERS_ALLOWED)
    return tuple(numbers)


Numbers = Annotated[
    tuple[int, ...],
    BeforeValidator(_read_numbers),
    WithJsonSchema(
        {
            "description": NUMBERS_ALLOWED,
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string"},
                {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"]}},
            ],
        }
    ),
]


class Load(Section):
    """How requests arrive: threads that wait for answers, or a rate that does not."""

    threads: PositiveCount | None = Field(
        default=None,
        description="Closed load: this many clients, each of which waits for its answer.",
    )
    rate_per_s: Rate | None = Field(
        default=None,
        alias="rate",
        description="Open load: requests arrive at this rate and do not wait for answers.",
    )
    arrivals: Literal["poisson", "constant"] = Field(
        default="poisson", description="Open load: independent arrivals, or evenly spaced ones."
    )
    clients_max: PositiveCount = Field(
        default=1024,
        description="Open load: the most requests in flight; further ones wait, and "
        "their response time includes the wait.",
    )
    per: Literal["host", "total"] = Field(
        default="host",
        description="With hosts: whether threads, rate and clients_max are per host, or "
        "for all together.",
    )
    hosts: PositiveCount | None = Field(
        default=None, description="Number of the campaign's hosts that make the load; default: all."
    )
    cores: PositiveCount | None = Field(
        default=None,
        description="Operating system threads of the load; default: one per allowed CPU.",
    )
    cpus: Numbers | None = Field(
        default=None,
        description="CPUs to bind these threads to, one each in turn: "
        + NUMBERS_ALLOWED
        + ". Without cores, one thread for each CPU.",
    )
    numa: Numbers | None = Field(
        default=None,
        description="NUMA nodes to bind these threads to, each thread to the CPUs of one node in "
        "turn.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if (self.threads is None) == (self.rate_per_s is None):
            actual = "neither" if self.threads is None else "both threads and rate"
            yield KeyMistake((), actual, "one of threads (closed) and rate (open)")
        elif self.threads is not None:
            for key in ("arrivals", "clients_max"):
                if key in self.model_fields_set:
                    yield KeyMistake((key,), "this key beside threads", "this key beside rate")
        if self.cpus is not None and self.numa is not None:
            yield KeyMistake(("numa",), "this key beside cpus", "one of them")

    def document(self, hosts: int = 1) -> LoadDocument:
        """Return the total load of `hosts` hosts as in trial documents."""
        times = hosts if self.per == "host" else 1
        if self.threads is not None:
            return {"kind": "closed", "clients": self.threads * times}
        assert self.rate_per_s is not None, "a load is closed or open"
        return {
            "kind": "open",
            "rate_per_s": self.rate_per_s * times,
            "arrivals": self.arrivals,
            "clients_max": self.clients_max * times,
        }

    @property
    def clients(self) -> int:
        """The maximum number of requests in flight."""
        return self.clients_max if self.threads is None else self.threads
