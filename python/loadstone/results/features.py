"""What a trial wanted of the kernel and was refused, as its driver tells in the summary."""

from collections.abc import Mapping

from loadstone.documents.summary import Summary

INSTEAD: Mapping[str, str] = {
    "io_uring": "blocking calls are used, one thread for each client",
}
"""What a driver does without a feature of the kernel, by the feature's name in the summary."""


def refused(summary: Summary) -> dict[str, str]:
    """Return the features of the kernel that this host refused, each with what the kernel said."""
    features = summary.get("features") or {}
    return {name: features[name] for name in INSTEAD if isinstance(features.get(name), str)}


def describe_refusal(name: str, said: str) -> str:
    """Return one refusal in words."""
    return f"this host refuses {name} ({said}): {INSTEAD[name]}"
