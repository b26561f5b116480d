"""The table of resources: the observations of each, and whether they support it as a limit."""

from dataclasses import replace

import pytest

from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.observed import CeilingUse, LoadPoint, Observed
from loadstone.analysis.limits.verdict import NEXT, decide

WATCHED = Observed(
    point=LoadPoint(load=8, rate=1000.0, time_s=0.008),
    higher=LoadPoint(load=16, rate=1005.0, time_s=0.016),
    is_client_watched=True,
    uses={
        "INSTRUMENT_CPU": 0.3, "INSTRUMENT_MEM": None, "INSTRUMENT_SOCKETS": 0.1,
        "CLIENT_NIC": 0.2,
    },
    null_rate=5000.0,
    ceilings={"NETWORK_PATH": CeilingUse(name="path", share=0.3, share_max=0.3)},
    server={"cpu": 0.5, "core": 0.6, "disk": 0.1, "network": 0.2},
)  # fmt: skip


NEAR = CeilingUse(name="device", share=0.85, share_max=0.85)


def says(observed: Observed) -> dict[str, str]:
    return {observation.resource: observation.says for observation in decide(observed).observations}


def test_an_observed_resource_with_room_refutes() -> None:
    says_of = says(WATCHED)
    assert says_of.pop("target's own benchmark") == "not observed"
    assert set(says_of.values()) == {"refutes"}
    values = {
        observation.resource: observation.value for observation in decide(WATCHED).observations
    }
    assert (values["client's own ceiling"], values["target's processors"]) == (0.2, 0.6)


@pytest.mark.parametrize(
    ("server", "ceilings", "expected"),
    [
        ({"cpu": 0.5, "core": 0.6}, {}, (0.6, 0.9)),
        ({"cpu": 0.7, "core": 0.75}, {}, (0.7, 0.8)),
        ({"disk": 0.6}, {"TARGET_DISK": NEAR}, (0.85, 0.9)),
    ],
)
def test_a_resource_stands_with_the_threshold_that_it_is_held_against(
    server: dict[str, float], ceilings: dict[str, CeilingUse], expected: tuple[float, float]
) -> None:
    states = decide(replace(WATCHED, server=server, ceilings=ceilings)).observations
    watched = [
        (state.value, state.threshold) for state in states if state.resource.startswith("target's")
    ]
    assert expected in watched


def test_an_unobserved_resource_never_has_room() -> None:
    decision = decide(Observed(point=WATCHED.point))
    assert {
        observation.says
        for observation in decision.observations
        if observation.resource != "target's refusals"
    } == {"not observed"}
    assert len(decision.not_observed) == len(decision.observations) - 1


@pytest.mark.parametrize(
    ("changes", "resource", "expected"),
    [
        (
            {"flags": {"CLIENT_NIC": [Evidence(metric="card", value=0.95, threshold=0.9)]}},
            "client's cards", "supports",
        ),
        ({"server": {"disk": 0.97}}, "target's disks", "supports"),
        ({"throttled": 0.2}, "target's refusals", "supports"),
        ({"higher": LoadPoint(load=16, rate=1900.0, time_s=0.008)}, "other loads", "supports"),
        (
            {"higher": LoadPoint(load=16, rate=1100.0, time_s=0.014, error=0.1)},
            "other loads", "open",
        ),
        # A ceiling that fell proves no room, and a resource that others saturate is not a limit.
        (
            {"ceilings": {"NETWORK_PATH": replace(
                WATCHED.ceilings["NETWORK_PATH"], is_steady=False)}},
            "path", "open",
        ),
        ({"uses": {"INSTRUMENT_SOCKETS": 0.7}}, "client's ports", "open"),
    ],
)  # fmt: skip
def test_each_resource_says_what_its_facts_do(
    changes: dict[str, object], resource: str, expected: str
) -> None:
    assert says(replace(WATCHED, **changes))[resource] == expected  # type: ignore[arg-type]


def test_a_limit_that_is_not_known_names_the_command_that_would_tell() -> None:
    for missing, (_, command) in NEXT.items():
        assert command.startswith("loadstone "), missing
    assert decide(Observed(point=WATCHED.point)).next[1:] == (
        "loadstone run CAMPAIGN --set 'sweep.threads=[4, 8, 16]'",
    )
