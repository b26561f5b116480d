"""The run folder: Records in, Run out. Knows files, and nothing of how load is made or judged.

`record` is what one trial left behind, `store` reads a folder, `writer` makes one.
"""

from loadstone.results.record import Record, Run

__all__ = ["Record", "Run"]
