"""How busy a target's resources were, read from its exporters' usual names."""

import numpy as np
import pytest

from loadstone.analysis.instrument.watched_lines import Line
from loadstone.analysis.limits.target_resources import find_losses, find_utilisation


def line(subject: str, growth_per_s: float, *, host: str = "osd1", start: float = 0.0) -> Line:
    times = np.arange(11.0)
    return Line(host=host, subject=subject, times_s=times, values=start + growth_per_s * times)


def lines(**series: list[Line]) -> dict[tuple[str, str], list[Line]]:
    return {("prometheus:osds", name): lines_of_metric for name, lines_of_metric in series.items()}


def test_without_exporters_nothing_is_known() -> None:
    assert find_utilisation({("cpu", "user_ns"): [line("all", 1e9)]}) == {}


def test_processors_are_those_of_the_busiest_host() -> None:
    exported = lines(
        node_cpu_seconds_total=[
            line('cpu="0",mode="user"', 0.6),
            line('cpu="0",mode="idle"', 0.3),
            line('cpu="0",mode="iowait"', 0.1),
            line('cpu="0",mode="user"', 0.9, host="osd2"),
            line('cpu="0",mode="idle"', 0.1, host="osd2"),
        ]
    )
    assert find_utilisation(exported) == {"cpu": pytest.approx(0.9), "core": pytest.approx(0.9)}


def test_time_that_a_hypervisor_took_is_no_idle_time() -> None:
    exported = lines(
        node_cpu_seconds_total=[
            line('cpu="0",mode="user"', 0.5),
            line('cpu="0",mode="steal"', 0.4),
            line('cpu="0",mode="idle"', 0.1),
        ]
    )
    assert find_utilisation(exported)["cpu"] == pytest.approx(0.9)


def test_one_full_core_of_eight_is_seen_beside_their_mean() -> None:
    cores = [
        line(f'cpu="{core}",mode="{mode}"', share if mode == "user" else 1 - share)
        for core, share in enumerate([1.0, *[0.0] * 7])
        for mode in ("user", "idle")
    ]
    utilisation = find_utilisation(lines(node_cpu_seconds_total=cores))
    assert utilisation == {"cpu": pytest.approx(1 / 8), "core": pytest.approx(1.0)}


def test_a_device_that_always_has_work_is_busy() -> None:
    exported = lines(
        node_disk_io_time_seconds_total=[line('device="sda"', 0.1), line('device="sdb"', 1.0)],
        node_pressure_io_waiting_seconds_total=[line("", 0.2)],
    )
    assert find_utilisation(exported) == {"disk": pytest.approx(1.0)}


def test_busy_time_of_a_device_that_serves_many_at_once_shows_room_only() -> None:
    exported = lines(
        node_disk_io_time_seconds_total=[
            line('device="nvme0n1"', 1.0),
            line('device="nvme1n1"', 0.5),
        ]
    )
    assert find_utilisation(exported) == {"disk": pytest.approx(0.5), "device": pytest.approx(1.0)}


def test_a_quota_counts_as_the_processor_it_withholds() -> None:
    exported = lines(
        node_cpu_seconds_total=[
            line('cpu="0",mode="user"', 0.2),
            line('cpu="0",mode="idle"', 0.8),
        ],
        container_cpu_cfs_periods_total=[line('name="osd"', 10)],
        container_cpu_cfs_throttled_periods_total=[line('name="osd"', 9.5)],
    )
    assert find_utilisation(exported) == {"cpu": pytest.approx(0.95), "core": pytest.approx(0.2)}


def test_a_card_is_held_against_its_speed_and_a_disk_against_time() -> None:
    exported = lines(
        node_network_transmit_bytes_total=[line('device="eth0"', 9e8), line('device="lo"', 5e9)],
        node_network_speed_bytes=[line('device="eth0"', 0, start=1.25e9)],
        node_pressure_io_waiting_seconds_total=[line("", 0.4)],
    )
    utilisation = find_utilisation(exported)
    assert utilisation == {"network": pytest.approx(0.72), "disk": pytest.approx(0.4)}


@pytest.mark.parametrize(
    ("metric", "of", "few", "many", "limit"),
    [
        ("node_netstat_Tcp_RetransSegs", "node_netstat_Tcp_OutSegs", 5, 20, "NETWORK_PATH"),
        (
            "node_network_receive_drop_total", "node_network_receive_packets_total",
            0.5, 2, "TARGET_NETWORK",
        ),
        (
            "node_netstat_TcpExt_ListenDrops", "node_netstat_Tcp_PassiveOpens",
            0.5, 2, "TARGET_SOFTWARE",
        ),
    ],
)  # fmt: skip
def test_packet_losses_of_the_target_s_hosts_support_a_limit(
    metric: str, of: str, few: float, many: float, limit: str
) -> None:
    whole = [line("", 1000), line("", 1e9, host="osd2")]
    assert find_losses(lines(**{of: whole, metric: [line("", few)]})) == {}
    assert find_losses(lines(**{metric: [line("", many)]})) == {}, "a share of nothing"
    losses = find_losses(lines(**{of: whole, metric: [line("", many)]}))
    assert {
        name: [evidence.value for evidence in evidence_of_loss]
        for name, evidence_of_loss in losses.items()
    } == {limit: [pytest.approx(many / 1000)]}
