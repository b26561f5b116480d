"""Outcomes of requests by their names in records: neither good nor failed, or without an answer."""

from loadstone.documents.summary import Summary

UNWRITTEN = "unwritten"
"""The object is not there, for its own put had failed: counted with the put."""

LOST_RACE = "lost_race"
"""The request's condition did not hold, for another write had come first."""

UNREACHED = frozenset({"dns", "refused", "unreachable", "timeout", "tls"})
"""Nothing came back."""

NO_FAILURES = frozenset({UNWRITTEN, LOST_RACE})


def good_requests(summary: Summary) -> int:
    """Return how many requests of a trial were good."""
    others = summary.get("unwritten", 0) + summary.get("lost_races", 0)
    return summary.get("requests", 0) - summary.get("failed", 0) - others
