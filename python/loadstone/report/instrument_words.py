"""The instrument itself in words and cells: how near its ceiling, and what disturbed it."""

from collections.abc import Iterable, Sequence

from loadstone import units
from loadstone.analysis.instrument.headroom import Jitter
from loadstone.analysis.judgements.result import Result

JITTER_NOTES = (
    "Hiccup: by how much a thread that sleeps for a moment woke late, p99.9 of the trial.",
    "Waited: how long the worst load thread was ready and had no core.",
)


def ceiling_cell(cell: Result, not_known: str) -> str:
    """Return how much of its own ceiling the load generator used, in percent."""
    if cell.instrument is None:
        return not_known
    return ("~" if cell.instrument.is_extended else "") + f"{100 * cell.instrument.share:.0f}"


def ceiling_notes(cells: Sequence[Result]) -> Iterable[str]:
    """Explain the column of ceilings, and what its numbers rest on."""
    shares = [cell.instrument for cell in cells if cell.instrument is not None]
    if not shares:
        return
    bases = dict.fromkeys(share.basis for share in shares)
    words = {
        "measured": "the rate measured against a target that does nothing",
        "processor time": "what the client's cores allow at the measured cost of a request",
    }
    minutes = round(max(share.age_s for share in shares) / 60)
    age = units.format_duration(minutes * 60 * 10**9) if minutes else "less than a minute"
    yield (
        f"Ceiling: how much of its own ceiling the load generator used ("
        f"{' or '.join(words[basis] for basis in bases)}; calibrated {age} before)."
    )
    if any(share.is_extended for share in shares):
        yield "~ requests larger than any that was calibrated: the line of the last two sizes."


def jitter_cells(jitter: Jitter, not_known: str) -> tuple[str, str]:
    """Return the hiccups in milliseconds, and the wait for a core in percent."""
    hiccup_ns, delay = jitter.hiccup_ns_p99_9, jitter.run_delay_share
    return (
        not_known if hiccup_ns is None else units.format_number(hiccup_ns / 1e6),
        not_known if delay is None else units.format_number(100 * delay),
    )
