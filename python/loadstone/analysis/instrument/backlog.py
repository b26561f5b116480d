"""An open load that outran its target: what was due in the window was answered long after it.

Requests count for the stage in which they were due, so that late answers keep their latency. The
rate is another question: where the target keeps up, what was due over the window is the rate, and
where it does not, what was answered in the window is.
"""

import math

from loadstone.analysis.measured.rows import Rows
from loadstone.documents.summary import Iteration

SECOND_NS = 1_000_000_000
SHARE_MAX = 0.01
"""A deficit below it is no overload: 99 % of the rate asked for is enough."""

DEVIATIONS = 3.0
FILLED_MEDIANS = 3.0
"""After so many median response times as many requests are under way as later on."""

DRAIN_SHARE, DRAIN_MEDIANS, DRAIN_RATE = 0.1, 1.5, 0.5
"""A window too short to look at its seconds: it lasted on for so much of itself and so many median
times, and at half its rate or more. A backlog is worked off at full pace; slow answers trickle in.
"""


def is_by_answers(
    rows: Rows,
    of_all_stages: Rows,
    window_ns: tuple[int, int],
    entry: Iteration,
    median_ns: float,
) -> bool:
    """Tell whether the rate of an open load is that of the answers in its window.

    So it is after a warm-up that filled the target's queue, and where the target fell behind.
    Otherwise the window begins with no request under way, and its answers are too few.
    `rows` are all operations that were due in the window, by the second they were answered in, and
    `of_all_stages` those due in other stages, too; `median_ns` is the median response time.
    """
    start_ns, end_ns = window_ns
    answered = rows.unless("outcome", "not_sent")
    if not len(answered) or "end_ns" not in entry:
        return False
    began_ns = int(entry.get("start_ns", start_ns))
    if began_ns + FILLED_MEDIANS * median_ns <= start_ns and began_ns < start_ns:
        return True
    last_ns = min(int(entry["end_ns"]), (max(answered["second"].tolist()) + 1) * SECOND_NS)
    if last_ns <= end_ns:
        return False
    # A backlog makes the median as long as it likes: the second half of the window tells as well.
    filled_ns = min(began_ns + SECOND_NS + median_ns, (start_ns + end_ns) / 2)
    first, last = math.ceil(max(start_ns, filled_ns) / SECOND_NS), end_ns // SECOND_NS
    if last > first:
        return _falls_behind(rows, of_all_stages, end_ns - start_ns, (first, last))
    return _lasts_on(rows, window_ns, last_ns, median_ns)


def _by_second(rows: Rows) -> dict[int, int]:
    return rows.sums("second", "requests")


def _falls_behind(
    rows: Rows, of_all_stages: Rows, window_ns: int, seconds: tuple[int, int]
) -> bool:
    """Tell whether less was answered than was due, in whole seconds when as much is under way."""
    length_s = window_ns / SECOND_NS
    first, last = seconds
    due = rows.sum("requests")
    answered = _by_second(of_all_stages.unless("outcome", "not_sent"))
    done = sum(count for second, count in answered.items() if first <= second < last)
    expected = due * (last - first) / length_s
    # How many were due in the seconds that are left out is a matter of chance.
    chance = math.sqrt(due * (length_s - (last - first)) / length_s)
    return expected - done > max(SHARE_MAX * expected, DEVIATIONS * chance)


def _lasts_on(rows: Rows, window_ns: tuple[int, int], last_ns: int, median_ns: float) -> bool:
    """Tell whether work went on at full pace behind a short window."""
    start_ns, end_ns = window_ns
    drain_ns = last_ns - end_ns
    if drain_ns <= max(DRAIN_SHARE * (end_ns - start_ns), DRAIN_MEDIANS * median_ns):
        return False
    counts = _by_second(rows.unless("outcome", "not_sent"))
    last, inside = end_ns // SECOND_NS, end_ns % SECOND_NS
    # The second that the window ends in counts by its parts before and behind the end.
    length_ns = min(SECOND_NS, last_ns - last * SECOND_NS)
    cut = counts.get(last, 0) * (1 - inside / length_ns)
    late = cut + sum(count for second, count in counts.items() if second > last)
    early = sum(counts.values()) - late
    return late / drain_ns >= DRAIN_RATE * early / (end_ns - start_ns)
