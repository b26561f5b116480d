"""Messages between controller and agents, and data that is no message."""

import json
import queue
from types import SimpleNamespace
from typing import Any

import pytest

from loadstone.campaign.schema.hosts import Hosts
from loadstone.documents.python_types import Live
from loadstone.errors import HostError
from loadstone.hosts import agent, messages
from loadstone.hosts.carrier import HostMessage
from loadstone.hosts.session import HostSession
from loadstone.hosts.stream import pack, unpack
from loadstone.results.record import INTERVAL_SCHEMA, PROBE_SCHEMA
from tests.unit.test_hosts import standing

SUMMARY: dict[str, Any] = {
    "state": "finished", "reason": None, "requests": 10, "failed": 1, "bytes": 100,
    "ended_unix_ns": 10**18, "thread_cpu_ns": [7],
    "iterations": [{"iteration": 1, "start_ns": 10, "measure_start_ns": 10, "measure_end_ns": 90,
                    "end_ns": 100}],
}  # fmt: skip
LIVE: Live = {
    "elapsed_ns": 10, "iteration": 1, "iterations": 1, "stage": "measure", "requests": 100,
    "failed": 0, "unwritten": 0, "lost_races": 0, "bytes": 0, "requests_last_s": 3,
    "bytes_last_s": 0, "p50_ns": 0, "p99_ns": 0, "progress": 0.5,
}  # fmt: skip


def summary_text(**values: Any) -> str:
    return json.dumps(SUMMARY | values)


def rows(**values: Any) -> bytes:
    """Return a packed row of an interval, as the agent of host "a" tells it but for `values`."""
    row = {
        **dict.fromkeys(INTERVAL_SCHEMA.names), "agent": "a", "outcome": "ok",
        "second": 1, "requests": 1, "objects": 1, "bytes": 1,
    }  # fmt: skip
    return INTERVAL_SCHEMA.of_rows([row | values]).pack()


def reading(**values: Any) -> bytes:
    row = {**dict.fromkeys(PROBE_SCHEMA.names), "host": "a", "time_unix_ns": 10**18}
    return PROBE_SCHEMA.of_rows([row | values]).pack()


@pytest.mark.parametrize(
    ("word", "body", "reason"),
    [
        ("figures", {}, "figures.rows: Field required"),
        ("figures", {"rows": b"no table", "live": "{}"}, "figures.rows"),
        ("figures", {"rows": None, "live": "[" * 100_000}, "nested"),
        ("figures", {"rows": None, "live": '{"requests": "many"}'}, "figures.live"),
        ("probes", {"rows": INTERVAL_SCHEMA.of_rows([]).pack()}, "other columns"),
        ("intent", {"names": 3}, "intent.names"),
        ("end", {"summary": '{"state": "finished"}'}, "without bytes"),
        ("end", {"summary": "7"}, "end.summary"),
        ("end", {"summary": summary_text(state="well")}, '"well"'),
        ("end", {"summary": summary_text(iterations=[{}])}, "without end_ns"),
        ("hello", {"calibration": '{"age_s": "old"}'}, "hello.loadstone"),
        ("nonsense", {}, "nonsense"),
        ("figures", {"rows": rows(requests=None), "live": json.dumps(LIVE)}, "requests"),
        ("figures", {"rows": rows(bytes=-1), "live": json.dumps(LIVE)}, "bytes"),
        ("figures", {"rows": rows(response=b"x"), "live": json.dumps(LIVE)}, "histogram"),
        ("figures", {"rows": rows(agent="b"), "live": json.dumps(LIVE)}, "hosts: b"),
        ("figures", {"rows": rows(agent=None), "live": json.dumps(LIVE)}, "hosts: None"),
        ("probes", {"rows": reading(time_unix_ns=None)}, "time_unix_ns"),
        ("probes", {"rows": reading(time_unix_ns=-(2**63))}, "time_unix_ns"),
        ("probes", {"rows": reading(host="b")}, "hosts: b"),
        ("want", {"sha256": "0", "offset": -1}, "want.offset"),
    ],
)
def test_a_host_with_an_invalid_message_is_lost_and_the_others_continue(
    word: str, body: dict[str, Any], reason: str
) -> None:
    trial = standing(["a", "b"])
    trial._carrier.inbox.put(HostMessage(host="a", name=word, body={"attempt": 1, **body}))
    trial._turn()
    a, b = trial._hosts.values()
    assert (a.state, b.state) == ("lost", "loading")
    assert reason in a.reason
    assert len(a.reason) < 200


def test_a_late_message_of_an_earlier_attempt_loses_no_host() -> None:
    trial = standing(["a"])
    for attempt, state in ((0, "loading"), (1, "lost")):
        body = {"attempt": attempt, "rows": b"no table", "live": "{}"}
        trial._carrier.inbox.put(HostMessage(host="a", name="figures", body=body))
        trial._turn()
        assert trial._hosts["a"].state == state


def test_a_message_comes_as_it_was_sent() -> None:
    summary_sent: Any = SUMMARY
    sent: messages.FromAgent | messages.FromController
    for sent in (
        messages.Figures(attempt=1, rows=None, live=LIVE),
        messages.End(attempt=1, summary=summary_sent, left=None, clock_step_ns=0, absent_probes={}),
    ):
        assert messages.read(*unpack(pack(messages.word(type(sent)), messages.body(sent)))) == sent
    for sent in (
        messages.Begin(attempt=1, turn=2, doubts=b"1234", lost=[0]),
        messages.Trial(attempt=1, trial="{}", secrets={"variables": {"A": "b"}, "files": {}}),
    ):
        packed = pack(messages.word(type(sent)), messages.body(sent))
        assert messages.read_asked(*unpack(packed)) == sent


def joining(*heard: HostMessage) -> HostSession:
    """Return a session of two hosts, whose agents say this while it waits for them."""
    session = HostSession(Hosts.model_validate({"launch": "local", "count": 2}), "0" * 32, print)
    carrier: Any = SimpleNamespace(inbox=queue.Queue(), invite=lambda name, **more: name)
    launcher: Any = SimpleNamespace(start=lambda invitations: [], ended=dict, news=list)
    session._carrier, session._launcher = carrier, launcher
    for message in heard:
        carrier.inbox.put(message)
    return session


def test_an_agent_that_waits_for_others_is_heard_until_all_have_said_what_they_are() -> None:
    hello = agent.describe_host()
    messages_sent = [("local1", hello), ("local1", messages.Alive()), ("local2", hello)]
    session = joining(
        *(HostMessage(host=host, name=messages.word(type(message)), body=messages.body(message))
          for host, message in messages_sent)
    )  # fmt: skip
    session._launch()
    assert [document["name"] for document in session.documents()] == ["local1", "local2"]
    assert all(document == hello.document(document["name"]) for document in session.documents())


def test_an_agent_that_does_not_say_what_its_host_is_ends_the_launch() -> None:
    session = joining(HostMessage(host="local2", name="hello", body={"cores": 4}))
    with pytest.raises(HostError, match=r"host local2: .*hello\.loadstone"):
        session._launch()
