"""A contention: clients that each try to write the same few objects, until each has won."""

from pydantic import Field

from loadstone.campaign.schema.values import PositiveCount, Section


class Contend(Section):
    """How many clients contend for how many objects."""

    keys: PositiveCount = Field(
        default=16, description="Objects that are contended for: the first of the dataset."
    )
    clients: PositiveCount = Field(
        default=64, description="Clients that contend, each for a random one of them at a time."
    )
