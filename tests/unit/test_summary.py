"""Analysis gives back the known numbers of synthetic runs."""

import numpy as np
import pytest

from loadstone._loadgen import Histogram
from loadstone.analysis import analyse
from loadstone.analysis.statistics.latency import merge
from loadstone.report.tables.results import latency_table
from loadstone.results.store import read_run
from tests.unit.synthetic_run import (
    ROUNDS,
    SECOND_NS,
    SWEEP,
    Folder,
    histogram,
    probe_rows,
    trial,
    write_rounds,
    write_sweep,
)


def encoded(*values_ns):
    times = Histogram()
    for value in values_ns:
        times.record(value)
    return times.encode()


def row(second, requests, *, times=None, **changes):
    """One interval of gets; each request took a millisecond unless the times are given."""
    times = encoded(*[1_000_000] * requests) if times is None else times
    base = {
        "agent": "client-1",
        "stage": "measure",
        "iteration": 1,
        "operation": "get",
        "outcome": "ok",
        "second": second,
        "requests": requests,
        "objects": requests,
        "bytes": requests * 4096,
        "response": times,
        "service": times,
        "first_byte": None,
        "lag": None,
    }
    return base | changes


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "run", "known", seconds=2)


def findings_of(folder):
    folder.close(campaign={}, campaign_file="name: known\n")
    return analyse(read_run(folder.path))


def one_cell(folder, rows, **trial_changes):
    """The only total of a run with one trial of these rows."""
    changes = trial_changes.pop("changes", None)
    labels = trial_changes.pop("labels", ())
    folder.write(trial(1, "ceph", "get", **trial_changes), rows, changes=changes, labels=labels)
    (total,) = findings_of(folder).rounds
    return total


def window(start_s, end_s, **changes):
    """The summary's account of one iteration, measured from start to end."""
    entry = {
        "iteration": 1,
        "start_ns": 0,
        "measure_start_ns": int(start_s * SECOND_NS),
        "measure_end_ns": int(end_s * SECOND_NS),
        "first_done_ns": int(end_s * SECOND_NS),
        "end_ns": int(end_s * SECOND_NS),
    }
    return {"iterations": [entry | changes]}


def test_throughput_is_good_requests_over_the_common_wall_time(folder):
    rows = [row(0, 100), row(1, 200, agent="client-2"), row(1, 60)]
    cell = one_cell(folder, rows)
    assert cell.good == 360
    assert cell.duration_s == 2
    assert cell.requests_per_s == 180
    assert cell.bytes_per_s == 180 * 4096


def test_failed_requests_are_counted_by_kind_and_add_nothing_to_throughput(folder):
    rows = [row(0, 100), row(1, 100)]
    rows += [row(0, 7, outcome="http_503", bytes=0), row(1, 2, outcome="reset", bytes=0)]
    cell = one_cell(folder, rows)
    assert cell.requests_per_s == 100
    assert (cell.requests, cell.good, cell.failed) == (209, 200, 9)
    assert cell.errors == {"http_503": 7, "reset": 2}
    assert "ERRORS" in cell.labels


def test_times_of_failed_requests_do_not_reach_the_latency(folder):
    fast_failures = row(0, 50, times=encoded(*[1000] * 50), outcome="http_503")
    cell = one_cell(folder, [row(0, 100), fast_failures, row(1, 100)])
    assert cell.headline.count == 200
    assert cell.headline.min_ns == pytest.approx(1_000_000, rel=1e-3)


def test_parts_have_times_of_their_own_and_failed_ones_are_counted(folder):
    good = row(0, 2, part=encoded(*[400_000] * 16), parts_failed=0)
    other = row(1, 1, part=encoded(*[800_000] * 8), parts_failed=0)
    failed = row(1, 1, part=encoded(*[9_000_000] * 3), parts_failed=2, outcome="reset", bytes=0)
    folder.write(trial(1, "ceph", "get"), [good, other, failed])
    findings = findings_of(folder)
    (cell,) = findings.rounds
    assert (cell.requests, cell.part.count, cell.parts_failed) == (4, 24, 2)
    assert cell.part.quantiles["p50"] == pytest.approx(400_000, rel=1e-3)
    assert cell.part.max_ns == pytest.approx(800_000, rel=1e-3)
    table = latency_table(findings)
    at = [column.head for column in table.columns].index("Time")
    kinds = [row[at] for row in table.rows]
    assert kinds[0] == "service"
    for fact in (" 24 parts", "2 failed"):
        assert fact in kinds[1]


def test_a_record_of_a_build_without_parts_has_none(folder):
    cell = one_cell(folder, [row(0, 100)])
    assert (cell.part, cell.parts_failed) == (None, 0)


def test_warm_up_and_cool_down_are_left_out(folder):
    rows = [row(0, 500, stage="warm-up"), row(1, 100), row(2, 300, stage="cool-down")]
    cell = one_cell(folder, rows, changes=window(1, 2))
    assert cell.good == 100
    assert cell.requests_per_s == 100


def test_blocks_add_up_work_and_time_and_their_mean_rate_is_geometric(folder):
    folder.write(trial(1, "ceph", "get", block=1), [row(0, 100)], changes=window(0, 1))
    rows = [row(second, 400) for second in range(3)]
    folder.write(trial(2, "ceph", "get", block=2), rows, changes=window(0, 3))
    (cell,) = findings_of(folder).rounds
    assert (cell.good, cell.duration_s, cell.pooled_requests_per_s) == (1300, 4, 1300 / 4)
    assert [rate.requests_per_s for rate in cell.trial_rates] == [100, 400]
    # The geometric mean is printed; two trials give no interval.
    assert cell.requests_per_s == pytest.approx(200)
    assert (cell.rate.low, cell.rate.high, cell.rate.is_interval) == (100, 400, False)
    assert "n=1" not in cell.labels


def test_percentiles_come_from_merged_histograms(folder):
    fast = encoded(*[1_000_000] * 990)
    slow = encoded(*[1_000_000_000] * 110)
    cell = one_cell(folder, [row(0, 990, times=fast), row(1, 110, times=slow)])
    # A tenth of all is slow: p90 is fast, p95 slow. An average of the seconds' p95 is neither.
    assert cell.headline.quantiles["p90"] == pytest.approx(1_000_000, rel=1e-3)
    assert cell.headline.quantiles["p95"] == pytest.approx(1_000_000_000, rel=1e-3)
    assert cell.headline.max_ns == pytest.approx(1_000_000_000, rel=1e-3)
    assert cell.headline.mean_ns == pytest.approx(0.9 * 1e6 + 0.1 * 1e9, rel=1e-3)


def test_a_percentile_without_ten_requests_beyond_it_is_absent_with_the_reason(folder):
    cell = one_cell(folder, [row(0, 500), row(1, 499)])
    assert cell.headline.quantiles["p95"] is not None
    assert cell.headline.quantiles["p99"] is None
    for number in ("1,000", "999"):
        assert number in cell.headline.unresolved["p99"]


def test_a_thousand_requests_are_enough_for_p99(folder):
    cell = one_cell(folder, [row(0, 500), row(1, 500)])
    assert cell.headline.quantiles["p99"] is not None
    assert cell.headline.quantiles["p99_9"] is None


def test_percentiles_among_requests_that_timed_out_are_only_bounded(folder):
    late = row(1, 50, outcome="timeout", bytes=0)
    cell = one_cell(folder, [row(0, 1000), row(1, 950), late], timeout_ns=30 * SECOND_NS)
    # 2.5 % timed out: p95 is known, p99 lies among them.
    assert cell.headline.quantiles["p95"] is not None
    assert cell.headline.quantiles["p99"] is None
    assert cell.headline.at_least == {"p99": 30 * SECOND_NS}
    assert "30.0 s" in cell.headline.unresolved["p99"]


def test_the_percentile_curve_goes_through_the_percentiles(folder):
    times = Histogram()
    times.add(histogram(5e6, 4000, seed=3))
    cell = one_cell(folder, [row(0, 4000, times=times.encode())])
    shares = cell.headline.curve_shares
    for share, value_ns in zip(shares, cell.headline.curve_ns, strict=True):
        wanted = times.quantile(share) if share else times.min
        assert value_ns == pytest.approx(wanted, rel=1e-3)
    assert 4000 * (1 - shares[-1]) >= 10


def test_the_spread_is_the_standard_deviation_of_whole_seconds(folder):
    rows = [row(0, 90), row(1, 100), row(2, 110), row(3, 40)]
    # Measured from 0 to 3.4 s: the fourth second is cut, and its 40 requests are not a rate.
    cell = one_cell(folder, rows, changes=window(0, 3.4))
    assert cell.spread_of_seconds.n == 3
    assert cell.spread_of_seconds.requests_per_s == pytest.approx(10)
    assert cell.spread_of_seconds.bytes_per_s == pytest.approx(10 * 4096)
    assert cell.requests_per_s == pytest.approx(340 / 3.4)


def test_a_second_without_any_completion_counts_as_zero(folder):
    cell = one_cell(folder, [row(0, 100), row(2, 100)], changes=window(0, 3))
    assert cell.spread_of_seconds.n == 3
    assert cell.spread_of_seconds.requests_per_s == pytest.approx(57.735, rel=1e-4)


def test_iterations_are_cells_of_their_own_and_one_total(folder):
    rows = [row(0, 100), row(1, 100), row(2, 300, iteration=2), row(3, 300, iteration=2)]
    folder.write(trial(1, "ceph", "get", iterations=2), rows)
    findings = findings_of(folder)
    assert [(cell.iteration, cell.requests_per_s) for cell in findings.iterations] == [
        (1, 100),
        (2, 300),
    ]
    (total,) = findings.rounds
    assert total.iteration is None
    assert total.requests_per_s == 800 / 4


def test_a_mix_is_also_added_up_over_its_shared_wall_time(folder):
    mix = [{"operation": "get", "weight": 0.8}, {"operation": "put", "weight": 0.2}]
    rows = [row(0, 80), row(0, 20, operation="put"), row(1, 90), row(1, 30, operation="put")]
    folder.write(trial(1, "ceph", "mixed", mix=mix), rows)
    (cell,) = findings_of(folder).mixes
    assert (cell.operation, cell.requests_per_s, cell.duration_s) == ("all", 110, 2)
    assert cell.headline.count == 220
    assert cell.spread_of_seconds.requests_per_s == pytest.approx(14.142, rel=1e-4)


def test_a_mix_is_added_up_where_an_operation_came_in_no_whole_second(folder):
    mix = [{"operation": "get", "weight": 0.9}, {"operation": "head", "weight": 0.1}]
    rows = [row(0, 80), row(0, 20, operation="head"), row(1, 90), row(2, 70)]
    folder.write(trial(1, "ceph", "mixed", mix=mix), rows, changes=window(0.5, 3))
    findings = findings_of(folder)
    (cell,) = findings.mixes
    assert cell.requests_per_s == (80 + 20 + 90 + 70) / 2.5
    head = next(cell for cell in findings.rounds if cell.operation == "head")
    assert head.spread_of_seconds.n == 2


def test_cells_stand_in_the_order_of_their_parameters_whatever_the_plan(folder):
    for number, threads in enumerate((16, 1, 4), start=1):
        folder.write(trial(number, "ceph", "get", clients=threads), [row(0, 10), row(1, 10)])
    cells = findings_of(folder).rounds
    assert [cell.parameters["threads"] for cell in cells] == [1, 4, 16]


def test_operations_of_a_mix_share_the_wall_time(folder):
    mix = [{"operation": "get", "weight": 0.8}, {"operation": "put", "weight": 0.2}]
    rows = [row(0, 80), row(0, 20, operation="put"), row(1, 80), row(1, 20, operation="put")]
    folder.write(trial(1, "ceph", "mixed", mix=mix), rows)
    totals = findings_of(folder).rounds
    assert [(cell.operation, cell.requests_per_s) for cell in totals] == [("get", 80), ("put", 20)]


def test_rounds_and_targets_are_kept_apart(tmp_path):
    findings = analyse(read_run(write_rounds(tmp_path / "run", seconds=4)))
    rates = {
        (cell.target, cell.operation, cell.round): cell.requests_per_s for cell in findings.rounds
    }
    truth = {
        (target, operation, index + 1): rate
        for (target, operation), pair in ROUNDS.items()
        for index, rate in enumerate(pair)
    }
    assert rates == pytest.approx(truth)


def test_a_sweep_has_one_cell_for_each_value(tmp_path):
    findings = analyse(read_run(write_sweep(tmp_path / "run", seconds=4)))
    rates = {cell.parameters["threads"]: cell.requests_per_s for cell in findings.rounds}
    # The second block is two requests a second faster than the first.
    assert rates == pytest.approx(
        {threads: (rate * (rate + 2)) ** 0.5 for threads, rate in SWEEP.items()}
    )


def test_the_cost_of_a_request_is_the_threads_time_over_all_requests(folder):
    rows = [row(0, 100), row(1, 100, outcome="reset")]
    cell = one_cell(folder, rows, changes={"thread_cpu_ns": [1_500_000, 500_000]})
    assert cell.client.cpu_us_per_request == 10


def test_unobserved_resources_are_absent_and_not_zero(folder):
    cell = one_cell(folder, [row(0, 100), row(1, 100)])
    assert cell.client.rss_bytes_max is None
    assert cell.client.sockets_max is None


def test_memory_and_sockets_are_peaks_of_the_trial(folder):
    probes = probe_rows(folder.now_ns, 2)
    folder.write(trial(1, "ceph", "get"), [row(0, 1), row(1, 1)], probes=probes)
    (cell,) = findings_of(folder).rounds
    assert cell.client.rss_bytes_max == 80 * 2**20 + 2 * 2**16
    assert cell.client.sockets_max == 262  # in use, and waiting, in the last second


def test_a_counter_becomes_growth_per_second_and_pauses_are_cut_out(folder):
    for number in (1, 2):
        probes = probe_rows(folder.now_ns, 2)
        folder.write(trial(number, "ceph", "get", round=number), [row(0, 1)], probes=probes)
    findings = findings_of(folder)
    received = [s for s in findings.resources if s.subject == "eth0 received"]
    assert [point.value for line in received for point in line.points] == pytest.approx([0.4] * 4)
    assert [p.elapsed_s for line in received for p in line.points] == pytest.approx([1, 2, 3, 4])


def test_a_busy_core_is_a_percentage(folder):
    probes = probe_rows(folder.now_ns, 5, busy=0.5)
    folder.write(trial(1, "ceph", "get"), [row(0, 1)], probes=probes)
    findings = findings_of(folder)
    cores = {
        resource.subject: resource.points
        for resource in findings.resources
        if resource.resource == "cpu"
    }
    assert sorted(cores) == ["core 0", "core 1"]
    mean = sum(point.value for point in cores["core 0"]) / len(cores["core 0"])
    assert mean == pytest.approx(50, abs=2)


def test_littles_law_holds_when_every_client_was_always_busy(folder):
    # Ten clients, a request of ten milliseconds each: a thousand requests a second.
    times = encoded(*[10_000_000] * 1000)
    rows = [row(0, 1000, times=times), row(1, 1000, times=times)]
    cell = one_cell(folder, rows, clients=10)
    assert cell.little == pytest.approx(1, rel=1e-3)
    assert not {"LITTLE", "IDLE"} & set(cell.labels)


def test_more_in_flight_than_clients_voids_the_numbers(folder):
    times = encoded(*[12_000_000] * 1000)
    cell = one_cell(folder, [row(0, 1000, times=times), row(1, 1000, times=times)], clients=10)
    assert "LITTLE" in cell.labels


def test_clients_outside_requests_are_named(folder):
    times = encoded(*[5_000_000] * 1000)
    cell = one_cell(folder, [row(0, 1000, times=times), row(1, 1000, times=times)], clients=10)
    assert "IDLE" in cell.labels


def test_littles_law_is_not_applied_to_a_trial_that_lost_a_host(folder):
    # The lost host's ten clients made half of the requests; the summary has those of the other.
    times = encoded(*[10_000_000] * 2000)
    host = {"requests": 2000, "clients": 10, "state": "finished", "reason": None, "lost_ns": None}
    lost = host | {"name": "b", "state": "lost", "reason": "it went", "lost_ns": 1_900_000_000}
    hosts = {"hosts": [host | {"name": "a"}, lost]}
    rows = [row(0, 2000, times=times), row(1, 2000, times=times)]
    cell = one_cell(folder, rows, clients=10, changes=hosts)
    assert cell.little is None
    assert not {"LITTLE", "IDLE"} & set(cell.labels)
    assert "HOST_LOST" in cell.labels


OPEN = {"kind": "open", "rate_per_s": 100.0, "arrivals": "poisson", "clients_max": 50}


def test_an_open_load_that_falls_behind_is_an_overload(folder):
    waiting = row(1, 60, outcome="not_sent", bytes=0)
    cell = one_cell(folder, [row(0, 70), row(1, 70), waiting], load=OPEN)
    assert "OVERLOAD" in cell.labels


def test_an_open_load_that_keeps_up_is_none(folder):
    cell = one_cell(folder, [row(0, 100), row(1, 100)], load=OPEN)
    assert "OVERLOAD" not in cell.labels


def test_fewer_arrivals_by_chance_are_no_overload(folder):
    # 200 were wanted in two seconds; 3 · √200 = 42 fewer may be chance, and are not when more miss.
    cell = one_cell(folder, [row(0, 85), row(1, 85)], load=OPEN)
    assert "OVERLOAD" not in cell.labels
    cell = one_cell(folder, [row(0, 75), row(1, 75)], load=OPEN)
    assert "OVERLOAD" in cell.labels


@pytest.mark.parametrize("each_second", [85, 110])
def test_unsent_requests_show_an_overload_whatever_their_number(folder, each_second):
    waiting = row(1, 5, outcome="not_sent", bytes=0)
    cell = one_cell(folder, [row(0, each_second), row(1, each_second), waiting], load=OPEN)
    assert "OVERLOAD" in cell.labels


def test_arrivals_that_are_evenly_spaced_are_fewer_by_one_at_most(folder):
    evenly = OPEN | {"rate_per_s": 5.4, "arrivals": "constant"}
    cell = one_cell(folder, [row(0, 5), row(1, 5)], load=evenly)
    assert "OVERLOAD" not in cell.labels
    cell = one_cell(folder, [row(0, 5), row(1, 4)], load=evenly)
    assert "OVERLOAD" in cell.labels


def test_requests_sent_late_void_the_latency(folder):
    lag = encoded(*[50_000_000] * 1000)
    rows = [row(second, 1000, lag=lag) for second in (0, 1)]
    cell = one_cell(folder, rows, load=OPEN | {"rate_per_s": 1000.0})
    assert "LAG" in cell.labels


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"state": "interrupted"}, "INTERRUPTED"),
        ({"state": "stopped", "reason": "10 requests failed"}, "STOPPED"),
        ({"state": "stopped", "stopped_on_loss": True}, "STOPPED_ON_LOSS"),
        ({"mismatches": {"corrupt": 1}}, "CORRUPT"),
    ],
)
def test_the_end_of_a_trial_is_a_label(folder, changes, label):
    assert label in one_cell(folder, [row(0, 100), row(1, 100)], changes=changes).labels


def test_labels_of_the_record_are_kept(folder):
    assert "FOREIGN" in one_cell(folder, [row(0, 1), row(1, 1)], labels=["FOREIGN"]).labels


def test_one_trial_and_little_time_are_said(folder):
    cell = one_cell(folder, [row(0, 100), row(1, 100)])
    assert {"n=1", "SHORT"} <= set(cell.labels)


def test_a_trial_that_never_ran_is_not_a_failure_and_not_silence(tmp_path):
    findings = analyse(read_run(write_sweep(tmp_path / "run", seconds=4)))
    missing = [trial for trial in findings.trials if trial.state == "not run"]
    assert [trial.parameters["threads"] for trial in missing] == [24]
    assert missing[0].requests is None
    assert findings.findings[0].rule == "NOT RUN"


def test_unmeasured_trials_are_listed_and_not_summed(folder):
    folder.write(trial(1, "ceph", "put", phase="prepare", measured=False), [row(0, 900)])
    folder.write(trial(2, "ceph", "get"), [row(0, 100), row(1, 100)])
    findings = findings_of(folder)
    assert [cell.phase for cell in findings.rounds] == ["get"]
    assert [trial.phase for trial in findings.trials] == ["prepare", "get"]


def test_a_killed_trial_is_summed_up_to_its_last_second(folder):
    folder.write(
        trial(1, "ceph", "get"),
        [row(0, 100), row(1, 140)],
        changes={"iterations": [], "state": None},
    )
    (cell,) = findings_of(folder).rounds
    assert cell.duration_s == 2
    assert cell.requests_per_s == 120


def test_a_long_trial_is_drawn_in_wider_steps_that_keep_its_rate(folder):
    rows = [row(second, 10 + second % 2) for second in range(3600)]
    folder.write(trial(1, "ceph", "get"), rows, changes=window(0, 3600))
    (line,) = findings_of(folder).timelines
    assert line.rate_step_s == 15
    assert len(line.rates) == 240
    assert all(point.requests_per_s == pytest.approx(10.5, abs=0.1) for point in line.rates)


def test_an_outage_that_lasts_to_the_end_is_a_rate_of_zero(folder):
    rows = [row(0, 100), row(1, 100), row(2, 8, outcome="refused"), row(3, 8, outcome="refused")]
    folder.write(trial(1, "ceph", "get"), rows, changes=window(0, 4))
    (line,) = findings_of(folder).timelines
    assert [point.requests_per_s for point in line.rates] == [100, 100, 0, 0]


def test_latency_over_time_is_merged_over_its_step(folder):
    rows = [row(second, 100, times=histogram(1e6 * (1 + second), 100, 1)) for second in range(100)]
    folder.write(trial(1, "ceph", "get"), rows, changes=window(0, 100))
    (line,) = findings_of(folder).timelines
    # A hundred requests a second: ten seconds make the thousand that a p99 needs.
    assert line.latency_step_s == 10
    assert all(point.p99_ns is not None for point in line.latencies)


def test_histograms_packed_or_compressed_add_up_to_all_values_pooled():
    chance = np.random.default_rng(4)
    for magnitude in (100, 10_000, 10**7, 10**11):
        seconds = [
            np.maximum(1, chance.lognormal(np.log(magnitude), 1, chance.integers(1, 400)))
            for _ in range(12)
        ]
        histograms = [None]
        for second in seconds:
            times = Histogram()
            for ns in second.astype(int).tolist():
                times.record(ns)
            histograms.append(times.pack() if len(histograms) % 2 else times.encode())
        merged = merge(histograms)
        pooled = np.sort(np.concatenate(seconds).astype(int))
        assert merged is not None
        assert merged.count == pooled.size
        assert merged.mean == pytest.approx(pooled.mean(), rel=1e-3)
        for share in (0.001, 0.5, 0.9, 0.99, 1.0):
            rank = max(1, int(np.ceil(share * pooled.size)))
            true_ns = int(pooled[rank - 1])
            # The upper edge of a bucket whose width is at most a 1,024th of what it holds.
            assert true_ns <= merged.quantile(share) <= true_ns * (1 + 1 / 1024)
