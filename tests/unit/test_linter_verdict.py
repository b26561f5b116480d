"""The limit of a number: the order of the decision, its grade, and steadiness."""

import ast
import re
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

from loadstone._loadgen import Histogram
from loadstone.analysis.accounts import judged_account
from loadstone.analysis.cells import little
from loadstone.analysis.instrument.client_limits import LOAD_THREADS, OCCUPIED, RUN_DELAY
from loadstone.analysis.judgements import trial_findings
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.limits.facts import instrument_share
from loadstone.analysis.limits.interventions import KINDS
from loadstone.analysis.limits.observed import (
    CeilingUse,
    FailedCheck,
    Intervention,
    LoadPoint,
    LoadStep,
    Observed,
    Tried,
)
from loadstone.analysis.limits.verdict import NEXT, Verdict, decide
from loadstone.analysis.measured import reading
from loadstone.analysis.measured.part import Part
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run

ROOT = Path(__file__).parents[2]

HERE = LoadPoint(load=64, rate=1000, time_s=0.064)
FAILED = FailedCheck(name="little", value=0.5, wanted="1", statement="X·R/N = 0.5")
CPU = {"INSTRUMENT_CPU": [Evidence(metric="core 3 busy", value=0.99, threshold=0.95)]}
FLAT = LoadPoint(load=128, rate=1010, time_s=0.127)


IDLE_CLIENT = {"is_client_watched": True}
OVERLOADED = {"offered": 1200.0, "is_offer_met": False}


def path(share: float, **changes: object) -> dict[str, CeilingUse]:
    given = {"name": "path", "share": share, "share_max": share, **changes}
    return {"NETWORK_PATH": CeilingUse(**given)}  # type: ignore[arg-type]


def limit(**given: object) -> str:
    return decide(Observed(point=HERE, **given)).limit  # type: ignore[arg-type]


def test_other_numbers_of_contending_clients_are_those_of_their_phase() -> None:
    decision = decide(Observed(point=HERE, contended_phase="race"))
    assert "phases.race.contend.clients" in decision.next[1]


def test_without_observations_there_is_no_verdict() -> None:
    decision = decide(Observed(point=HERE))
    assert (decision.limit, decision.grade) == ("UNDETERMINED", None)
    assert decision.effect == "none"


def test_loads_with_more_or_less_in_the_page_cache_are_not_compared() -> None:
    def step(low: float | None, high: float | None, rate: float) -> LoadStep:
        return LoadStep(
            low=replace(HERE, cached=low), high=replace(FLAT, rate=rate, time_s=0.2, cached=high)
        )

    for low, high in ((0.0, 0.2), (0.9, 0.1)):
        alike, apart = step(low, low, 2000), step(low, high, 2000)
        assert (alike.is_rise, apart.is_rise, apart.is_steep) == (True, False, False)
        alike, apart = step(low, low, 500), step(low, high, 500)
        assert (alike.is_fall, apart.is_fall) == (True, False)
        alike, apart = step(low, low, 1010), step(low, high, 1010)
        assert (alike.is_saturated, apart.is_flat, apart.is_slower) == (True, False, None)
        assert step(low, None, 2000).is_rise, "what was not seen excludes nothing"
        decision = decide(
            Observed(
                point=replace(HERE, cached=low), higher=replace(FLAT, cached=high), **IDLE_CLIENT
            )
        )
        assert (decision.limit, decision.next[1]) == ("UNDETERMINED", NEXT["cold"][1].format())


def test_reads_from_the_client_s_memory_show_no_limit_of_the_target() -> None:
    def verdict_of(cached: float | None) -> Verdict:
        near = {**path(0.95), "TARGET_DISK": CeilingUse(name="device", share=0.95, share_max=0.95)}
        point, higher = (replace(point, cached=cached) for point in (HERE, FLAT))
        return decide(
            Observed(
                point=point, higher=higher, ceilings=near, server={"network": 0.99}, **IDLE_CLIENT
            )
        )

    for cached in (None, 0.0, 0.5):
        assert verdict_of(cached).limit.startswith(("TARGET", "NETWORK_PATH"))
    verdict = verdict_of(1.0)
    assert (verdict.limit, verdict.next[1]) == ("UNDETERMINED", NEXT["cold"][1].format())
    assert {fact.limit for fact in verdict.facts if fact.bearing == "refutes"} == {
        "NETWORK_PATH", "TARGET_DISK", "TARGET_NETWORK",
    }  # fmt: skip
    states = {
        observation.resource: (observation.says, observation.value)
        for observation in verdict.observations
    }
    assert states["client's page cache"] == ("open", 1.0)
    # A saturated client still counts.
    busy = Observed(point=replace(HERE, cached=1.0), higher=replace(FLAT, cached=1.0), flags=CPU)
    assert decide(busy).limit == "INSTRUMENT_CPU"


def test_the_surest_of_several_limits_is_named_first() -> None:
    everything = {
        "failed_checks": [FAILED],
        "null_rate": 1100.0,
        "flags": CPU,
        "knee": 200.0,
        "higher": LoadPoint(load=128, rate=2000),
        "ceilings": path(0.99),
        "server": {"cpu": 0.97},
        "throttled": 0.01,
    }
    order = []
    for drop in (
        "failed_checks",
        "server",
        "knee",
        "higher",
        "flags null_rate",
        "ceilings",
        "throttled",
    ):
        order.append(limit(**everything))
        for name in drop.split():
            del everything[name]
    assert order == [
        "INVALID(little)",
        "TARGET_CPU",
        "LATENCY_BOUND",
        "NOT_SATURATED",
        "INSTRUMENT_CPU",
        "NETWORK_PATH",
        "TARGET_THROTTLED",
    ]
    assert limit(**everything) == "UNDETERMINED"


def test_losses_support_the_path_and_a_ceiling_with_room_refutes_it() -> None:
    lost = Evidence(metric="TCP segments sent again", value=0.03, threshold=0.01)
    observed = Observed(
        point=LoadPoint(load=8, rate=1000.0, time_s=0.008),
        losses={"NETWORK_PATH": [lost]},
        is_client_watched=True,
    )
    assert (decide(observed).limit, decide(observed).grade) == ("NETWORK_PATH", "C")
    room = CeilingUse(name="path", share=0.3, share_max=0.3)
    assert decide(replace(observed, ceilings={"NETWORK_PATH": room})).limit == "UNDETERMINED"


def test_two_limits_that_stand_are_both_named() -> None:
    decision = decide(Observed(point=HERE, flags=CPU, server={"cpu": 0.99}))
    assert (decision.limit, decision.also) == ("INSTRUMENT_CPU", ("TARGET_CPU",))
    assert decision.effect == "bound"
    # The share of the null target's rate is the same cause: the client.
    decision = decide(Observed(point=HERE, flags=CPU, null_rate=1100.0))
    assert (decision.limit, decision.also, decision.grade) == ("INSTRUMENT_CPU", (), "B")
    # Refused clients retry at once, which keeps them busy.
    decision = decide(Observed(point=HERE, flags=CPU, throttled=0.5))
    assert (decision.limit, decision.also) == ("TARGET_THROTTLED", ())


def test_a_full_resource_outranks_more_load_that_brings_more() -> None:
    more = {"higher": LoadPoint(load=128, rate=1200), "server": {"cpu": 0.99}}
    assert limit(**more) == "TARGET_CPU"
    # A resource that is merely busy had room for the higher rate.
    assert limit(**{**more, "server": {"cpu": 0.85}}) == "NOT_SATURATED"
    assert limit(server={"cpu": 0.85}) == "TARGET_CPU"


def test_one_full_core_of_many_is_seen() -> None:
    flat = {"higher": FLAT, **IDLE_CLIENT, "ceilings": path(0.5)}
    decision = decide(Observed(point=HERE, server={"cpu": 0.125, "core": 1.0}, **flat))  # type: ignore[arg-type]
    assert (decision.limit, decision.grade) == ("TARGET_CPU", "B")
    assert limit(server={"cpu": 0.5, "core": 0.85}, **flat) == "TARGET_SOFTWARE"
    # If all cores are busy, a busier one refutes nothing.
    assert limit(server={"cpu": 0.85, "core": 0.88}, **flat) == "TARGET_CPU"


def test_packets_that_the_target_drops_outweigh_the_mean_use_of_its_card() -> None:
    flat = {"higher": FLAT, **IDLE_CLIENT, "ceilings": path(0.5), "server": {"network": 0.3}}
    lost = Evidence(metric="drops", value=0.05, threshold=0.001)
    assert limit(**flat) == "TARGET_SOFTWARE"
    assert limit(**flat, losses={"TARGET_NETWORK": [lost]}) == "TARGET_NETWORK"


def test_a_load_below_the_rate_of_a_lower_one_shows_no_trend() -> None:
    rise = {"higher": LoadPoint(load=128, rate=2000)}
    assert limit(**rise) == "NOT_SATURATED"
    decision = decide(Observed(point=HERE, best_below=1950.0, **rise))
    assert decision.limit == "UNDETERMINED"
    assert "--set blocks=6" in decision.next[1]


def test_a_ceiling_that_was_passed_or_fell_proves_nothing() -> None:
    flat = {"higher": FLAT, **IDLE_CLIENT}
    assert limit(**flat, ceilings=path(0.5)) == "TARGET"
    # Another load exceeded the ceiling, so it does not hold for this one either.
    assert limit(**flat, ceilings=path(0.95, share_max=1.2)) == "BEYOND_CLIENT"
    # The ceiling fell while it was measured, so its present value is unknown.
    assert limit(**flat, ceilings=path(0.5, is_steady=False)) == "BEYOND_CLIENT"
    assert limit(**flat, ceilings=path(0.95, is_steady=False)) == "NETWORK_PATH"


def test_a_busy_resource_is_named_second_while_more_clients_raise_the_rate() -> None:
    rise = {"higher": LoadPoint(load=128, rate=1400, time_s=0.09), "flags": CPU, "occupied": 0.6}
    decision = decide(Observed(point=HERE, **rise))  # type: ignore[arg-type]
    assert (decision.limit, decision.also) == ("NOT_SATURATED", ("INSTRUMENT_CPU",))
    # It comes first if a quota or other programs kept its threads from running most of the time.
    for waiting, expected in ((0.8, "INSTRUMENT_CPU"), (0.2, "NOT_SATURATED")):
        waited = Evidence("load thread waiting", waiting, RUN_DELAY, source=LOAD_THREADS)
        flags = {"INSTRUMENT_CPU": [*CPU["INSTRUMENT_CPU"], waited]}
        assert limit(**{**rise, "flags": flags, "occupied": 0.95}) == expected
    # At the highest load it is unknown whether more load would help, and a thread that is often
    # idle after a steep rise is not the limit.
    steep = {"lower": LoadPoint(load=32, rate=600, time_s=0.053), "flags": CPU}
    assert limit(**steep, occupied=0.6) == "UNDETERMINED"
    assert limit(**steep, occupied=0.9) == "INSTRUMENT_CPU"
    # Clients that find no free port retry at once, which saturates the CPU.
    ports = {"INSTRUMENT_SOCKETS": [Evidence(metric="no_ports", value="x", threshold="none")]}
    assert limit(flags={**CPU, **ports}, refused_here=0.5) == "INSTRUMENT_SOCKETS"
    assert limit(flags={**CPU, **ports}, refused_here=0.001) == "INSTRUMENT_CPU"


def test_growing_times_bound_the_rate_of_more_load() -> None:
    watched = {**IDLE_CLIENT, "ceilings": path(0.5)}
    # 32 more clients took 32 ms more: the rate stays below 1,000/s.
    assert limit(lower=LoadPoint(load=32, rate=800, time_s=0.032), **watched) == "TARGET"
    # 32 more clients took 12 ms more: up to 2,600/s are possible.
    assert limit(lower=LoadPoint(load=32, rate=800, time_s=0.052), **watched) == "UNDETERMINED"


def test_a_busy_device_is_named_if_nothing_else_is() -> None:
    assert limit(server={"disk": 0.99}) == "TARGET_DISK"
    both = decide(Observed(point=HERE, server={"disk": 0.99, "cpu": 0.97}))
    assert (both.limit, both.also) == ("TARGET_CPU", ())
    # A device that serves many requests at once may have room; only its ceiling shows that.
    flat = {"higher": FLAT, **IDLE_CLIENT}
    decision = decide(Observed(point=HERE, server={"device": 0.99}, ceilings=path(0.5), **flat))  # type: ignore[arg-type]
    assert decision.limit == "TARGET"
    assert "kind: device" in decision.next[1]
    room = {**path(0.5), "TARGET_DISK": CeilingUse(name="device", share=0.3, share_max=0.3)}
    assert limit(server={"device": 0.99}, ceilings=room, **flat) == "TARGET_SOFTWARE"


def test_busy_clients_may_be_too_few_for_a_rate() -> None:
    full = {**OVERLOADED, **IDLE_CLIENT, "in_flight": 1.0, "clients_max": 64, "occupied": 0.1}
    decision = decide(Observed(point=HERE, **full))  # type: ignore[arg-type]
    assert decision.limit == "UNDETERMINED"
    assert "clients_max=128" in decision.next[1]
    # Requests that took longer once all were in flight waited for each other.
    assert limit(**full, grows_slower=True) == "BEYOND_CLIENT"
    met = LoadPoint(load=500, rate=500, time_s=0.02)
    assert limit(**full, met_below=met) == "BEYOND_CLIENT"
    # They took no longer than at an achieved rate: more clients would raise the rate.
    assert limit(**full, met_below=replace(met, time_s=0.063)) == "NOT_SATURATED"
    assert limit(**full, met_below=replace(met, time_s=0.052)) == "UNDETERMINED"
    # Idle clients show that the target is slower than the requested rate.
    assert limit(**{**full, "in_flight": 0.5}) == "BEYOND_CLIENT"


@pytest.mark.parametrize(
    ("kind", "pause_ms", "is_broken"),
    [("open", 800, False), ("open", 100, True), ("closed", 800, True)],
)
def test_long_requests_cut_by_the_window_keep_the_accounting_consistent(
    kind: str, pause_ms: int, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Histogram()
    times.record(20_000_000, 8000)
    times.record(pause_ms * 1_000_000, 2000)
    part = SimpleNamespace(
        record=SimpleNamespace(trial={"load": {"kind": kind, "clients": 40, "clients_max": 40}}),
        good=10_000, errors={}, duration_s=20.0, histograms={"service": times.encode()},
    )  # fmt: skip
    monkeypatch.setattr(little, "little_of", lambda parts: 1.05)
    assert little.has_too_many_in_flight([part]) is is_broken  # type: ignore[list-item]


def test_a_full_core_does_not_limit_threads_that_are_idle() -> None:
    # Other programs saturate the core; the share that the thread used or waited for is known.
    alone = {"flags": CPU, "is_client_watched": True}
    assert limit(**alone, occupied=0.9) == "INSTRUMENT_CPU"
    assert limit(**alone, occupied=0.67) == "UNDETERMINED"
    taken = Evidence(metric="taken away", value=0.9, threshold=OCCUPIED, source=LOAD_THREADS)
    stolen = {"INSTRUMENT_CPU": [*CPU["INSTRUMENT_CPU"], taken]}
    assert limit(flags=stolen, is_client_watched=True, occupied=0.3) == "INSTRUMENT_CPU"
    # More load does not raise the rate: then the core is the limit.
    assert limit(**alone, occupied=0.67, higher=FLAT) == "INSTRUMENT_CPU"


def test_the_first_trial_of_a_target_shows_no_fall() -> None:
    slow = LoadPoint(load=128, rate=500.0, time_s=0.256)
    ours = {**IDLE_CLIENT, "ceilings": path(0.5)}
    assert limit(**ours, higher=slow) == "TARGET_CONTENTION"
    assert limit(**ours, higher=replace(slow, is_first=True)) == "TARGET"


LATE = Evidence(metric="lag p99", value=5e6, threshold="100 µs", unit="ns")


def test_late_requests_count_against_the_client_only_if_its_threads_were_busy() -> None:
    late = {**OVERLOADED, "lag": LATE, "is_client_watched": True}
    assert limit(**late, occupied=0.08) == "BEYOND_CLIENT"
    assert limit(**late, occupied=0.08, ceilings=path(0.3)) == "TARGET"
    assert limit(**late, occupied=0.8) == "INSTRUMENT_LAG"
    assert limit(**late, occupied=0.8, flags=CPU) == "INSTRUMENT_CPU"
    # The threads were not observed: no cause is named.
    assert limit(**late) == "UNDETERMINED"
    # The threads were busy for part of the time, and all clients were in a request.
    some = {**late, "occupied": 0.6, "clients_max": 64}
    assert limit(**some) == "UNDETERMINED"
    assert limit(**some, grows_slower=True) == "BEYOND_CLIENT"


def test_time_outside_requests_alone_names_no_cause() -> None:
    decision = decide(Observed(point=HERE, idle=0.3, is_client_watched=True))
    assert decision.limit == "UNDETERMINED"
    assert decision.next


def test_a_rate_limit_that_was_reached_is_the_limit() -> None:
    asked = {"offered": 1000.0, "is_offer_met": True}
    assert limit(**asked, flags=CPU) == "REQUESTED_RATE"
    assert decide(Observed(point=HERE, flags=CPU, **asked)).effect == "none"  # type: ignore[arg-type]


def test_a_fall_within_the_noise_does_not_count() -> None:
    here = LoadPoint(load=64, rate=1000, time_s=0.064, error=0.01)
    surroundings = {**IDLE_CLIENT, "ceilings": path(0.5)}
    for error, expected in ((0.01, "TARGET_CONTENTION"), (0.06, "TARGET"), (0.2, "UNDETERMINED")):
        higher = LoadPoint(load=128, rate=900, time_s=0.142, error=error)
        assert decide(Observed(point=here, higher=higher, **surroundings)).limit == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [1.03, 1.06, 1.2, 1.6])
@pytest.mark.parametrize("error", [0.0, 0.01, 0.03, 0.1])
def test_a_fall_needs_as_much_as_a_rise(ratio: float, error: float) -> None:
    low = LoadPoint(load=1, rate=1000, error=error)
    high = LoadPoint(load=2, rate=1000 * ratio, error=error)
    up, down = LoadStep(low=low, high=high), LoadStep(low=high, high=low)
    assert up.is_rise is down.is_fall
    assert [up.is_fall, down.is_rise] == [False, False]


@pytest.mark.parametrize("kind", [Observed, LoadPoint, Tried, CeilingUse])
def test_every_field_that_a_verdict_reads_is_set(kind: type) -> None:
    """A field that no code sets would disable its rule."""
    folder = ROOT / "python" / "loadstone" / "analysis" / "limits"
    trees = [ast.parse(path.read_text()) for path in folder.glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    makers = (kind.__name__, "replace")
    set_by_code = {
        word.arg
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in makers
        for word in call.keywords
    }
    assert {field.name for field in fields(kind)} <= set_by_code


def test_every_intervention_that_a_verdict_knows_exists() -> None:
    made = [*KINDS.values(), "second client", "more hosts"]
    assert sorted(made) == sorted(get_args(Intervention))


def test_unobserved_resources_are_named() -> None:
    decision = decide(Observed(point=HERE))
    assert {"client's processors", "path", "target's disks", "other loads"} < {
        *decision.not_observed
    }
    decision = decide(Observed(point=HERE, higher=FLAT, ceilings=path(0.3), **IDLE_CLIENT))  # type: ignore[arg-type]
    assert decision.limit == "TARGET"
    assert not {"path", "other loads"} & {*decision.not_observed}


@pytest.mark.parametrize(
    ("null_rate", "expected"), [(1200.0, "INSTRUMENT_LIMITED"), (1300.0, "UNDETERMINED")]
)
def test_near_the_rate_of_the_null_target_the_client_is_the_limit(
    null_rate: float, expected: str
) -> None:
    decision = decide(Observed(point=HERE, null_rate=null_rate))
    assert decision.limit == expected
    assert (decision.effect == "bound") == (expected == "INSTRUMENT_LIMITED")
    assert instrument_share(Observed(point=HERE, null_rate=null_rate)) == 1000 / null_rate


@pytest.mark.parametrize(
    ("higher", "expected"),
    [
        (LoadPoint(load=128, rate=1051), "NOT_SATURATED"),
        (LoadPoint(load=128, rate=1050, time_s=0.122), "UNDETERMINED"),
        # Twice the clients change neither the rate nor the time, so they are not all in requests;
        # no observation shows the reason.
        (LoadPoint(load=128, rate=1000, time_s=0.064), "UNDETERMINED"),
        (LoadPoint(load=128, rate=900, time_s=0.142), "UNDETERMINED"),
    ],
)
def test_the_shape_of_the_curve_decides(higher: LoadPoint, expected: str) -> None:
    assert limit(higher=higher) == expected


def test_a_saturated_limit_is_named_only_as_precisely_as_observed() -> None:
    assert limit(higher=FLAT) == "UNDETERMINED"
    observed = {"higher": FLAT, "is_client_watched": True}
    assert limit(**observed) == "BEYOND_CLIENT"
    assert limit(**observed, ceilings=path(0.5)) == "TARGET"
    assert limit(**observed, ceilings=path(0.95)) == "NETWORK_PATH"
    falling = {**observed, "higher": LoadPoint(load=128, rate=900, time_s=0.142)}
    assert limit(**falling) == "BEYOND_CLIENT"
    assert limit(**falling, ceilings=path(0.5)) == "TARGET_CONTENTION"
    # At the highest load, the previous load decides.
    assert limit(lower=LoadPoint(load=32, rate=990, time_s=0.032), is_client_watched=True) == (
        "BEYOND_CLIENT"
    )
    assert limit(lower=LoadPoint(load=32, rate=600, time_s=0.053), is_client_watched=True) == (
        "UNDETERMINED"
    )


def test_refusals_of_a_target_are_named_before_the_client() -> None:
    assert limit(throttled=0.2, flags=CPU) == "TARGET_THROTTLED"
    assert limit(throttled=0.01, flags=CPU) == "INSTRUMENT_CPU"


def test_an_achieved_open_load_shows_no_limit() -> None:
    assert limit(offered=1000.0, is_offer_met=True) == "REQUESTED_RATE"
    assert limit(offered=1100.0, is_offer_met=False) == "UNDETERMINED"


def test_half_the_size_proves_that_bytes_were_the_limit() -> None:
    card = {"CLIENT_NIC": [Evidence(metric="sent", value=0.97, threshold=0.9)]}
    sure = Tried(kind="half the size", ratio=1.9, low=1.8)
    alone = Tried(kind="half the size", ratio=1.9, low=None)
    assert decide(Observed(point=HERE, flags=card, tried=[sure])).grade == "A"
    assert decide(Observed(point=HERE, flags=card, tried=[alone])).grade == "C"
    decision = decide(Observed(point=HERE, tried=[sure], ceilings=path(0.95)))
    assert (decision.limit, decision.grade) == ("NETWORK_PATH", "A")


def test_half_the_verification_shows_a_limit_of_the_client() -> None:
    brings = Tried(kind="half the verification", ratio=1.2, low=1.1)
    assert limit(tried=[brings]) == "INSTRUMENT_CPU"
    assert limit(tried=[Tried(kind="half the verification", ratio=1.2, low=0.9)]) == "UNDETERMINED"


def test_the_same_load_from_other_hosts_shows_a_limit_of_the_clients() -> None:
    more = Tried(kind="more hosts", ratio=1.9, low=1.8, high=2.0, hosts=(1, 2))
    decision = decide(Observed(point=HERE, tried=[more]))
    assert (decision.limit, decision.grade) == ("INSTRUMENT_HOSTS", "A")
    assert limit(tried=[replace(more, low=None)]) == "UNDETERMINED"
    fewer = Tried(kind="half the hosts", ratio=0.5, low=0.48, high=0.52, hosts=(2, 1))
    decision = decide(Observed(point=HERE, tried=[fewer]))
    assert (decision.limit, decision.grade) == ("INSTRUMENT_HOSTS", "A")
    # A loss of less than the share of the hosts, or without an interval, decides nothing.
    assert limit(tried=[replace(fewer, ratio=0.7, high=0.72)]) == "UNDETERMINED"
    assert limit(tried=[replace(fewer, high=None)]) == "UNDETERMINED"
    # A host that adds its own load may have used free capacity, which proves nothing.
    assert limit(tried=[replace(more, kind="second client")]) == "UNDETERMINED"


def test_half_the_clients_replace_a_sweep() -> None:
    as_many = Tried(
        kind="half the clients",
        ratio=0.99,
        low=0.97,
        point=LoadPoint(load=32, rate=990, time_s=0.032),
    )
    decision = decide(Observed(point=HERE, tried=[as_many], is_client_watched=True))
    assert (decision.limit, decision.grade) == ("BEYOND_CLIENT", "B")
    half = Tried(
        kind="half the clients",
        ratio=0.51,
        low=0.5,
        point=LoadPoint(load=32, rate=510, time_s=0.063),
    )
    decision = decide(Observed(point=HERE, tried=[half], is_client_watched=True))
    assert (decision.limit, decision.grade) == ("NOT_SATURATED", "A")


def test_a_stalled_client_explains_inconsistent_accounting() -> None:
    check = FailedCheck(name="LITTLE", value=None, wanted="1", statement="in doubt")
    assert limit(failed_checks=[check]) == "INVALID(LITTLE)"
    assert limit(failed_checks=[check], flags=CPU) == "INSTRUMENT_CPU"


def test_a_rise_within_the_noise_of_its_seconds_does_not_count() -> None:
    here = LoadPoint(load=64, rate=1000, time_s=0.064, error=0.05)
    for error, expected in ((0.10, "UNDETERMINED"), (0.01, "NOT_SATURATED")):
        higher = LoadPoint(load=128, rate=1150, time_s=0.111, error=error)
        observed = Observed(point=here, higher=higher, is_client_watched=True)
        assert decide(observed).limit == expected


def test_a_load_below_half_of_the_knee_is_too_small() -> None:
    assert limit(knee=129.0) == "LATENCY_BOUND"
    assert limit(knee=127.0) == "UNDETERMINED"


def test_a_saturated_target_without_a_busy_resource_is_limited_by_its_software() -> None:
    given = {"server": {"cpu": 0.5, "disk": 0.3}, "higher": FLAT, "is_client_watched": True}
    # The path may be the limit as long as its ceiling was not measured.
    assert limit(**given) == "BEYOND_CLIENT"
    clear = {**given, "ceilings": path(0.05)}
    assert limit(**{**clear, "higher": None}) == "UNDETERMINED"
    decision = decide(Observed(point=HERE, **clear))  # type: ignore[arg-type]
    assert (decision.limit, decision.grade) == ("TARGET_SOFTWARE", "B")
    assert {0.5, 0.3} <= {evidence.value for evidence in decision.evidence}


def test_grades_go_from_one_counter_over_two_to_an_intervention() -> None:
    def grade(**given: object) -> str | None:
        return decide(Observed(point=HERE, **given)).grade  # type: ignore[arg-type]

    assert grade(flags=CPU) == "C"
    # One counter in two trials is one counter, and a counter of another label proves nothing.
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


def test_a_load_at_which_nothing_was_answered_has_no_ratio_to_the_next() -> None:
    nothing, more = LoadPoint(load=64, rate=0.0), LoadPoint(load=128, rate=10.0)
    assert decide(Observed(point=nothing, higher=more)).limit == "UNDETERMINED"
    assert decide(Observed(point=nothing, higher=nothing, is_client_watched=True)).grade is None


def judged(run: Run) -> tuple[Finding, ...]:
    return judge_measured(run, reading.read_measured(run)).findings


def test_a_run_becomes_an_account_with_the_rates_its_trials_reached(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_rounds(tmp_path / "run"))
    account = judged_account.read_account(run)
    rate_of = {
        (measurement.target, measurement.operation, measurement.round): measurement.value
        for measurement in account.of("requests_per_s")
    }
    expected = {
        (target, operation, index + 1): pytest.approx(rate)
        for (target, operation), rates in synthetic_run.ROUNDS.items()
        for index, rate in enumerate(rates)
    }
    assert rate_of == expected
    assert account.disclosure.percentiles == "merged histograms"
    assert account.disclosure.order == "sequential"
    assert account.disclosure.errors is not None
    assert account.disclosure.errors.startswith("180 of ")
    assert {measurement.repetition for measurement in account.measurements} == {1}


def test_blocks_of_a_sweep_are_repetitions_of_one_case(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_sweep(tmp_path / "run", blocks=3))
    account = judged_account.read_account(run)
    at_eight = [
        measurement for measurement in account.of("requests_per_s") if measurement.threads == 8
    ]
    assert [measurement.block for measurement in at_eight] == [1, 2, 3]
    assert [measurement.repetition for measurement in at_eight] == [1, 2, 3]
    assert account.planned_threads == (1, 4, 8, 12, 16, 20, 24)
    (saturation,) = [finding for finding in judged(run) if finding.rule == "saturation"]
    assert saturation.evidence[0].value == 12
    assert "intervals" in saturation.statement


def test_a_run_says_what_limited_its_results(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_rounds(tmp_path / "run"))
    verdicts = [finding.statement for finding in judged(run) if finding.rule == "verdict"]
    assert any(re.match(r"throttled \(grade C\) .*\b1 of 12\b", words) for words in verdicts)
    assert any(re.match(r"not known .*\b11\b.*\b12\b", words) for words in verdicts)


def test_short_trials_are_said_to_be_too_short_for_a_claim(tmp_path: Path) -> None:
    rules = {
        finding.rule for finding in judged(read_run(synthetic_run.write_rounds(tmp_path / "run")))
    }
    assert "too-short-for-steadiness" in rules
    assert "not-steady" not in rules


def test_a_trial_that_decays_is_not_steady(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_sweep(tmp_path / "run", blocks=1))
    part = reading.read_measured(run).parts[0]
    decaying = [
        Part(**{name: getattr(part, name) for name in part.__slots__} | {"rates": rates})
        for rates in (np.linspace(1000, 400, 400), np.full(400, 1000.0))
    ]
    account = judged_account.read_account(run)
    run_view = trial_findings.RunView(account=account, parts=decaying, flags={}, rounds=())
    unsteady = list(trial_findings.find_unsteady(run_view))
    assert [finding.rule for finding in unsteady] == ["not-steady"]
    assert "1 of 2 stretches" in unsteady[0].statement


@pytest.mark.parametrize(
    ("load", "loads"), [(1.0, "[1, 2]"), (640_000.0, "[320000, 640000, 1280000]")]
)
def test_the_loads_to_measure_next_are_whole_and_differ(load: float, loads: str) -> None:
    decision = decide(Observed(point=LoadPoint(load=load, rate=1000)))
    assert f"sweep.threads={loads}" in decision.next[1]
