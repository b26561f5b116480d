"""The client's own limits: counters of its host that show or exclude them."""

from dataclasses import replace

import pytest

from loadstone._loadgen import Table
from loadstone.analysis.instrument import client_limits
from loadstone.analysis.instrument.watched_lines import lines_of
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.standing import may_be_compared
from loadstone.analysis.judgements.trial_findings import find_closed_connections
from loadstone.analysis.limits.observed import LoadPoint, Observed
from loadstone.analysis.limits.verdict import decide
from loadstone.analysis.measured.rows import read_samples
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import PROBE_SCHEMA, Record


def record(connections: str = "per_request", **summary: object) -> Record:
    whole: dict[str, object] = {
        "started_unix_ns": 1_000_000_000_000,
        "iterations": [{"iteration": 1, "measure_start_ns": 0, "measure_end_ns": 10**10}],
        **summary,
    }
    trial: TrialDocument = {"id": "0001", "measured": True, "connections": connections}
    return Record(trial=trial, summary=whole)


def table(*lines: tuple[str, str, str, float, float]) -> Table:
    """Return eleven samples of each (probe, subject, metric, first value, growth per second)."""
    rows = [
        (1_000_000_000_000 + second * 10**9, "h", probe, subject, metric, start + second * growth)
        for probe, subject, metric, start, growth in lines
        for second in range(11)
    ]
    columns = zip(*rows, strict=True)
    return PROBE_SCHEMA.of_columns([list(column) for column in columns])


def cpu(core: str, busy: float, steal: float = 0.0) -> list[tuple[str, str, str, float, float]]:
    return [
        ("cpu", core, "user_ns", 0.0, (busy - steal) * 1e9),
        ("cpu", core, "steal_ns", 0.0, steal * 1e9),
        ("cpu", core, "idle_ns", 0.0, (1 - busy) * 1e9),
    ]


def limits_of(observed: Record, probes: Table) -> dict[str, list[Evidence]]:
    return client_limits.limits_of(observed, lines_of(observed, read_samples(probes)))


def flags(*lines: tuple[str, str, str, float, float], **summary: object) -> set[str]:
    return set(limits_of(record(**summary), table(*lines)))


def counters(flag: str, *lines: tuple[str, str, str, float, float], **summary: object) -> int:
    limits = limits_of(record(**summary), table(*lines))
    return len({evidence.counter for evidence in limits[flag]})


def test_threads_that_wait_for_answers_are_not_limited_by_a_busy_core() -> None:
    def flags(ran_s: float, waited_s: float) -> set[str]:
        ran, waited = round(ran_s * 1e9), round(waited_s * 1e9)
        observed = record(thread_cpu_ns=[ran, 0], thread_run_delay_ns=[waited, 0])
        return set(limits_of(observed, table(*cpu("all", 0.9))))

    assert flags(0.5, 0.6) == set()
    assert flags(3.0, 2.5) == {"INSTRUMENT_CPU"}
    assert client_limits.occupied_share(record(thread_cpu_ns=[1], thread_run_delay_ns=[None])) is (
        None
    )


def test_a_core_that_was_stolen_may_be_what_the_threads_waited_for() -> None:
    ran = {"thread_cpu_ns": [2_200_000_000], "thread_run_delay_ns": [0]}
    assert flags(*cpu("all", 0.7, steal=0.5), *cpu("1", 0.7, steal=0.5), **ran) == {
        "INSTRUMENT_CPU"
    }
    assert flags(*cpu("all", 0.7, steal=0.1), *cpu("1", 0.7, steal=0.1), **ran) == set()
    # Steal time of a core that the load may not use does not affect it.
    kept_off = (*cpu("0", 0.3), *cpu("all", 0.5, steal=0.2), ("cpu", "0", "allowed", 1.0, 0.0))
    assert flags(*kept_off, *cpu("1", 0.7, steal=0.6), **ran) == set()


def test_a_core_that_is_kept_awake_for_due_times_is_no_limit() -> None:
    second_ns = 1_000_000_000
    busy = table(*cpu("all", 0.9), *cpu("0", 0.99))
    times = {"thread_cpu_ns": [6 * second_ns], "thread_run_delay_ns": [0]}
    assert limits_of(record(**{**times, "thread_cpu_ns": [9 * second_ns]}), busy)
    assert not limits_of(record(**times, thread_awake_ns=[2 * second_ns]), busy)


def test_readings_from_one_source_of_a_host_are_one_counter() -> None:
    full = (*cpu("all", 0.97), *cpu("0", 0.97), *cpu("1", 0.98))
    assert counters("INSTRUMENT_CPU", *full) == 1
    assert counters("INSTRUMENT_CPU", *full, ("cgroup", "", "throttled_ns", 0, 2e7)) == 2
    swapped = [("memory", "", f"swapped_{way}_pages", 0.0, 1.0) for way in ("in", "out")]
    assert counters("INSTRUMENT_MEM", *swapped, *FAULTED) == 1
    card = ("network", "e", "speed_bits_per_s", 1e9, 0)
    both = [("network", "e", f"{way}_bytes", 0, 1.2e8) for way in ("sent", "received")]
    assert counters("CLIENT_NIC", card, *both, bytes=10**9) == 1


FAULTED = tuple(("process", "", name, 0.0, 1.0) for name in ("major_faults", "swapped_bytes"))
"""The kernel's counters of this process where it ran into the memory limit."""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([*cpu("all", 0.79), *cpu("0", 0.94)], set()),
        ([*cpu("all", 0.30), *cpu("0", 0.96)], {"INSTRUMENT_CPU"}),
        ([*cpu("all", 0.81)], {"INSTRUMENT_CPU"}),
        ([*cpu("all", 0.30, steal=0.03)], {"INSTRUMENT_CPU"}),
        ([("cpu", "all", "user_ns", 0, 1e9)], set()),
        ([("cgroup", "", "throttled_ns", 0, 2e7)], {"INSTRUMENT_CPU"}),
        ([("cgroup", "", "throttled_ns", 0, 5e6)], set()),
        ([("memory", "", "swapped_in_pages", 100, 0)], set()),
        ([("memory", "", "swapped_in_pages", 100, 1)], set()),
        ([("memory", "", "swapped_in_pages", 100, 1), *FAULTED], {"INSTRUMENT_MEM"}),
        ([("pressure", "memory", "full_ns", 0, 2e6)], set()),
        ([("pressure", "memory", "full_ns", 0, 2e6), *FAULTED], {"INSTRUMENT_MEM"}),
        ([("pressure", "io", "full_ns", 0, 5e8), *FAULTED], set()),
        (
            [("process", "", "rss_bytes", 95, 0), ("cgroup", "", "memory_bytes_max", 100, 0)],
            {"INSTRUMENT_MEM"},
        ),
        (
            [
                ("network", "e", "sent_bytes", 0, 1.2e8),
                ("network", "e", "speed_bits_per_s", 1e9, 0),
            ],
            {"CLIENT_NIC"},
        ),
        (
            [
                ("network", "e", "sent_bytes", 0, 1.0e8),
                ("network", "e", "speed_bits_per_s", 1e9, 0),
            ],
            set(),
        ),
        ([("network", "lo", "sent_bytes", 0, 9e9)], set()),
        (
            [("network", "cpu0", "backlog_dropped", 5, 1), ("network", "e", "sent_bytes", 0, 1e8)],
            {"CLIENT_NIC"},
        ),
        (
            [("network", "cpu0", "backlog_dropped", 5, 1), ("network", "e", "sent_bytes", 0, 3e8)],
            set(),
        ),
        ([("cpu", "3", "softirq_ns", 0, 9.5e8)], {"CLIENT_NIC"}),
        ([("cpu", "3", "softirq_ns", 0, 9.5e8), ("network", "e", "sent_bytes", 0, 3e8)], set()),
        # Other programs of the host opened them or waited to close them: no evidence.
        (
            [("sockets", "tcp", "time_wait", 23_000, 0), ("sockets", "tcp", "ports", 28_232, 0)],
            set(),
        ),
        (
            [("tcp", "", "connections_opened", 0, 400), ("sockets", "tcp", "ports", 28_232, 0)],
            set(),
        ),
    ],
)
def test_each_resource_is_flagged_beyond_its_threshold_only(
    lines: list[tuple[str, str, str, float, float]], expected: set[str]
) -> None:
    assert flags(*lines, bytes=10**9) == expected


@pytest.mark.parametrize(
    ("bits_per_s", "expected"), [(8e9, set()), (9.6e9, {"CLIENT_NIC"}), (36e9, set())]
)
def test_a_card_that_carries_more_than_its_speed_is_not_held_by_it(
    bits_per_s: float, expected: set[str]
) -> None:
    lines = (
        ("network", "veth0", "speed_bits_per_s", 10e9, 0.0),
        ("network", "veth0", "sent_bytes", 0.0, bits_per_s / 8),
    )
    moved = 10 * bits_per_s / 8
    assert flags(*lines, bytes=moved, bytes_sent=moved) == expected


CARD = (
    ("network", "eth0", "received_bytes", 0.0, 58.5e6),
    ("network", "eth0", "received_packets", 0.0, 40_000),
    ("network", "eth0", "sent_bytes", 0.0, 1e6),
    ("network", "eth0", "sent_packets", 0.0, 10_000),
)
READ = {"bytes": 369e6, "bytes_received": 369e6}
"""Ten seconds of a load that read 36.9 MB of 58.5 MB that came in each second."""


@pytest.mark.parametrize(
    ("lines", "summary", "expected"),
    [
        ([("tcp", "", "ip_received_bytes", 0.0, 57.5e6)], READ, set()),
        ([("tcp", "", "ip_received_bytes", 0.0, 37e6)], READ, {"CLIENT_NIC"}),
        # Traffic of other programs on the host's own loopback.
        (
            [
                ("tcp", "", "ip_received_bytes", 0.0, 157.5e6),
                ("network", "lo", "received_bytes", 0.0, 100e6),
            ],
            READ,
            set(),
        ),
        ([("tcp", "", "ip_received_bytes", 0.0, 37e6)], {"bytes": 10e6}, set()),
        # Unwatched, nothing is said.
        ([], READ, set()),
        ([("network", "eth0", "received_dropped", 0.0, 10)], READ, set()),
        ([("network", "eth0", "received_dropped", 0.0, 100)], READ, {"CLIENT_NIC"}),
        ([("network", "eth0", "receive_queue_dropped", 0.0, 100)], READ, {"CLIENT_NIC"}),
        (
            [("network", "eth0", "send_queue_dropped", 0.0, 100)],
            {"bytes": 9e6, "bytes_sent": 9e6},
            {"CLIENT_NIC"},
        ),
    ],
)
def test_packets_dropped_by_the_client_count_against_its_card(
    lines: list[tuple[str, str, str, float, float]],
    summary: dict[str, float],
    expected: set[str],
) -> None:
    assert flags(*CARD, *lines, **summary) == expected


def test_losses_count_against_the_path_unless_the_client_drops() -> None:
    counted = [("tcp", "", "segments_received", 0.0, 40_000)]
    few = ("tcp", "", "segments_out_of_order", 0.0, 300)
    many = ("tcp", "", "segments_out_of_order", 0.0, 500)
    dropped = ("network", "eth0", "received_dropped", 0.0, 100)
    assert flags(*CARD, *counted, few, **READ) == set()
    assert flags(*CARD, *counted, many, **READ) == {"NETWORK_PATH"}
    assert flags(*CARD, *counted, many, dropped, **READ) == {"CLIENT_NIC"}
    assert flags(*CARD, *counted, many, target_on_own_host=True, **READ) == set()
    assert flags(*CARD, *counted, many, bytes=1e6) == set()


PORTS = ("sockets", "tcp", "ports", 1000.0, 0.0)


def test_ports_count_by_what_this_process_opened_beyond_its_clients() -> None:
    busy_host = (PORTS, ("tcp", "", "connections_opened", 0, 9e4))
    kept_open = {"clients": 900, "connections_opened": 900}
    assert flags(*busy_host, **kept_open) == set()
    assert flags(*busy_host, **{**kept_open, "connections_opened": 1390}) == set()
    assert flags(PORTS, **{**kept_open, "connections_opened": 1410}) == {"INSTRUMENT_SOCKETS"}
    residue = {
        "quantity": "ports_resting", "before_wait": 300, "before_load": 60, "settled_max": 50,
    }  # fmt: skip
    state = {"waited_ns": 1, "residues": [residue]}
    before = {**kept_open, "connections_opened": 1390, "host_state": state}
    assert flags(PORTS, **before) == {"INSTRUMENT_SOCKETS"}
    residue["before_load"] = 50
    assert flags(PORTS, **before) == set()
    # A port is free again after a minute.
    long = {"measure_start_ns": 0, "measure_end_ns": 600 * 10**9}
    slow = {**kept_open, "iterations": [long]}
    assert flags(PORTS, **{**slow, "connections_opened": 1710}) == set()
    assert flags(PORTS, **{**slow, "connections_opened": 9000}) == {"INSTRUMENT_SOCKETS"}


@pytest.mark.parametrize(
    ("endpoint", "reuse", "rests"),
    [
        ("http://127.0.0.1:9000", 2, False),
        ("http://127.0.0.1:9000", None, False),
        ("http://127.0.0.1:9000", 0, True),
        ("http://store:9000", 2, True),
        ("http://store:9000", None, True),
        ("http://store:9000", 1, False),
    ],
)
def test_ports_that_the_kernel_uses_again_after_a_second_do_not_run_out(
    endpoint: str, reuse: float | None, rests: bool
) -> None:
    resting = record(clients=10, connections_opened=1_710)
    target = {"name": "a", "driver": "s3", "settings": {"endpoints": [endpoint]}}
    resting = replace(resting, trial={**resting.trial, "target": target})
    setting = [("sockets", "tcp", "tcp_tw_reuse", reuse, 0.0)] if reuse is not None else []
    assert ("INSTRUMENT_SOCKETS" in limits_of(resting, table(PORTS, *setting))) == rests


def test_a_store_that_closes_each_connection_is_named_and_takes_no_port_of_the_client() -> None:
    closed = {"clients": 4, "requests": 5000, "failed": 0, "connections_opened": 5000}
    alive = record("keep_alive", **closed)
    assert limits_of(alive, table(PORTS)) == {}
    (finding,) = find_closed_connections([alive])
    assert finding.rule == "connections-closed"
    assert [evidence.value for evidence in finding.evidence] == [1.0]
    # Connections due to the campaign, to failures and to parts are not caused by the store.
    several = record("keep_alive", **{**closed, "connections_opened": 2400, "failed": 2300})
    for other in (record("per_request", **closed), several):
        assert list(find_closed_connections([other])) == []
    # A port that was lacking is, whoever closed the connections.
    lacking = record("keep_alive", **closed, error_examples={"no_ports": "EADDRNOTAVAIL"})
    assert limits_of(lacking, table(PORTS)).keys() == {"INSTRUMENT_SOCKETS"}


def test_each_client_host_is_judged_by_what_its_own_load_did() -> None:
    second_ns = 10**9
    alike = {"thread_cpu_ns": [second_ns], "thread_run_delay_ns": [0], "clients": 100}
    four = [{**alike, "name": name, "connections_opened": 400} for name in ("h", "i", "j", "k")]
    summed = {"clients": 400, "connections_opened": 1600}
    # Ports of one host are not used up by connections of all.
    assert flags(PORTS, **summed) == {"INSTRUMENT_SOCKETS"}
    assert flags(PORTS, **summed, hosts=four) == set()
    alone = [{**four[0], "connections_opened": 910}, *four[1:]]
    assert flags(PORTS, **summed, hosts=alone) == {"INSTRUMENT_SOCKETS"}
    # Packets of other hosts do not fill a host's card either.
    full = (("network", "e", "sent_bytes", 0, 1.2e8), ("network", "e", "speed_bits_per_s", 1e9, 0))
    sent = [{**four[0], "bytes_sent": 10**8}, {**four[1], "bytes_sent": 10**10}]
    assert flags(*full, bytes_sent=10**10, hosts=sent) == set()
    assert flags(*full, bytes_sent=10**10, hosts=[{**sent[0], "bytes_sent": 10**9}]) == {
        "CLIENT_NIC"
    }
    # One host that is lost has no figures; the others are judged all the same.
    assert flags(PORTS, **summed, hosts=[{"name": "g", "state": "lost"}, *alone]) == {
        "INSTRUMENT_SOCKETS"
    }


def test_a_card_that_others_fill_is_no_limit_of_the_load() -> None:
    full = (("network", "e", "sent_bytes", 0, 1.2e8), ("network", "e", "speed_bits_per_s", 1e9, 0))
    assert flags(*full, bytes_sent=10**9, bytes_received=10**6) == {"CLIENT_NIC"}
    assert flags(*full, bytes_sent=10**8, bytes_received=10**9) == set()
    assert flags(*full) == set()


def test_cores_that_others_fill_while_no_thread_waits_are_no_limit() -> None:
    second_ns = 10**9
    others = (*cpu("all", 0.9), *cpu("0", 0.8), *cpu("1", 0.99))
    ran = {"thread_cpu_ns": [6 * second_ns], "thread_run_delay_ns": [0]}
    assert flags(*others, **ran) == set()
    # The kernel's work for the load's packets is the load's, and so is what its threads wait for.
    kinds = {"user": 0.64, "softirq": 0.35, "idle": 0.01}
    packets = [("cpu", "1", f"{kind}_ns", 0.0, share * 1e9) for kind, share in kinds.items()]
    assert flags(*cpu("0", 0.5), *packets, **ran) == {"INSTRUMENT_CPU"}
    waited = {**ran, "thread_run_delay_ns": [second_ns]}
    assert flags(*others, **waited) == {"INSTRUMENT_CPU"}
    both = {"thread_cpu_ns": [9 * second_ns, 9 * second_ns], "thread_run_delay_ns": [0, 0]}
    assert counters("INSTRUMENT_CPU", *others, **both) == 2


def test_waiting_threads_and_exhausted_ports_are_seen_in_the_summary() -> None:
    idle = cpu("all", 0.1)
    assert flags(*idle, thread_run_delay_ns=[1, 6 * 10**8]) == {"INSTRUMENT_CPU"}
    assert flags(*idle, thread_run_delay_ns=[1, 4 * 10**8]) == set()
    assert flags(*idle, error_examples={"no_ports": "EADDRNOTAVAIL"}) == {"INSTRUMENT_SOCKETS"}
    assert flags(*idle, error_examples={"throttled": "slow down"}) == set()


def test_a_full_processor_of_a_host_shared_with_the_target_may_be_either_s() -> None:
    def flags_of(endpoint: str) -> set[str]:
        target = {"driver": "s3", "settings": {"endpoints": [endpoint]}}
        near = Record(trial={"id": "1", "target": target}, summary=record().summary)
        return set(limits_of(near, table(*cpu("all", 0.9))))

    assert flags_of("http://127.0.0.1:9000") == flags_of("http://localhost:1") == {"SHARED_HOST"}
    assert flags_of("http://10.0.0.5:9000") == {"INSTRUMENT_CPU"}
    shared = {"SHARED_HOST": [Evidence(metric="core 3 busy", value=0.99, threshold=0.95)]}
    observed = Observed(point=LoadPoint(load=64, rate=1000, time_s=0.064), flags=shared)
    assert decide(observed).limit == "SHARED_HOST"
    assert may_be_compared("bound", "bound", ["SHARED_HOST"])


def test_samples_outside_the_measured_window_do_not_count() -> None:
    late = record(iterations=[{"iteration": 1, "measure_start_ns": 0, "measure_end_ns": 5 * 10**9}])
    busy_later = table(("cgroup", "", "memory_events_max", 0, 0.0))
    rows = busy_later.to_pylist()
    rows[-1]["value"] = 50.0
    changed = PROBE_SCHEMA.of_rows(rows)
    assert limits_of(late, changed) == {}
    assert limits_of(record(), changed) != {}
