"""Families of scenarios, and what a seed draws from them.

A combination is what scenarios have in common beside numbers: the family, the kind of load, what is
watched, and whether others use the target. Half of the combinations are there to develop the rules
with; the other half is measured only, and no rule was ever looked at with one of them.
"""

import itertools
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from tests.rig.scenario import Client, Kind, Resource, Scenario, Watched

Purpose = Literal["develop", "measure"]

SPLIT = "split of 2026"
"""The seed that, together with their names, assigns the combinations to halves."""

SIZES = (1024, 4096, 16_384, 65_536, 1 << 20)
HEADERS = 500
"""Bytes of each request and answer that are no payload."""

THREAD = ("client thread", "client memory", "client ports")
HANDSHAKE_US = {"client thread": (600, 2000), "processors": (2000, 8000)}
"""A certificate costs its signer more than those who check it."""
TARGET_RESOURCES = ("processors", "core", "disk", "card", "software")
ROOM = (1.3, 6.0)


def scenarios(purpose: Purpose, seed: int, count: int) -> Iterator[Scenario]:
    """Yield so many scenarios, the families in turns."""
    names = list(FAMILIES)
    for number in range(count):
        name = names[number % len(names)]
        for attempt in itertools.count():
            chance = random.Random(f"{purpose} {seed} {number} {attempt}")
            scenario = FAMILIES[name](chance, name)
            if purpose_of(scenario.combination) == purpose:
                yield scenario
                break


def purpose_of(combination: str) -> Purpose:
    """Return the purpose of a combination."""
    return "measure" if zlib.crc32(f"{SPLIT}: {combination}".encode()) % 2 else "develop"


def _between(chance: random.Random, low: float, high: float) -> float:
    """Draw a number of which every multiple is as likely."""
    return float(low * (high / low) ** chance.random())


def _draw(
    chance: random.Random,
    family: str,
    *limits: str,
    kinds: Mapping[Kind, int] | None = None,
    others: bool = False,
    full_at: float | None = None,
    cores: int | None = None,
    changes: Callable[[Scenario, random.Random], Scenario] | None = None,
    **fields: Any,
) -> Scenario:
    """Draw a scenario in which these resources are full first, all of the others having room."""
    if full_at is None:
        # A load thread that does fewer requests a second is none that anybody has seen.
        full_at = _between(chance, 400 if any(name in THREAD for name in limits) else 60, 2500)
    cores = cores or chance.choice((2, 4, 8, 16))
    resources = _resources(chance, full_at, limits, cores, others=others)
    scenario = Scenario(
        family=family,
        combination="",
        kind=_drawn(chance, kinds or {"sweep": 11, "single": 2, "open": 4, "rates": 3}),
        watched=_watched(chance),
        client=_client_host(chance),
        resources=resources,
        target_cores=cores,
        loads=(),
        judged=0,
        seed=chance.getrandbits(31),
        delay_s=_between(chance, 5e-5, 2e-2),
        operation=chance.choice(("get", "put")),
        size=chance.choice(SIZES),
        law=_drawn(chance, {"exponential": 4, "uniform": 2, "fixed": 1}),
        arrivals=chance.choice(("poisson", "constant")),
        # Long enough for some thousands of requests, as users have them, and no longer.
        seconds=float(min(30, max(5, round(12_000 / full_at)))),
        warm_up_s=chance.choice((0.0, 1.0, 2.0)),
        noise=chance.choice((0.0, 0.005, 0.02)),
        target_hosts=chance.choice((1, 1, 3)),
        is_core_moving=chance.random() < 0.2,
    )
    scenario = replace(scenario, **fields)
    if changes is not None:
        scenario = changes(scenario, chance)
    if not scenario.loads:
        scenario = _loaded(scenario, chance)
    if not scenario.sent_again:
        # Every path loses some.
        scenario = replace(scenario, sent_again=chance.choice((0.0, 0.0005, 0.004)))
    words = (
        [scenario.family, scenario.kind, scenario.watched.words]
        + (["others on the target"] if any(resource.others for resource in resources) else [])
        + (["client not watched"] if not scenario.client.is_watched else [])
        + ([f"and {limits[1]}"] if len(limits) > 1 else [])
        + ([] if scenario.is_kept else ["a connection each"])
    )
    return replace(scenario, combination=", ".join(words))


def _resources(
    chance: random.Random, full_at: float, limits: Sequence[str], cores: int, *, others: bool
) -> Sequence[Resource]:
    """Draw when each resource is full."""
    at = {name: full_at * (1 + 0.08 * chance.random() * bool(i)) for i, name in enumerate(limits)}
    ours = {}
    for name in ("client thread", "client card", "path", *TARGET_RESOURCES):
        ours[name] = at.get(name) or full_at * _between(chance, *ROOM)
    for name in limits:
        ours.setdefault(name, at[name])
    ours["client thread"] = at.get("client thread") or max(400.0, ours["client thread"])
    has_others = others and chance.random() < 0.3
    servers = {
        "processors": cores,
        "disk": chance.choice((1, 1, 1, 1, 4, 16, 16, 64)),
        "software": chance.choice((1, 1, 4, 16, 64)),
    }
    return tuple(
        Resource(
            name=name,
            full_at_per_s=rate,
            servers=servers.get(name, 1),
            others=chance.choice((2, 8, 32)) if has_others and name == limits[0] else 0,
        )
        for name, rate in ours.items()
    )


def _watched(chance: random.Random) -> Watched:
    return Watched(
        target=chance.random() < 0.5,
        path=_drawn(chance, {"no": 10, "steady": 8, "credit": 2}),
        device=chance.random() < 0.2,
        own_benchmark=chance.random() < 0.2,
    )


def _client_host(chance: random.Random) -> Client:
    return Client(
        cores=chance.choice((2, 4, 8, 32)),
        interrupts=chance.uniform(0.0, 0.2),
        is_moving=chance.random() < 0.3,
        others_busy=chance.choice((0.02, 0.02, 0.1, 0.9)),
        card_speed=_drawn(chance, {"stated": 6, "absent": 3, "untrue": 1}),
        card_untrue=_between(chance, *chance.choice(((0.05, 0.7), (1.5, 20)))),
        is_watched=chance.random() >= 0.03,
    )


def _drawn(chance: random.Random, weights: Mapping[Any, int]) -> Any:
    return chance.choices(list(weights), list(weights.values()))[0]


def _loaded(scenario: Scenario, chance: random.Random) -> Scenario:
    """Draw loads about the one that just fills the first resource."""
    full_at = scenario.full_at_per_s
    fitting = full_at * scenario.alone_s
    if scenario.is_open:
        # Most are asked of open loads that are too much; what is achieved is a family by itself.
        shares = [_between(chance, 1.05, 1.6)]
        if scenario.kind == "rates":
            shares = [0.5, 0.8, *shares, 2.0][: chance.choice((3, 4))]
        rates = tuple(float(f"{share * full_at:.3g}") for share in shares)
        judged = chance.choice(rates) if scenario.kind == "rates" else rates[-1]
        most = int(fitting * _between(chance, 3, 20)) + 8
        return replace(scenario, loads=rates, judged=judged, clients_max=most)
    if scenario.kind == "single":
        clients = max(1, round(fitting * _between(chance, 1.2, 6)))
        return replace(scenario, loads=(clients,), judged=clients)
    first = max(1, round(fitting * _between(chance, 0.1, 1.5)))
    factor = chance.choice((2, 2, 4))
    loads = [first * factor**step for step in range(chance.choice((3, 4, 5)))]
    most = max(64, 16 * fitting)
    loads = [load for load in loads if load <= most] or loads[:1]
    if len(loads) < 2:
        loads.append(2 * loads[-1])
    full = [load for load in loads if load >= 1.3 * fitting]
    judged = chance.choice(full if full and chance.random() < 0.7 else loads)
    return replace(scenario, loads=tuple(loads), judged=judged)


def _client(**client: Any) -> Callable[[Scenario, random.Random], Scenario]:
    """Return the changes of the client's host."""

    def change(scenario: Scenario, chance: random.Random) -> Scenario:
        drawn = {key: value(chance) if callable(value) else value for key, value in client.items()}
        return replace(scenario, client=replace(scenario.client, **drawn))

    return change


def _few(scenario: Scenario, chance: random.Random) -> Scenario:
    """Draw loads that leave the first resource at less than half."""
    fitting = scenario.full_at_per_s * scenario.alone_s
    if fitting < 8:
        # Far away, so that few requests a second take many clients.
        longer = 8 / scenario.full_at_per_s
        scenario = replace(scenario, delay_s=scenario.delay_s + longer)
        fitting = scenario.full_at_per_s * scenario.alone_s
    top = fitting * chance.uniform(0.2, 0.5)
    loads = sorted({max(1, round(top / 2**step)) for step in range(3)})
    if len(loads) < 2:
        loads.append(2 * loads[-1])
    return replace(scenario, loads=tuple(loads), judged=chance.choice(loads))


def _met(scenario: Scenario, chance: random.Random) -> Scenario:
    rate = float(f"{scenario.full_at_per_s * chance.uniform(0.3, 0.9):.3g}")
    fitting = scenario.full_at_per_s * scenario.alone_s
    return replace(scenario, loads=(rate,), judged=rate, clients_max=int(fitting * 20) + 32)


def _few_in_flight(scenario: Scenario, chance: random.Random) -> Scenario:
    """Draw an open load whose clients are too few for the rate that it asks for."""
    if scenario.full_at_per_s * scenario.alone_s < 8:
        scenario = replace(scenario, delay_s=scenario.delay_s + 8 / scenario.full_at_per_s)
    fitting = scenario.full_at_per_s * scenario.alone_s
    most = max(1, round(fitting * chance.uniform(0.2, 0.5)))
    reached = most / scenario.alone_s
    rate = float(f"{reached * chance.uniform(1.2, 1.6):.3g}")
    rates = (rate,)
    if scenario.kind == "rates":
        rates = tuple(float(f"{reached * share:.3g}") for share in (0.4, 0.8)) + rates
    return replace(scenario, loads=rates, judged=rate, clients_max=most)


def _paced(scenario: Scenario, chance: random.Random) -> Scenario:
    scenario = _loaded(scenario, chance)
    most = max(scenario.loads)
    able = min(scenario.full_at_per_s, most / scenario.alone_s)
    rate = float(f"{able * chance.uniform(0.2, 0.6):.3g}")
    return replace(scenario, loads=(most,), judged=most, paced_per_s=rate)


def _pausing(scenario: Scenario, chance: random.Random) -> Scenario:
    share, every_s = chance.uniform(0.2, 0.7), _between(chance, 0.3, 1.0)
    # The request in service when a pause begins is finished within it.
    resources = [
        replace(resource, servers=1) if resource.name == "software" else resource
        for resource in scenario.resources
    ]
    return replace(scenario, resources=resources, pause_share=share, pause_every_s=every_s)


def _slow_first(scenario: Scenario, chance: random.Random) -> Scenario:
    scenario = _loaded(scenario, chance)
    later = scenario.loads[1:]
    judged = chance.choice(later)
    return replace(scenario, judged=judged, slow_first=_between(chance, 1.3, 4.0))


def _refusing(scenario: Scenario, chance: random.Random) -> Scenario:
    """Make refusals cost as much as requests, and the load too much in any case."""
    scenario = replace(scenario, delay_s=max(scenario.delay_s, 2e-3))
    fitting = scenario.full_at_per_s * scenario.alone_s
    if scenario.is_open:
        return _loaded(scenario, chance)
    first = max(2, round(fitting * chance.uniform(1.3, 3)))
    loads = (first,) if scenario.kind == "single" else (first, 2 * first, 4 * first)
    return replace(scenario, loads=loads, judged=chance.choice(loads))


def _refusing_client(scenario: Scenario, chance: random.Random) -> Scenario:
    refusal = chance.choice(("no_ports", "no_descriptors"))
    return _refusing(replace(scenario, refusal=refusal), chance)


def _throttling(scenario: Scenario, chance: random.Random) -> Scenario:
    return _refusing(replace(scenario, refusal="throttled"), chance)


def _full_card(scenario: Scenario, chance: random.Random) -> Scenario:
    others = chance.choice((0.0, 0.0, 0.2, 0.4))
    client = replace(scenario.client, card_others=others)
    return replace(scenario, client=client, size=max(scenario.size, 16_384))


def _dropping(scenario: Scenario, chance: random.Random) -> Scenario:
    scenario = _full_card(scenario, chance)
    if scenario.operation == "get" and chance.random() < 0.5:
        # Retransmissions also use a share of the card.
        client = replace(scenario.client, card_others=0.0, card_drops_inside=0.3)
    else:
        client = replace(scenario.client, card_drops=_between(chance, 0.002, 0.03))
    return replace(scenario, client=client)


def _losing(scenario: Scenario, chance: random.Random) -> Scenario:
    size = max(scenario.size, 16_384)
    return replace(scenario, size=size, sent_again=_between(chance, 0.015, 0.1))


def _with_credit(scenario: Scenario, chance: random.Random) -> Scenario:
    return replace(scenario, watched=replace(scenario.watched, path="credit"))


def _several_threads(scenario: Scenario, chance: random.Random) -> Scenario:
    cores = chance.choice((4, 8, 32))
    shares = [chance.uniform(0.1, 0.6) for _ in range(chance.choice((1, 3, cores - 1)))]
    client = replace(scenario.client, cores=cores, other_threads=shares, is_moving=False)
    return replace(scenario, client=client)


def _standing_still(scenario: Scenario, chance: random.Random) -> Scenario:
    scenario = _pausing(scenario, chance)
    share = _between(chance, 0.07, 0.6)
    client = replace(scenario.client, stands_still=True)
    return replace(scenario, client=client, pause_share=share)


def _two(chance: random.Random, family: str) -> Scenario:
    first, second = chance.sample(("client thread", "path", *TARGET_RESOURCES), 2)
    return _draw(chance, family, first, second)


def _tls(side: Literal["client thread", "processors"]) -> Callable[[random.Random, str], Scenario]:
    """Draw a side whose encryption is saturated first: by handshakes, or by transferred data."""

    def draw(chance: random.Random, family: str) -> Scenario:
        is_kept = chance.random() < 0.5
        cores = 1 if side == "client thread" else chance.choice((2, 4))
        size = cores << 20 if is_kept else chance.choice(SIZES[:4])
        # A byte of AES-GCM with the copies that come with it, and a request without either.
        taken_us = size * _between(chance, 6e-4, 2e-3) + _between(chance, 15, 60)
        if not is_kept:
            taken_us += _between(chance, *HANDSHAKE_US[side])
        return _draw(
            chance,
            family,
            side,
            full_at=cores * 1e6 / taken_us,
            cores=cores if cores > 1 else None,
            size=size,
            is_kept=is_kept,
            changes=None if is_kept else _connecting,
        )

    return draw


def _connecting(scenario: Scenario, chance: random.Random) -> Scenario:
    """Have a connection of its own take two round trips more, and not take all local ports."""
    return replace(scenario, seconds=5.0, delay_s=3 * scenario.delay_s)


CLOSED: Mapping[Kind, int] = {"sweep": 5, "single": 1}


def _family(*limits: str, **fields: Any) -> Callable[[random.Random, str], Scenario]:
    return lambda chance, family: _draw(chance, family, *limits, **fields)


def _share(low: float, high: float) -> Callable[[random.Random], float]:
    return lambda chance: chance.uniform(low, high)


def _core(loss: str, low: float, high: float) -> Callable[[Scenario, random.Random], Scenario]:
    return _client(loss=loss, lost=_share(low, high))


FAMILIES: Mapping[str, Callable[[random.Random, str], Scenario]] = {
    "client's load thread": _family("client thread"),
    "client's quota": _family("client thread", changes=_core("quota", 0.3, 0.9)),
    "client's core stolen": _family("client thread", changes=_core("stolen", 0.3, 0.7)),
    "client's core shared": _family("client thread", changes=_core("neighbour", 0.3, 0.7)),
    "client's memory": _family("client memory", changes=_core("memory", 0.5, 0.9), kinds=CLOSED),
    "client's card": _family("client card", changes=_full_card),
    "client's card that drops": _family("client card", changes=_dropping),
    "client's one thread of several": _family("client thread", changes=_several_threads),
    "client's pauses": _family("software", changes=_standing_still),
    "client's ports or descriptors": _family(
        "client ports", kinds=CLOSED, changes=_refusing_client
    ),
    "client's TLS": _tls("client thread"),
    "path's rate": _family("path"),
    "path's burst credit": _family("path", changes=_with_credit),
    "path's losses": _family("path", changes=_losing),
    "path's delay": _family("path", kinds={"sweep": 1}, changes=_few),
    "target's processors": _family("processors", others=True),
    "target's single core": _family("core", others=True),
    "target's disk": _family("disk", others=True),
    "target's TLS": _tls("processors"),
    "target's card": _family("card", others=True),
    "target's lock or pacing": _family("software", others=True),
    "target's pauses": _family("software", changes=_pausing),
    "target's throttle": _family("throttle", changes=_throttling),
    "target slower with load": _family(
        "software", kinds={"sweep": 1}, contention=0.1, changes=None
    ),
    "target slow at first": _family("processors", kinds={"sweep": 1}, changes=_slow_first),
    "too few clients": _family("software", kinds={"sweep": 1}, changes=_few),
    "a rate that is met": _family("software", kinds={"open": 1}, changes=_met),
    "too few in flight for a rate": _family(
        "processors", kinds={"open": 1, "rates": 1}, changes=_few_in_flight
    ),
    "a closed load that is paced": _family("software", kinds={"single": 1}, changes=_paced),
    "two limits": _two,
}
