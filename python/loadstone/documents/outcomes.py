"""Outcomes of requests that are neither good nor failed, by their names in records."""

from loadstone.documents.summary import Summary

UNWRITTEN = "unwritten"
"""The object is not there, for its own put had failed: counted with the put."""

LOST_RACE = "lost_race"
"""The request's condition did not hold, for another write had come first."""

NO_FAILURES = frozenset({UNWRITTEN, LOST_RACE})


def good_requests(summary: Summary) -> int:
    """Return how many requests of a trial were good."""
    others = summary.get("unwritten", 0) + summary.get("lost_races", 0)
    return summary.get("requests", 0) - summary.get("failed", 0) - others
