"""The kinds of trials, and the phases of queries.

Apart from the planning, whose schemas a report does not need.
"""

from loadstone.documents.trial import TrialDocument

OPERATIONS = "operations"
"""The kind of trials that run storage operations."""

QUERIES = "queries"
"""The kind of trials that run queries, in these phases."""

LOAD = "load"
CHECK = "check"
QUERY = "query"
STREAMS = "streams"
QUERY_PHASES = (LOAD, CHECK, QUERY, STREAMS)
MEASURED_PHASES = (QUERY, STREAMS)

OUT_OF_MEMORY = "out_of_memory"
"""The outcome of a query that ended, or was killed, for lack of memory."""


def kind_of(document: TrialDocument) -> str:
    """Return the kind of a trial, which selects its executor."""
    # Documents of earlier builds lack the kind.
    return str(document.get("kind") or OPERATIONS)
