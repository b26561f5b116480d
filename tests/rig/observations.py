"""Simulated readings of probes and exporters, per second, derived from the scenario's rate.

They follow from the construction of the scenario: the use of each resource by a request, and the
number of requests in each second. Names and units are those of the probes.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadstone._loadgen import Table
from loadstone.results.record import PROBE_SCHEMA
from tests.rig.families import HEADERS
from tests.rig.scenario import Scenario

SECOND_NS = 1_000_000_000
CLIENT = "client"
FRAME, LINE, PAYLOAD = 1514, 1538, 1448
"""Bytes of a full packet as the kernel counts it, as the line carries it, and its payload."""

Reading = tuple[str, str, str, str, float, bool]
"""Host, probe, subject, metric, value, and whether it is a counter's growth in a second."""


def thread_ns(scenario: Scenario) -> float:
    """Return how long the load thread is taken by one request, waiting for its core included."""
    names = ("client thread", "client memory")
    rates = [resource.full_at_per_s for resource in scenario.resources if resource.name in names]
    return SECOND_NS / min(rates)


def wire_bytes(scenario: Scenario) -> float:
    """Return the bytes of one request and its answer in the direction of the payload."""
    return scenario.size + HEADERS


def thread_times(scenario: Scenario, tried: int, served: int) -> Mapping[str, Any]:
    """Return the summary's figures of the load thread and the wire."""
    taken_ns = thread_ns(scenario) * tried
    lost, others = scenario.client.lost, scenario.client.other_threads
    ran_ns = taken_ns * (1 - lost)
    waited = scenario.client.loss in ("quota", "neighbour")
    moved = round(wire_bytes(scenario) * served)
    is_get = scenario.operation == "get"
    return {
        # The kernel's work for packets is on nobody's account.
        "thread_cpu_ns": [
            round(share * ran_ns * (1 - scenario.client.interrupts)) for share in (1.0, *others)
        ],
        "thread_awake_ns": [0] * (1 + len(others)),
        "thread_run_delay_ns": [
            round(share * taken_ns * (lost if waited else 0.002)) for share in (1.0, *others)
        ],
        **({} if scenario.is_kept else {"connections_opened": tried}),
        "bytes_received": moved if is_get else HEADERS * served,
        "bytes_sent": HEADERS * served if is_get else moved,
        "hiccup": None,
        "stalls": _stalls(scenario),
    }


def _stalls(scenario: Scenario) -> list[dict[str, Any]]:
    """Return when the client itself stalled, as it notices from late wake-ups."""
    if not scenario.client.stands_still:
        return []
    seconds = round(scenario.warm_up_s + scenario.seconds)
    lost_ns = round(scenario.pause_share * SECOND_NS)
    return [{"core": None, "seconds": [[second, lost_ns] for second in range(seconds)]}]


def probe_table(
    scenario: Scenario, started_unix_ns: int, seconds: Sequence[tuple[float, float]]
) -> Table:
    """Return the probes' rows of a second with so many requests tried and served."""
    chance = random.Random(scenario.seed ^ started_unix_ns)
    grown: dict[tuple[str, str, str, str], float] = {}
    rows: list[tuple[Any, ...]] = []
    for second, (tried, served) in enumerate([(0.0, 0.0), *seconds]):
        for host, probe, subject, metric, value, is_counter in _readings(scenario, tried, served):
            key = (host, probe, subject, metric)
            if is_counter:
                grown[key] = grown.get(key, 0.0) + value * chance.gauss(1, 0.003) * bool(second)
                value = grown[key]
            rows.append((started_unix_ns + second * SECOND_NS, *key[:2], subject, metric, value))
    columns = zip(*rows, strict=True)
    return PROBE_SCHEMA.of_columns([list(column) for column in columns])


def _readings(scenario: Scenario, tried: float, served: float) -> Iterator[Reading]:
    if scenario.client.is_watched:
        yield from _of_client(scenario, tried)
        yield from _of_client_card(scenario, served)
    if scenario.watched.target:
        for number in range(scenario.target_hosts):
            # The others of several hosts have a little less to do.
            yield from _of_target(scenario, served, f"server{number + 1}", 1 - 0.1 * bool(number))


def _of_client(scenario: Scenario, rate: float) -> Iterator[Reading]:
    client = scenario.client
    taken = min(1.0, rate * thread_ns(scenario) / SECOND_NS)
    ran = taken * (1 - client.lost)
    stolen = taken * client.lost if client.loss == "stolen" else 0.0
    packets = ran * client.interrupts
    sums: dict[str, float] = {}
    for core in range(client.cores):
        # A thread that moves is now on one core and now on another.
        share = (0.5 if core < 2 else 0.0) if client.is_moving else float(core == 0)
        is_load = share > 0
        others = client.others_busy if not is_load else min(0.02, 1 - taken)
        if 0 < core <= len(client.other_threads):
            others = max(others, ran * client.other_threads[core - 1])
        if is_load and client.loss == "neighbour":
            others = 1 - ran * share
        used = {
            "user": 0.6 * (ran - packets) * share + 0.7 * others,
            "system": 0.4 * (ran - packets) * share + 0.3 * others,
            "softirq": packets * share,
            "steal": stolen * share,
        }
        used["idle"] = max(0.0, 1 - sum(used.values()))
        for kind, value in used.items():
            sums[kind] = sums.get(kind, 0.0) + value
            yield CLIENT, "cpu", str(core), f"{kind}_ns", value * SECOND_NS, True
    for kind, value in sums.items():
        yield CLIENT, "cpu", "all", f"{kind}_ns", value * SECOND_NS, True
    user_and_system = (ran - packets) * SECOND_NS * (1 + sum(client.other_threads))
    yield CLIENT, "process", "", "user_ns", 0.6 * user_and_system, True
    yield CLIENT, "process", "", "system_ns", 0.4 * user_and_system, True
    blocked = taken * client.lost if client.loss == "memory" else 0.0
    yield CLIENT, "process", "", "major_faults", 500 * blocked, True
    yield CLIENT, "process", "", "swapped_bytes", 4096 * 200 * blocked, True
    yield CLIENT, "process", "", "rss_bytes", 1e8, False
    yield CLIENT, "memory", "", "swapped_in_pages", 500 * blocked, True
    yield CLIENT, "memory", "", "swapped_out_pages", 500 * blocked, True
    yield CLIENT, "pressure", "memory", "full_ns", 0.8 * blocked * SECOND_NS, True
    held = taken * client.lost if client.loss == "quota" else 0.0
    yield CLIENT, "cgroup", "", "throttled_ns", held * SECOND_NS, True
    yield CLIENT, "sockets", "tcp", "ports", 28_232.0, False
    yield CLIENT, "sockets", "tcp", "tcp_tw_reuse", 2.0, False


def _of_client_card(scenario: Scenario, rate: float) -> Iterator[Reading]:
    client = scenario.client
    card = scenario.resource("client card")
    assert card is not None, "each scenario has one"
    # Traffic of others uses a share of the card, and ours can use the rest.
    line = card.full_at_per_s * wire_bytes(scenario) * LINE / PAYLOAD / (1 - client.card_others)
    ours = rate * wire_bytes(scenario) * FRAME / PAYLOAD
    carried = ours + line * client.card_others * FRAME / LINE
    back = rate * HEADERS * FRAME / PAYLOAD
    is_get = scenario.operation == "get"
    yield CLIENT, "network", "eth0", "received_bytes", carried if is_get else back, True
    yield CLIENT, "network", "eth0", "sent_bytes", back if is_get else carried, True
    if client.card_speed != "absent":
        # A virtual card's number may be anything.
        speed = 8 * line * (client.card_untrue if client.card_speed == "untrue" else 1)
        yield CLIENT, "network", "eth0", "speed_bits_per_s", speed, False
    yield CLIENT, "network", "cpu0", "backlog_dropped", 0.0, True
    came, went = (carried, back) if is_get else (back, carried)
    yield CLIENT, "network", "eth0", "received_packets", came / FRAME, True
    yield CLIENT, "network", "eth0", "sent_packets", went / FRAME, True
    dropped = ("received_dropped", came) if is_get else ("send_queue_dropped", went)
    lost = client.card_drops / (1 - client.card_drops) * dropped[1] / FRAME
    yield CLIENT, "network", "eth0", dropped[0], lost, True
    inside = came * (1 - client.card_drops_inside) * (FRAME - 14) / FRAME
    yield CLIENT, "tcp", "", "ip_received_bytes", inside, True
    again = scenario.sent_again + client.card_drops + client.card_drops_inside
    yield CLIENT, "tcp", "", "segments_received", came / FRAME, True
    yield CLIENT, "tcp", "", "segments_sent", went / FRAME, True
    repeated = "segments_out_of_order" if is_get else "segments_repeated"
    yield CLIENT, "tcp", "", repeated, again * (came if is_get else went) / FRAME, True


def _of_target(scenario: Scenario, rate: float, host: str, part: float) -> Iterator[Reading]:
    used = {
        resource.name: 1.0 if resource.others else min(1.0, rate / resource.full_at_per_s) * part
        for resource in scenario.resources
    }
    probe = "prometheus:servers"
    cores = scenario.target_cores
    for core in range(cores):
        # The thread that has a core for itself is part of what all cores do.
        single = used["core"] / cores if scenario.is_core_moving else used["core"] * (core == 0)
        busy = min(1.0, max(used["processors"], single))
        labels = f'cpu="{core}",mode='
        name = "node_cpu_seconds_total"
        yield host, probe, f'{labels}"user"', name, 0.7 * busy, True
        yield host, probe, f'{labels}"system"', name, 0.3 * busy, True
        yield host, probe, f'{labels}"idle"', name, 1 - busy, True
    disk = scenario.resource("disk")
    assert disk is not None, "each scenario has one"
    # A device counts the time in which it has any work, however much it could do at once.
    device = "nvme0n1" if disk.servers > 4 else "sda"
    worked = 1 - (1 - used["disk"]) ** disk.servers
    yield host, probe, f'device="{device}"', "node_disk_io_time_seconds_total", worked, True
    card = scenario.resource("card")
    assert card is not None, "each scenario has one"
    speed = card.full_at_per_s * wire_bytes(scenario) * LINE / PAYLOAD
    way = "transmit" if scenario.operation == "get" else "receive"
    carried = used["card"] * speed * FRAME / LINE
    yield host, probe, 'device="eth0"', f"node_network_{way}_bytes_total", carried, True
    yield host, probe, 'device="eth0"', "node_network_speed_bytes", speed, False
