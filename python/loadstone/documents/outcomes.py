"""Outcomes of requests by their names in records: neither good nor failed, or without an answer."""

from loadstone.documents.summary import Summary

UNWRITTEN = "unwritten"
"""The object is not there, for its own put had failed: counted with the put."""

LOST_RACE = "lost_race"
"""The request's condition did not hold, for another write had come first."""

UNREACHED = frozenset({"dns", "refused", "unreachable", "timeout", "tls"})
"""Nothing came back."""

CLIENT_FAILURES = ("no_ports", "no_descriptors")
"""The client's host had none left for another connection: nothing was sent."""

ABSENT = "absent"
"""The object was not there; whether it should have been, its history tells."""

NO_FAILURES = frozenset({UNWRITTEN, LOST_RACE, ABSENT})


def good_requests(summary: Summary) -> int:
    """Return how many requests of a trial were good, or found that nothing was there, as may be."""
    others = summary.get("unwritten", 0) + summary.get("lost_races", 0)
    return summary.get("requests", 0) - summary.get("failed", 0) - others
