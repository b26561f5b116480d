"""Network cards of the client: full ones, and losses by cards, queues and the path.

Counters are those of the whole host, so they count only if the load moved most of the bytes.
"""

from collections.abc import Iterator

from loadstone.analysis.instrument.watched_lines import (
    Line,
    Lines,
    evidence_of,
    is_on_own_host,
    whole_ns_of,
)
from loadstone.analysis.judgements.finding import Evidence
from loadstone.results.record import Record

SOFTIRQ_BUSY = 0.90
NIC_BUSY = 0.90
NIC_PASSED = 1.05
OWN_TRAFFIC = 0.5
FRAME_BYTES = 1500
FRAME_HEADER_BYTES = 14
DROPPED = 0.001
"""Share of packets. Any card drops fewer now and then, such as frames of unknown protocols."""
LOST_INSIDE = 0.10
"""Share of received bytes. Headers that are merged before IP account for up to 4 %."""
REPEATED = 0.01


def busy_cards(record: Record, lines: Lines) -> Iterator[Evidence]:
    """Yield cards that the load filled, and packets without a processor."""
    for metric in ("received_bytes", "sent_bytes"):
        for line, share in shares_of_cards(lines, metric):
            # A virtual card states a nominal speed, which is not a limit if it was exceeded.
            if NIC_BUSY <= share <= NIC_PASSED and _is_mostly_own(record, metric, line.rate):
                name = f"{metric.partition('_')[0]} on {line.subject}, share of the line's speed"
                yield evidence_of(name, share, NIC_BUSY, line.host, "card traffic")
    for line in lines.get(("network", "backlog_dropped"), ()):
        if line.growth > 0 and _receives_most(record, lines, line.host):
            words = f"packets dropped on {line.subject}"
            yield evidence_of(words, line.growth, 0, line.host, "card drops")


def shares_of_cards(lines: Lines, metric: str) -> Iterator[tuple[Line, float]]:
    """Yield the rates of cards as shares of their speed, where known."""
    for line in lines.get(("network", metric), ()):
        speed = _beside(lines, ("network", "speed_bits_per_s"), line)
        if speed is not None:
            # The kernel counts frames without preamble, check sum and gap, which the line carries.
            bits_per_s = 8 * line.rate * (FRAME_BYTES + 38) / (FRAME_BYTES + 14)
            yield line, bits_per_s / float(speed.values.max())


DROPS = (
    ("received_dropped", "received"),
    ("receive_queue_dropped", "received"),
    ("sent_dropped", "sent"),
    ("send_queue_dropped", "sent"),
)
"""Counters of packets dropped by a card and its queues, with the totals of these packets."""


def drops(record: Record, lines: Lines) -> Iterator[Evidence]:
    """Yield drops of cards and queues, and received bytes that did not reach IP."""
    for metric, way in DROPS:
        for line in lines.get(("network", metric), ()):
            packets = _beside(lines, ("network", f"{way}_packets"), line)
            moved = _beside(lines, ("network", f"{way}_bytes"), line)
            if packets is None or moved is None or not packets.growth:
                continue
            share = line.growth / (packets.growth + line.growth)
            # A direction that carries only acknowledgements is skipped: the other one decides.
            if share >= DROPPED and _is_mostly_own(record, f"{way}_bytes", moved.rate):
                name = f"{metric.replace('_', ' ')} on {line.subject}, share of its packets"
                yield evidence_of(name, share, DROPPED, line.host, "card drops")
    for line in lines.get(("network", "received_bytes"), ()):
        lost = _lost_inside(lines, line)
        is_own = line.subject != "lo" and _is_mostly_own(record, "received_bytes", line.rate)
        if lost is not None and lost >= LOST_INSIDE and is_own:
            name = f"bytes received on {line.subject} but dropped before IP"
            yield evidence_of(name, lost, LOST_INSIDE, line.host, "card drops")


def _beside(lines: Lines, quantity: tuple[str, str], line: Line) -> Line | None:
    """Return another quantity of the same host and subject."""
    like = (line.host, line.subject)
    return next(
        (other for other in lines.get(quantity, ()) if (other.host, other.subject) == like), None
    )


def _lost_inside(lines: Lines, received: Line) -> float | None:
    """Return the share of received bytes that the kernel dropped before IP; None if unwatched.

    Forwarded traffic of others hides a loss.
    """
    of_ip = lines.get(("tcp", "ip_received_bytes"), ())
    up = next((line.growth for line in of_ip if line.host == received.host), None)
    packets = _beside(lines, ("network", "received_packets"), received)
    headers = FRAME_HEADER_BYTES * packets.growth if packets is not None else 0.0
    whole = received.growth - headers
    if up is None or whole <= 0:
        return None
    of_itself = sum(
        line.growth
        for line in lines.get(("network", "received_bytes"), ())
        if (line.host, line.subject) == (received.host, "lo")
    )
    return 1 - (up - of_itself) / whole


REPEATS = (
    ("segments_repeated", "segments_sent", "TCP segments sent again"),
    ("segments_received_again", "segments_received", "TCP segments received again"),
    ("segments_out_of_order", "segments_received", "TCP segments out of order"),
)
"""Counters that indicate losses on the path, with their totals."""


def losses(record: Record, lines: Lines) -> Iterator[Evidence]:
    """Yield losses and reordering on the path, as TCP saw them."""
    if is_on_own_host(record) or next(drops(record, lines), None) is not None:
        # Packets dropped by the client itself are retransmitted, too.
        return
    for metric, whole, words in REPEATS:
        for line in lines.get(("tcp", metric), ()):
            of = _beside(lines, ("tcp", whole), line)
            share = line.growth / of.growth if of is not None and of.growth else 0.0
            if share >= REPEATED and _receives_most(record, lines, line.host):
                yield evidence_of(words, share, REPEATED, line.host, "losses")


def busy_interrupts(record: Record, lines: Lines) -> Iterator[Evidence]:
    """Yield cores that were busy with packets."""
    for line in lines.get(("cpu", "softirq_ns"), ()):
        share = line.rate / 1e9
        is_full = line.subject != "all" and share >= SOFTIRQ_BUSY
        if is_full and _receives_most(record, lines, line.host):
            name = f"core {line.subject} with packets of the card"
            yield evidence_of(name, share, SOFTIRQ_BUSY, line.host, "card interrupts")


def _is_mostly_own(record: Record, metric: str, bytes_per_s: float) -> bool:
    """Tell whether the load may have moved at least half of a host's bytes.

    Otherwise a full card may be due to another program, or not be on the load's path.
    """
    whole_ns = whole_ns_of(record)
    if not whole_ns:
        return False
    # Drivers that leave the wire to a library or the kernel know their payload only.
    summary = record.summary
    is_received = metric == "received_bytes"
    of_wire = summary.get("bytes_received") if is_received else summary.get("bytes_sent")
    moved = of_wire or summary.get("bytes") or 0
    return 1e9 * moved / whole_ns >= OWN_TRAFFIC * bytes_per_s


def _receives_most(record: Record, lines: Lines, host: str) -> bool:
    """Tell whether the load received most of a host's bytes."""
    metrics = ("received_bytes", "sent_bytes")
    busiest = max(metrics, key=lambda metric: _moved(lines, host, metric))
    return _is_mostly_own(record, busiest, _moved(lines, host, busiest))


def _moved(lines: Lines, host: str, metric: str) -> float:
    """Return the bytes per second of a host's busiest card."""
    rates = (line.rate for line in lines.get(("network", metric), ()) if line.host == host)
    return max(rates, default=0.0)
