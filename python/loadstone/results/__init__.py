"""Run folders: records in, a `Run` out.

This package knows files, and not how load is made or judged. `record` is the result of one trial,
`store` reads a folder, `writer` writes one.
"""

from loadstone.results.record import Record, Run

__all__ = ["Record", "Run"]
