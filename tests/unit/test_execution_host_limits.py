"""More connections than the host gives are refused before anything starts, with the sum."""

from dataclasses import replace
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.errors import LoadstoneError
from loadstone.execution.host import limits as host_limits
from loadstone.execution.host.limits import Limits, demands_of, shortages

HOST = Limits(descriptors=20_000, first_port=32_768, last_port=60_999, time_wait=0, tcp_tw_reuse=0)
ROOMY = replace(HOST, descriptors=1_000_000)


def plan(load: str, *, endpoint: str = "http://10.0.0.5:9000", more: str = "") -> Plan:
    text = f"""
name: many
targets:
  store: {{driver: s3, endpoint: "{endpoint}", access_key: a, secret_key: {{env: NONE}}}}
dataset: {{objects: 10_000_000, size: 4KiB}}
load: {load}
phases: [put]
{more}
"""
    return make_plan(parse_campaign(text, environ={}))


def shortages_of(planned: Plan, limits: Limits, *, certain: bool = True) -> list[str]:
    return [
        shortage.text
        for shortage in shortages(demands_of(planned), limits)
        if shortage.is_certain is certain
    ]


def test_valid_values_are_not_mentioned() -> None:
    assert shortages(demands_of(plan("{threads: 250}")), HOST) == []


def test_more_connections_than_descriptors_are_refused_with_the_sum() -> None:
    (text,) = shortages_of(plan("{threads: 19_937}"), HOST)
    assert "19,937 connections" in text
    assert "need 20,001" in text
    assert "20,000" in text
    assert shortages_of(plan("{threads: 19_936}"), HOST) == []


def test_more_connections_to_one_endpoint_than_ports_are_refused() -> None:
    (text,) = shortages_of(plan("{threads: 28_233}"), ROOMY)
    assert "28,233 to one" in text
    assert "28,232 local ports" in text
    assert "32768 to 60999" in text
    over_two = plan("{threads: 28_233}", endpoint="http://10.0.0.{5...6}:9000")
    assert shortages_of(over_two, ROOMY) == []


def test_an_open_load_counts_with_the_most_it_may_have_in_flight() -> None:
    (text,) = shortages_of(plan("{rate: 100, clients_max: 25_000}"), HOST)
    assert "25,000 connections" in text


def per_request(load: str, **more: Any) -> Plan:
    return plan(load, more="connections: per_request", **more)


def test_a_rate_of_new_connections_beyond_the_ports_is_refused() -> None:
    # 28,232 ports that rest a minute each: 470 a second.
    (text,) = shortages_of(per_request("{rate: 480, clients_max: 100}"), HOST)
    assert "480/s × 60 s" in text
    assert "need 28,900" in text
    assert shortages_of(per_request("{rate: 460, clients_max: 100}"), HOST) == []
    (text,) = shortages_of(
        per_request("{rate: 460, clients_max: 100}"), replace(HOST, time_wait=1_000)
    )
    assert "1,000 in TIME_WAIT" in text


def test_reused_ports_allow_more_connections() -> None:
    reusing = replace(HOST, tcp_tw_reuse=1)
    assert shortages_of(per_request("{rate: 5000, clients_max: 100}"), reusing) == []
    own_host = replace(HOST, tcp_tw_reuse=2)
    load = "{rate: 5000, clients_max: 100}"
    assert shortages_of(per_request(load, endpoint="http://127.0.0.1:9000"), own_host) == []
    assert len(shortages_of(per_request(load), own_host)) == 1


def test_ports_that_rest_hold_up_only_where_they_are_not_used_again() -> None:
    crowded = replace(HOST, time_wait=28_300, tcp_tw_reuse=2)
    (text,) = shortages_of(per_request("{threads: 64}"), crowded, certain=False)
    assert "requests/s" not in text
    local = per_request("{threads: 64}", endpoint="http://127.0.0.1:9000")
    (text,) = shortages_of(local, crowded, certain=False)
    assert "28,232 requests/s" in text


def test_an_unknown_rate_is_a_worry_and_no_refusal() -> None:
    planned = per_request("{threads: 64}")
    assert shortages_of(planned, HOST) == []
    (text,) = shortages_of(planned, HOST, certain=False)
    assert "471 requests/s" in text


def test_planning_refuses_on_this_very_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_limits, "read_limits", lambda: HOST)
    with pytest.raises(LoadstoneError, match="need 60,064"):
        host_limits.check(plan("{threads: 60_000}"))
    described = str(host_limits.describe(plan("{threads: 250}")))
    for fact in (" 250 + 64 of 20,000 descriptors", " 250 to one", "28,232 ports"):
        assert fact in described


def test_the_limits_of_this_host_can_be_read() -> None:
    limits = host_limits.read_limits()
    assert limits.descriptors > 0
    assert limits.ports > 0
