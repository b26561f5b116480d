"""A scenario of the simulated rig, what limits it by its construction, and what is right of it.

A scenario is a chain of resources, each with the rate of requests at which it is full. What limits
a load follows from these rates and from the rate that was reached, never from the code of verdicts.

The rules, which were set before anything was measured:

- The resource that is full first is the limit. Others that are full within `NEAR` of it are limits
  as well: naming one of them, or several, is right.
- A load that reaches `FULL` of that rate is limited by the resource; one that reaches less than
  `FREE` of it by the load itself, since more clients would bring more; between the two both are
  right. An open load that asks for less than `OFFER_MET` of the rate is limited by what it asks
  for; one that asks for more than `OFFER_MISSED` of it by the resource, and between them by both.
- A verdict must be as exact as what was observed allows. Where exporters show the resource, its own
  name is asked for; where the target was not watched, TARGET is right if the path's ceiling was
  measured, and BEYOND_CLIENT if it was not.
- A limit that is named beside the first one must be nearly full, too: within `BESIDE`.
- A card that states no speed cannot be told from the path that it leads to.
- A path on which 1 % of the segments are lost shows that to a client that is watched, and so does a
  card that drops packets.
- A client that stalls for more than a twentieth of the time measures itself: the result must
  not be used, and that is what has to be said.
- UNDETERMINED is neither right nor wrong. It must name the next measurement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

NEAR = 1.10
BESIDE = 1.25
FULL = 0.95
FREE = 0.80
OFFER_MET, OFFER_MISSED = 0.97, 1.03
LOSSY = 0.01
"""Above this share of retransmitted segments the path is the limit."""

Kind = Literal["sweep", "single", "open", "rates"]
Ceiling = Literal["no", "steady", "credit"]
Loss = Literal["none", "quota", "stolen", "neighbour", "memory"]

CLIENT_LIMITS = ("INSTRUMENT", "CLIENT_NIC", "SHARED_HOST")
BEYOND = ("TARGET", "NETWORK_PATH", "BEYOND_CLIENT")
LOAD_LIMITS = frozenset({"NOT_SATURATED", "REQUESTED_RATE", "LATENCY_BOUND"})
STOOD_STILL = frozenset({"INVALID(STALLED)"})

TARGET_WORKS = frozenset({"processors", "core", "disk", "software"})
"""Parts of the target that are slower where it is; a wire and a limit by rule are not."""

OBSERVED_AS: Mapping[str, str] = {
    "client thread": "INSTRUMENT_CPU",
    "client memory": "INSTRUMENT_MEM",
    "client ports": "INSTRUMENT_SOCKETS",
    "client card": "CLIENT_NIC",
    "path": "NETWORK_PATH",
    "processors": "TARGET_CPU",
    "core": "TARGET_CPU",
    "disk": "TARGET_DISK",
    "card": "TARGET_NETWORK",
    "software": "TARGET_SOFTWARE",
    "throttle": "TARGET_THROTTLED",
}
"""The limit that each resource is, by its name in a scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource on the way of a request: full at so many of our requests a second.

    `servers` requests are served at once; `others` clients of somebody else's use it meanwhile.
    """

    name: str
    full_at_per_s: float
    servers: int = 1
    others: int = 0

    @property
    def limit(self) -> str:
        """The limit that this resource is."""
        return OBSERVED_AS[self.name]

    @property
    def is_client(self) -> bool:
        """Whether it is the instrument's own."""
        return self.name.startswith("client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The client's host: its cores, what takes them away, and its card.

    `lost` is the share of the load thread's time that it is ready and has no core, or waits for
    pages of its own. `interrupts` is the share of its work that the kernel does for packets.
    A virtual card may state any speed: `card_untrue` times what it carries. `other_threads` are
    load threads beside the one that is full, by the share of its time that each is busy.
    `card_drops` is the share of packets that the card drops, `card_drops_inside` the share of bytes
    that it received and that never came up to IP. `stands_still` says that a pause is the client's
    own, as of a process that is stopped.
    """

    cores: int = 4
    loss: Loss = "none"
    lost: float = 0.0
    interrupts: float = 0.1
    is_moving: bool = False
    others_busy: float = 0.02
    card_speed: Literal["stated", "absent", "untrue"] = "stated"
    card_untrue: float = 0.3
    card_others: float = 0.0
    card_drops: float = 0.0
    card_drops_inside: float = 0.0
    other_threads: Sequence[float] = ()
    stands_still: bool = False
    is_watched: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Sources watched beside the client: exporters of the target, and ceilings."""

    target: bool = False
    path: Ceiling = "no"
    device: bool = False
    own_benchmark: bool = False

    @property
    def words(self) -> str:
        """These, in words."""
        parts = [f"path {self.path}"] if self.path != "no" else []
        for name in ("target", "device", "own_benchmark"):
            parts += [name.replace("_", " ")] if getattr(self, name) else []
        return "+".join(parts) or "unwatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One drawn scenario. Rates are requests a second, times seconds; `judged` is one of `loads`.

    `paced_per_s` limits a closed load. `refusal` is what the client counts where something refuses
    requests beyond its rate. `slow_first` is how many times slower the first trial is, `contention`
    by how much each further multiple of the fitting load slows the software. `sent_again` is the
    share of TCP segments that were lost on the path. `is_kept` says that clients keep their
    connections, instead of a new one for each request.
    """

    family: str
    combination: str
    seed: int
    resources: Sequence[Resource]
    delay_s: float
    operation: Literal["get", "put"]
    size: int
    kind: Kind
    loads: Sequence[float]
    judged: float
    client: Client
    watched: Watched
    law: str = "exponential"
    clients_max: int = 0
    arrivals: str = "poisson"
    paced_per_s: float | None = None
    seconds: float = 6.0
    warm_up_s: float = 1.0
    noise: float = 0.01
    refusal: str = ""
    pause_every_s: float = 0.0
    pause_share: float = 0.0
    slow_first: float = 1.0
    contention: float = 0.0
    target_hosts: int = 1
    target_cores: int = 8
    is_core_moving: bool = False
    sent_again: float = 0.0
    is_kept: bool = True

    @property
    def is_open(self) -> bool:
        """Whether the load asks for a rate."""
        return self.kind in ("open", "rates")

    @property
    def full_at_per_s(self) -> float:
        """The rate at which the first resource is full."""
        return min(resource.full_at_per_s for resource in self.resources)

    @property
    def alone_s(self) -> float:
        """How long a request takes that is alone."""
        return self.delay_s + sum(
            resource.servers / resource.full_at_per_s for resource in self.resources
        )

    def slowed(self, factor: float) -> "Scenario":
        """Return the scenario with a target that does everything so many times slower."""
        return replace(
            self,
            resources=tuple(
                replace(resource, full_at_per_s=resource.full_at_per_s / factor)
                if resource.name in TARGET_WORKS
                else resource
                for resource in self.resources
            ),
        )

    def resource(self, name: str) -> Resource | None:
        """Return the resource of this name."""
        return next((resource for resource in self.resources if resource.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The limits of the judged load: the right ones, and those that may be named in addition."""

    right: frozenset[str]
    beside: frozenset[str]
    is_client: bool
    """Whether every limit is the instrument's own, so that blame of anything else is the error."""
    is_beyond: bool
    """Whether none of the limits is the instrument's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The report's statement on the judged load."""

    family: str
    combination: str
    seed: int
    limit: str
    also: Sequence[str]
    next: str
    grade: str | None
    rate_per_s: float
    right: Sequence[str]
    is_right: bool
    is_blamed: bool
    why_void: str = ""
    """Why the injected bottleneck was not the limit, so that the expectation does not hold."""
    foreign: float = 0.0
    """The share of the machine's cores that programs of others took meanwhile."""

    @property
    def is_void(self) -> bool:
        """Whether the scenario proves nothing."""
        return bool(self.why_void)

    @property
    def is_undetermined(self) -> bool:
        """Whether no limit was named."""
        return self.limit == "UNDETERMINED"


def truth_of(scenario: Scenario, rate_per_s: float) -> Truth:
    """Return the limits of the judged load, which reached this rate."""
    if scenario.client.stands_still:
        return Truth(right=STOOD_STILL, beside=STOOD_STILL, is_client=True, is_beyond=False)
    full_at = scenario.full_at_per_s
    near = [resource for resource in scenario.resources if resource.full_at_per_s <= NEAR * full_at]
    others = any(resource.others for resource in near)
    by_load, by_resource = False, True
    if scenario.paced_per_s is not None and scenario.paced_per_s < OFFER_MET * full_at:
        by_load, by_resource = rate_per_s >= FREE * scenario.paced_per_s, False
    elif scenario.is_open and others:
        by_load = rate_per_s >= OFFER_MET * scenario.judged
        by_resource = not by_load
    elif scenario.is_open:
        most = min(full_at, scenario.clients_max / scenario.alone_s)
        by_load = scenario.judged < OFFER_MISSED * full_at or most < FULL * full_at
        by_resource = scenario.judged >= OFFER_MET * full_at and most >= FREE * full_at
    elif others:
        # Each client more takes a share from the others', and the resource is full at any load.
        by_load = True
    else:
        by_load = rate_per_s < FULL * full_at
        by_resource = rate_per_s >= FREE * full_at
    right: set[str] = set()
    path = {"NETWORK_PATH"} if scenario.watched.path != "no" else set()
    if by_resource:
        for resource in near:
            right |= _names_of(resource, scenario)
    is_shown = any(_is_shown(resource, scenario) for resource in near if resource.others)
    if by_load and not (is_shown and by_resource):
        right |= LOAD_LIMITS
    beside = set(right) | LOAD_LIMITS
    for resource in scenario.resources:
        if resource.full_at_per_s <= BESIDE * full_at:
            beside |= _names_of(resource, scenario)
            # The path that was measured begins with the client's own card.
            beside |= path if resource.name == "client card" else set()
            if scenario.watched.own_benchmark and resource.name in TARGET_WORKS:
                # A limit of the store also limits the store's own benchmark.
                beside.add("TARGET_SOFTWARE")
    is_of_client = [resource.is_client for resource in near] if by_resource else []
    return Truth(
        right=frozenset(right),
        beside=frozenset(beside),
        is_client=bool(is_of_client) and all(is_of_client) and not by_load,
        is_beyond=not any(is_of_client),
    )


def _is_shown(resource: Resource, scenario: Scenario) -> bool:
    """Tell whether an exporter, or a ceiling measured apart, shows that a resource is full."""
    if resource.name == "disk" and scenario.watched.device and not resource.others:
        return True
    is_seen = {
        "processors": True,
        "card": True,
        "core": not scenario.is_core_moving,
        # A device that serves many requests at once may have room although it always has work.
        "disk": resource.servers == 1,
    }
    return scenario.watched.target and is_seen.get(resource.name, False)


def _names_of(resource: Resource, scenario: Scenario) -> set[str]:
    """Return the limits that name a resource as exactly as the observations allow."""
    watched = scenario.watched
    has_path = watched.path != "no"
    if resource.is_client:
        client = scenario.client
        is_dropping = bool(client.card_drops or client.card_drops_inside)
        is_card_known = client.is_watched and (client.card_speed == "stated" or is_dropping)
        if resource.name == "client card" and not is_card_known:
            return {"NETWORK_PATH"} if has_path else {"NETWORK_PATH", "BEYOND_CLIENT"}
        lag = {"INSTRUMENT_LAG"} if resource.name == "client thread" and scenario.is_open else set()
        return {resource.limit} | lag
    if resource.name == "path":
        is_lossy = scenario.client.is_watched and scenario.sent_again >= LOSSY
        return {"NETWORK_PATH"} if has_path or is_lossy else {"NETWORK_PATH", "BEYOND_CLIENT"}
    names = {resource.limit}
    if resource.name == "throttle" or _is_shown(resource, scenario):
        return names
    if watched.target and has_path:
        # Every monitored resource has headroom, so the software or an unmonitored device is the
        # limit.
        disk = scenario.resource("disk")
        is_disk_known = disk is None or disk.servers == 1 or watched.device
        names |= {"TARGET_SOFTWARE"} if resource.name != "disk" else set()
        names |= set() if is_disk_known else {"TARGET"}
    else:
        names |= {"TARGET" if has_path else "BEYOND_CLIENT"}
    if watched.path == "credit":
        # A path that fell may fall further: that it has room is not known.
        names |= {"BEYOND_CLIENT"}
    names |= {"TARGET_SOFTWARE"} if watched.own_benchmark else set()
    return names | ({"TARGET_CONTENTION"} if scenario.contention else set())


def is_right(truth: Truth, limit: str, also: Sequence[str]) -> bool:
    """Tell whether a verdict names the limit of the load, and nothing that still has room."""
    return limit in truth.right and set(also) <= truth.beside


def is_blamed(truth: Truth, limit: str) -> bool:
    """Tell whether the client's own limit was blamed on others, or another's on the client."""
    if limit in truth.right:
        return False
    if truth.is_client:
        return limit.startswith(BEYOND)
    return truth.is_beyond and limit.startswith(CLIENT_LIMITS)
