"""What only people can say about a measurement: who paid, what was tuned, what lies behind it."""

from pydantic import BaseModel, ConfigDict, Field


class Statements(BaseModel):
    """Statements for the disclosure; one that is absent is listed as not stated."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    sponsor: str | None = Field(default=None, description="Who asked and paid for it.")
    conflicts: str | None = Field(default=None, description="Conflicts of interest, or none.")
    product: str | None = Field(default=None, description="The target's product and version.")
    configuration: str | None = Field(
        default=None, description="What differs from the product's defaults, and who tuned it."
    )
    hardware: str | None = Field(
        default=None, description="The target's hosts, cards, drives, firmware and their number."
    )
    topology: str | None = Field(default=None, description="The network between client and target.")
    redundancy: str | None = Field(
        default=None, description="Copies or erasure coding, and when a write is acknowledged."
    )
    consistency: str | None = Field(default=None, description="What the target promises readers.")
    cache: str | None = Field(
        default=None, description="State of caches when measuring began: cold, warm, and how so."
    )
    fill: str | None = Field(default=None, description="How full the target was.")
    preconditions: str | None = Field(
        default=None, description="What was written or waited for beforehand."
    )
    deviations: str | None = Field(default=None, description="What did not go as planned.")
    availability: str | None = Field(
        default=None, description="Whether all parts can be bought or downloaded."
    )
