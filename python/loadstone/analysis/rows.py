"""Rows of one value: by a mask, since a query plan costs more than the few rows of a trial."""

import pyarrow as pa
import pyarrow.compute as pc


def where(table: pa.Table, column: str, value: object) -> pa.Table:
    """Return the rows whose column has a value."""
    return table.filter(pc.equal(table[column], value))


def unless(table: pa.Table, column: str, value: object) -> pa.Table:
    """Return the rows whose column has another value."""
    return table.filter(pc.not_equal(table[column], value))
