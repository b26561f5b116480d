"""What limited a number: the order of the decision, the client's limits, and steadiness."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from loadstone.analysis.accounts import run_account
from loadstone.analysis.instrument import client_limits
from loadstone.analysis.judgements import trial_findings
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.validity import Gate
from loadstone.analysis.limits.verdict import LoadPoint, Observed, Tried, decide, instrument_share
from loadstone.analysis.measured import reading
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.samples import read_samples
from loadstone.results.record import PROBE_SCHEMA, Record, Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run

HERE = LoadPoint(load=64, rate=1000, time_s=0.064)
FAILED = Gate(name="little", outcome="fail", value=0.5, wanted="1", statement="X·R/N = 0.5")
CPU = {"INSTRUMENT_CPU": [Evidence(metric="core 3 busy", value=0.99, threshold=0.95)]}
FLAT = LoadPoint(load=128, rate=1010, time_s=0.127)


def limit(**given: object) -> str:
    return decide(Observed(point=HERE, **given)).limit  # type: ignore[arg-type]


def test_without_anything_observed_nothing_is_claimed() -> None:
    found = decide(Observed(point=HERE))
    assert (found.limit, found.grade) == ("UNDETERMINED", None)
    assert not found.is_void_for_ratios


def test_the_first_answer_that_holds_is_given() -> None:
    everything = {
        "gates": [FAILED],
        "null_rate": 1100.0,
        "flags": CPU,
        "knee": 200.0,
        "higher": LoadPoint(load=128, rate=2000),
        "bytes_per_s": 99.0,
        "path_bytes_per_s": 100.0,
        "server": {"disk": 0.97},
        "throttled": 0.01,
    }
    order = []
    for drop in (
        "gates",
        "flags null_rate",
        "knee",
        "higher",
        "path_bytes_per_s",
        "server",
        "throttled",
    ):
        order.append(limit(**everything))
        for name in drop.split():
            del everything[name]
    assert order == [
        "INVALID(little)",
        "INSTRUMENT_CPU",
        "LATENCY_BOUND",
        "NOT_SATURATED",
        "NETWORK_PATH",
        "TARGET_DISK",
        "TARGET_THROTTLED",
    ]
    assert limit(**everything) == "UNDETERMINED"


def test_an_unsteady_trial_has_no_verdict() -> None:
    assert limit(is_steady=False) == "INVALID(steady)"
    assert limit(is_steady=True) == "UNDETERMINED"


@pytest.mark.parametrize(
    ("null_rate", "expected"), [(1200.0, "INSTRUMENT_LIMITED"), (1300.0, "UNDETERMINED")]
)
def test_near_the_null_target_the_instrument_is_measured(null_rate: float, expected: str) -> None:
    found = decide(Observed(point=HERE, null_rate=null_rate))
    assert found.limit == expected
    assert found.is_void_for_ratios == (expected == "INSTRUMENT_LIMITED")
    assert instrument_share(Observed(point=HERE, null_rate=null_rate)) == 1000 / null_rate


@pytest.mark.parametrize(
    ("higher", "expected"),
    [
        (LoadPoint(load=128, rate=1051), "NOT_SATURATED"),
        (LoadPoint(load=128, rate=1050, time_s=0.122), "UNDETERMINED"),
        (LoadPoint(load=128, rate=1000, time_s=0.064), "INSTRUMENT_CPU"),
        (LoadPoint(load=128, rate=900, time_s=0.142), "UNDETERMINED"),
    ],
)
def test_the_shape_of_the_curve_decides(higher: LoadPoint, expected: str) -> None:
    assert limit(higher=higher) == expected


def test_a_saturated_limit_is_named_only_as_far_as_somebody_looked() -> None:
    assert limit(higher=FLAT) == "UNDETERMINED"
    seen = {"higher": FLAT, "is_client_watched": True}
    assert limit(**seen) == "BEYOND_CLIENT"
    assert limit(**seen, bytes_per_s=50.0, path_bytes_per_s=100.0) == "TARGET"
    assert limit(**seen, bytes_per_s=95.0, path_bytes_per_s=100.0) == "NETWORK_PATH"
    falling = {**seen, "higher": LoadPoint(load=128, rate=900, time_s=0.142)}
    assert limit(**falling) == "BEYOND_CLIENT"
    assert limit(**falling, bytes_per_s=50.0, path_bytes_per_s=100.0) == "TARGET_CONTENTION"
    # At the highest load, the one before it tells.
    assert limit(lower=LoadPoint(load=32, rate=990, time_s=0.032), is_client_watched=True) == (
        "BEYOND_CLIENT"
    )
    assert limit(lower=LoadPoint(load=32, rate=600, time_s=0.053), is_client_watched=True) == (
        "UNDETERMINED"
    )


def test_a_target_that_refuses_much_is_named_before_a_client_that_asks_again() -> None:
    assert limit(throttled=0.2, flags=CPU) == "TARGET_THROTTLED"
    assert limit(throttled=0.01, flags=CPU) == "INSTRUMENT_CPU"


def test_an_open_load_that_was_met_says_nothing_of_a_limit() -> None:
    assert limit(is_offer_met=True) == "NOT_SATURATED"
    assert limit(is_offer_met=False) == "UNDETERMINED"


def test_threads_that_wait_for_answers_are_not_limited_by_a_busy_core() -> None:
    def flags(ran_s: float, waited_s: float) -> set[str]:
        ran, waited = round(ran_s * 1e9), round(waited_s * 1e9)
        seen = record(thread_cpu_ns=[ran, 0], thread_run_delay_ns=[waited, 0])
        return set(limits_of(seen, table(*cpu("all", 0.9))))

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
    # What was taken from a core that the load may not use is no loss to it.
    kept_off = (*cpu("0", 0.3), *cpu("all", 0.5, steal=0.2), ("cpu", "0", "allowed", 1.0, 0.0))
    assert flags(*kept_off, *cpu("1", 0.7, steal=0.6), **ran) == set()


def test_a_core_that_is_kept_awake_for_due_times_is_no_limit() -> None:
    second_ns = 1_000_000_000
    busy = table(*cpu("all", 0.9), *cpu("0", 0.99))
    times = {"thread_cpu_ns": [6 * second_ns], "thread_run_delay_ns": [0]}
    assert limits_of(record(**{**times, "thread_cpu_ns": [9 * second_ns]}), busy)
    assert not limits_of(record(**times, thread_awake_ns=[2 * second_ns]), busy)


def test_half_the_size_proves_that_bytes_were_the_limit() -> None:
    card = {"CLIENT_NIC": [Evidence(metric="sent", value=0.97, threshold=0.9)]}
    sure = Tried(kind="half the size", ratio=1.9, low=1.8)
    alone = Tried(kind="half the size", ratio=1.9, low=None)
    assert decide(Observed(point=HERE, flags=card, tried=[sure])).grade == "A"
    assert decide(Observed(point=HERE, flags=card, tried=[alone])).grade == "C"
    path = {"bytes_per_s": 95.0, "path_bytes_per_s": 100.0}
    found = decide(Observed(point=HERE, tried=[sure], **path))  # type: ignore[arg-type]
    assert (found.limit, found.grade) == ("NETWORK_PATH", "A")


def test_checking_less_shows_a_client_that_no_counter_showed() -> None:
    brings = Tried(kind="half the verification", ratio=1.2, low=1.1)
    assert limit(tried=[brings]) == "INSTRUMENT_CPU"
    assert limit(tried=[Tried(kind="half the verification", ratio=1.2, low=0.9)]) == "UNDETERMINED"


def test_half_the_clients_stand_in_for_a_sweep() -> None:
    as_many = Tried(
        kind="half the clients",
        ratio=0.99,
        low=0.97,
        point=LoadPoint(load=32, rate=990, time_s=0.032),
    )
    found = decide(Observed(point=HERE, tried=[as_many], is_client_watched=True))
    assert (found.limit, found.grade) == ("BEYOND_CLIENT", "B")
    half = Tried(
        kind="half the clients",
        ratio=0.51,
        low=0.5,
        point=LoadPoint(load=32, rate=510, time_s=0.063),
    )
    found = decide(Observed(point=HERE, tried=[half], is_client_watched=True))
    assert (found.limit, found.grade) == ("NOT_SATURATED", "A")


def test_a_client_that_is_held_up_explains_broken_books() -> None:
    gate = Gate(name="LITTLE", outcome="fail", value=None, wanted="1", statement="in doubt")
    assert limit(gates=[gate]) == "INVALID(LITTLE)"
    assert limit(gates=[gate], flags=CPU) == "INSTRUMENT_CPU"


def test_a_rise_within_the_noise_of_its_seconds_is_none() -> None:
    here = LoadPoint(load=64, rate=1000, time_s=0.064, error=0.05)
    for error, expected in ((0.10, "UNDETERMINED"), (0.01, "NOT_SATURATED")):
        higher = LoadPoint(load=128, rate=1150, time_s=0.111, error=error)
        seen = Observed(point=here, higher=higher, is_client_watched=True)
        assert decide(seen).limit == expected


def test_below_half_of_the_knee_a_load_is_too_small_to_say_anything() -> None:
    assert limit(knee=129.0) == "LATENCY_BOUND"
    assert limit(knee=127.0) == "UNDETERMINED"


def test_a_saturated_target_without_a_busy_resource_is_limited_by_its_software() -> None:
    given = {"server": {"cpu": 0.5, "disk": 0.3}, "higher": FLAT, "is_client_watched": True}
    # The path may be it, as long as nobody measured its ceiling.
    assert limit(**given) == "BEYOND_CLIENT"
    clear = {**given, "bytes_per_s": 5e6, "path_bytes_per_s": 1e8}
    assert limit(**{**clear, "higher": None}) == "UNDETERMINED"
    found = decide(Observed(point=HERE, **clear))  # type: ignore[arg-type]
    assert (found.limit, found.grade) == ("TARGET_SOFTWARE", "B")
    assert [one.value for one in found.evidence] == [0.5, 0.3]


def test_grades_go_from_one_counter_over_two_to_an_intervention() -> None:
    def grade(**given: object) -> str | None:
        return decide(Observed(point=HERE, **given)).grade  # type: ignore[arg-type]

    assert grade(flags=CPU) == "C"
    # The same counter in two trials is one counter, and that of another flag is no proof.
    assert grade(flags={"INSTRUMENT_CPU": [*CPU["INSTRUMENT_CPU"]] * 2}) == "C"
    waited = Evidence(metric="waited for a core", value=0.2, threshold=0.05)
    assert grade(flags={**CPU, "CLIENT_NIC": [waited]}) == "C"
    assert grade(flags={"INSTRUMENT_CPU": [*CPU["INSTRUMENT_CPU"], waited]}) == "B"

    def core(number: int, host: str) -> Evidence:
        words = f"core {number} at 95 % or more"
        return Evidence(metric=words, value=0.9, place=host, source="processor time")

    # Two cores of a host are one kind of evidence; another host is another counter.
    assert grade(flags={"INSTRUMENT_CPU": [core(0, "one"), core(1, "one")]}) == "C"
    assert grade(flags={"INSTRUMENT_CPU": [core(0, "one"), core(0, "two")]}) == "B"
    assert grade(flags={"INSTRUMENT_CPU": [core(0, "one"), core(1, "one"), waited]}) == "B"
    assert grade(flags=CPU, null_rate=1100.0) == "B"
    confirmed = Tried(kind="second client", ratio=1.6, low=1.4)
    assert grade(flags=CPU, tried=[confirmed]) == "A"
    assert grade(flags=CPU, tried=[Tried(kind="second client", ratio=1.06, low=1.01)]) == "C"
    assert grade(server={"disk": 0.95}) == "C"
    assert grade(server={"disk": 0.95}, higher=FLAT) == "B"
    assert grade(server={"disk": 0.95}, tried=[Tried(kind="operator", ratio=1.5, low=1.3)]) == "A"


def test_a_load_at_which_nothing_was_answered_has_no_ratio_to_the_next() -> None:
    nothing, more = LoadPoint(load=64, rate=0.0), LoadPoint(load=128, rate=10.0)
    assert decide(Observed(point=nothing, higher=more)).limit == "UNDETERMINED"
    assert decide(Observed(point=nothing, higher=nothing, is_client_watched=True)).grade is None


# The client's limits


def record(**summary: object) -> Record:
    whole: dict[str, object] = {
        "started_unix_ns": 1_000_000_000_000,
        "iterations": [{"iteration": 1, "measure_start_ns": 0, "measure_end_ns": 10**10}],
        **summary,
    }
    return Record(trial={"id": "0001", "measured": True}, summary=whole)


def table(*lines: tuple[str, str, str, float, float]) -> pa.Table:
    """Return eleven samples of each (probe, subject, metric, first value, growth per second)."""
    rows = [
        (1_000_000_000_000 + second * 10**9, "h", probe, subject, metric, start + second * growth)
        for probe, subject, metric, start, growth in lines
        for second in range(11)
    ]
    columns = zip(*rows, strict=True)
    return pa.table([list(column) for column in columns], schema=PROBE_SCHEMA)


def cpu(core: str, busy: float, steal: float = 0.0) -> list[tuple[str, str, str, float, float]]:
    return [
        ("cpu", core, "user_ns", 0.0, (busy - steal) * 1e9),
        ("cpu", core, "steal_ns", 0.0, steal * 1e9),
        ("cpu", core, "idle_ns", 0.0, (1 - busy) * 1e9),
    ]


def limits_of(seen: Record, probes: pa.Table) -> dict[str, list[Evidence]]:
    return client_limits.limits_of(seen, client_limits.lines_of(seen, read_samples(probes)))


def flags(*lines: tuple[str, str, str, float, float], **summary: object) -> set[str]:
    return set(limits_of(record(**summary), table(*lines)))


def counters(flag: str, *lines: tuple[str, str, str, float, float], **summary: object) -> int:
    found = limits_of(record(**summary), table(*lines))
    return len({one.counter for one in found[flag]})


def test_what_is_read_from_one_source_of_a_host_is_one_counter() -> None:
    full = (*cpu("all", 0.97), *cpu("0", 0.97), *cpu("1", 0.98))
    assert counters("INSTRUMENT_CPU", *full) == 1
    assert counters("INSTRUMENT_CPU", *full, ("cgroup", "", "throttled_ns", 0, 2e7)) == 2
    swapped = [("memory", "", f"swapped_{way}_pages", 0.0, 1.0) for way in ("in", "out")]
    assert counters("INSTRUMENT_MEM", *swapped, *FAULTED) == 1
    card = ("network", "e", "speed_bits_per_s", 1e9, 0)
    both = [("network", "e", f"{way}_bytes", 0, 1.2e8) for way in ("sent", "received")]
    assert counters("CLIENT_NIC", card, *both, bytes=10**9) == 1


FAULTED = tuple(("process", "", name, 0.0, 1.0) for name in ("major_faults", "swapped_bytes"))
"""What the kernel tells of this process where the host's memory hit it."""


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
        # Whoever else on the host opened or waited to close them: no evidence.
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


PORTS = ("sockets", "tcp", "ports", 1000.0, 0.0)


def test_ports_count_by_what_this_process_opened_beyond_its_clients() -> None:
    busy_host = (PORTS, ("tcp", "", "connections_opened", 0, 9e4))
    kept = {"clients": 900, "connections_opened": 900}
    assert flags(*busy_host, **kept) == set()
    assert flags(*busy_host, **{**kept, "connections_opened": 1690}) == set()
    assert flags(PORTS, **{**kept, "connections_opened": 1710}) == {"INSTRUMENT_SOCKETS"}
    # A port is free again after a minute.
    long = {"measure_start_ns": 0, "measure_end_ns": 600 * 10**9}
    slow = {**kept, "iterations": [long]}
    assert flags(PORTS, **{**slow, "connections_opened": 1710}) == set()
    assert flags(PORTS, **{**slow, "connections_opened": 9000}) == {"INSTRUMENT_SOCKETS"}


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
    def found(endpoint: str) -> set[str]:
        target = {"driver": "s3", "settings": {"endpoints": [endpoint]}}
        near = Record(trial={"id": "1", "target": target}, summary=record().summary)
        return set(limits_of(near, table(*cpu("all", 0.9))))

    assert found("http://127.0.0.1:9000") == found("http://localhost:1") == {"SHARED_HOST"}
    assert found("http://10.0.0.5:9000") == {"INSTRUMENT_CPU"}
    shared = {"SHARED_HOST": CPU["INSTRUMENT_CPU"]}
    assert not decide(Observed(point=HERE, flags=shared)).is_void_for_ratios


def test_samples_outside_the_measured_window_do_not_count() -> None:
    late = record(iterations=[{"iteration": 1, "measure_start_ns": 0, "measure_end_ns": 5 * 10**9}])
    busy_later = table(("cgroup", "", "memory_events_max", 0, 0.0))
    rows = busy_later.to_pylist()
    rows[-1]["value"] = 50.0
    changed = pa.Table.from_pylist(rows, schema=PROBE_SCHEMA)
    assert limits_of(late, changed) == {}
    assert limits_of(record(), changed) != {}


# Runs


def judged(run: Run) -> tuple[Finding, ...]:
    measured = reading.read_measured(run)
    account = run_account.account_of(run, measured)
    return trial_findings.judge_run(account, measured.parts, measured.flags)


def test_a_run_becomes_an_account_with_the_rates_its_trials_reached(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_rounds(tmp_path / "run"))
    account = run_account.read_account(run)
    found = {
        (one.target, one.operation, one.round): one.value for one in account.of("requests_per_s")
    }
    expected = {
        (target, operation, index + 1): pytest.approx(rate)
        for (target, operation), rates in synthetic_run.ROUNDS.items()
        for index, rate in enumerate(rates)
    }
    assert found == expected
    assert account.disclosure.percentiles == "merged histograms"
    assert account.disclosure.order == "sequential"
    assert account.disclosure.errors is not None
    assert account.disclosure.errors.startswith("180 of ")
    assert {one.repetition for one in account.measurements} == {1}


def test_blocks_of_a_sweep_are_repetitions_of_one_case(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_sweep(tmp_path / "run", blocks=3))
    account = run_account.read_account(run)
    at_eight = [one for one in account.of("requests_per_s") if one.threads == 8]
    assert [one.block for one in at_eight] == [1, 2, 3]
    assert [one.repetition for one in at_eight] == [1, 2, 3]
    assert account.planned_threads == (1, 4, 8, 12, 16, 20, 24)
    (saturation,) = [one for one in judged(run) if one.rule == "saturation"]
    assert saturation.evidence[0].value == 12
    assert "by the lower ends of their intervals" in saturation.statement


def test_a_run_says_what_limited_its_results(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_rounds(tmp_path / "run"))
    verdicts = [one.statement for one in judged(run) if one.rule == "verdict"]
    assert any(words.startswith("TARGET_THROTTLED (grade C) in 1 of 12") for words in verdicts)
    assert any(words.startswith("UNDETERMINED in 11 of 12") for words in verdicts)


def test_short_trials_are_said_to_be_too_short_for_a_claim(tmp_path: Path) -> None:
    rules = {one.rule for one in judged(read_run(synthetic_run.write_rounds(tmp_path / "run")))}
    assert "too-short-for-steadiness" in rules
    assert "not-steady" not in rules


def test_a_trial_that_decays_is_not_steady(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_sweep(tmp_path / "run", blocks=1))
    part = reading.read_measured(run).parts[0]
    decaying = [
        Part(**{name: getattr(part, name) for name in part.__slots__} | {"rates": rates})
        for rates in (np.linspace(1000, 400, 400), np.full(400, 1000.0))
    ]
    account = run_account.read_account(run)
    seen = trial_findings.Seen(account=account, parts=decaying, flags={}, decided=())
    found = list(trial_findings.find_unsteady(seen))
    assert [one.rule for one in found] == ["not-steady"]
    assert "1 of 2 stretches" in found[0].statement
