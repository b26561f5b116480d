"""The benchmark that is derived from TPC-H: its tables, its queries, and how its data is made."""

from collections.abc import Sequence
from importlib import resources

TABLES: Sequence[str] = (
    "customer",
    "lineitem",
    "nation",
    "orders",
    "part",
    "partsupp",
    "region",
    "supplier",
)

BYTES_PER_SCALE = 400_000_000
"""What the tables take as Parquet at scale 1, rounded up: 345 MB were measured."""

_FRACTION_AT_SCALE_1 = 0.0001
"""A constant of Q11, which shrinks as the scale grows (TPC-H specification, 2.4.11.3)."""


def text_of(query: str, scale: float) -> str:
    """Return a query's text at a scale."""
    file = resources.files("loadstone.engines.tpch").joinpath(f"{query.lower()}.sql")
    text = file.read_text(encoding="utf-8").strip().rstrip(";")
    return text.replace("0.0001000000", f"{_FRACTION_AT_SCALE_1 / scale:.12f}")
