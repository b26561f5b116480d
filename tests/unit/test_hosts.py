"""A load of several hosts: divided, and added up, so that together they are the whole."""

import asyncio
import contextlib
import queue
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.analysis.judgements import host_findings
from loadstone.analysis.judgements.labels import TRIAL_LABELS
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.schema.hosts import SshName
from loadstone.documents.python_types import Live
from loadstone.errors import CampaignError, TargetError
from loadstone.hosts import carrier, messages
from loadstone.hosts.carrier import Carrier, HostMessage
from loadstone.hosts.clock import Clock, Exchange, estimate
from loadstone.hosts.contact import Contact, contact_document, refusal
from loadstone.hosts.division import divide, signed_by
from loadstone.hosts.executor import OnHosts, _TrialOnHosts
from loadstone.hosts.merging import LiveFigures, merge_iterations, merge_summaries
from loadstone.results.record import Record
from loadstone.steady_clock import SteadyClock

CAMPAIGN = """\
name: many
targets: {t: {driver: "null"}}
hosts: {launch: local, count: 4}
dataset: {objects: 1000, size: 4KiB}
load: {threads: 3}
phases: [put, {op: get, duration: 1s}]
"""


def planned(text: str, *changes: str) -> list[dict[str, Any]]:
    return make_plan(parse_campaign(text, changes, environ={})).documents()


def mistakes(*changes: str) -> str:
    with pytest.raises(CampaignError) as error:
        parse_campaign(CAMPAIGN, changes, environ={})
    return str(error.value)


def test_a_document_holds_the_load_of_all_hosts() -> None:
    put, get, *_ = planned(CAMPAIGN)
    assert put["hosts"] == get["hosts"] == 4
    assert put["load"] == {"kind": "closed", "clients": 12}
    assert put["case"]["parameters"]["threads"] == 3
    assert put["stop"]["requests"] == 1000


def test_the_whole_load_is_divided_where_the_campaign_says_so() -> None:
    put, *_ = planned(CAMPAIGN, "load={threads: 10, per: total}")
    assert put["load"]["clients"] == 10
    shares = divide(put, ["a", "b", "c", "d"]).shares
    assert [share["load"]["clients"] for share in shares.values()] == [3, 3, 2, 2]


def test_agents_called_by_profiles_sign_with_their_keys() -> None:
    store = '{driver: s3, endpoint: "http://h:1"}'
    text = CAMPAIGN.replace('{driver: "null"}', store).replace("count: 4", "profiles: [gold, iron]")
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    put, *_ = make_plan(parse_campaign(text, environ=keys)).documents()
    assert put["hosts"] == 2
    shares = divide(put, ["gold", "iron"]).shares
    settings = {
        agent: signed_by(share, agent, ("gold", "iron"))["target"]["settings"]
        for agent, share in shares.items()
    }
    profiles = {agent: of_agent["profile"] for agent, of_agent in settings.items()}
    assert profiles == {"gold": "gold", "iron": "iron"}
    assert not {"access_key", "secret_key", "session_token"} & settings["iron"].keys()
    assert signed_by(put, "local", ()) is put


@pytest.mark.parametrize(
    ("hosts", "target", "key"),
    [
        ("{launch: local, profiles: [a], count: 1}", 's3, endpoint: "http://h:1"', "profiles"),
        ("{launch: ssh, profiles: [a]}", 's3, endpoint: "http://h:1"', "profiles"),
        ("{launch: local, profiles: [a, a]}", 's3, endpoint: "http://h:1"', "names"),
        ("{launch: local, profiles: [a]}", '"null"', "profiles"),
    ],
)
def test_profiles_stand_alone(hosts: str, target: str, key: str) -> None:
    text = CAMPAIGN.replace("{launch: local, count: 4}", hosts).replace('"null"', target)
    with pytest.raises(CampaignError, match=key):
        parse_campaign(text, environ={})


def test_a_rate_is_of_each_host_unless_the_campaign_says_otherwise() -> None:
    each, *_ = planned(CAMPAIGN, "load={rate: 100/s, clients_max: 7}")
    assert (each["load"]["rate_per_s"], each["load"]["clients_max"]) == (400, 28)
    total, *_ = planned(CAMPAIGN, "load={rate: 100/s, clients_max: 7, per: total}")
    assert (total["load"]["rate_per_s"], total["load"]["clients_max"]) == (100, 7)


def test_the_number_of_hosts_is_swept_like_any_parameter() -> None:
    documents = planned(CAMPAIGN, "sweep={hosts: [1, 2, 4]}")
    measured = [
        document for document in documents if document["measured"] and document["phase"] == "put"
    ]
    clients_of = {
        document["case"]["parameters"]["hosts"]: document["load"]["clients"]
        for document in measured
    }
    assert clients_of == {1: 3, 2: 6, 4: 12}


def test_a_campaign_without_hosts_is_planned_as_ever() -> None:
    documents = planned(CAMPAIGN.replace("hosts: {launch: local, count: 4}\n", ""))
    assert all("hosts" not in document for document in documents)
    assert documents[0]["load"]["clients"] == 3


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("hosts={launch: ssh, names: [a, a], listen: 10.0.0.1}", '"a" twice'),
        ('hosts={launch: ssh, names: ["c{1...3}", c2], listen: 10.0.0.1}', '"c2" twice'),
        ("hosts={launch: join, names: [a]}", "hosts.listen: found nothing"),
        ("hosts={launch: ssh, count: 3, listen: 10.0.0.1}", "hosts.count"),
        ("hosts={launch: local}", "hosts: found"),
        ("hosts={launch: local, count: 2, names: [a]}", "hosts.count: "),
        ("hosts={launch: local, count: 2, listen: 0.0.0.0}", 'hosts.listen: found "0.0.0.0"'),
        ('hosts={launch: local, count: 2, listen: "[::]:7000"}', 'hosts.listen: found "[::]:7000"'),
        ("hosts={launch: local, count: 2, listen: here}", 'hosts.listen: found "here"'),
        ('hosts={launch: ssh, names: ["a b"], listen: 10.0.0.1}', "hosts.names.0: "),
        ('hosts={launch: ssh, names: ["-oProxyCommand=x"]}', "hosts.names.0: "),
        ('hosts={launch: ssh, names: ["u@2001:db8::7]:22"]}', "hosts.names.0: "),
        ("hosts={launch: teleport, count: 2}", 'or "dask"'),
        ("hosts={launch: dask, count: 2, listen: 10.0.0.1}", "hosts.scheduler: found nothing"),
        ("hosts={launch: htcondor, names: [a], listen: 10.0.0.1}", "hosts.names"),
        ("hosts={launch: local, count: 2, options: [-v]}", "hosts.options: "),
        ("hosts={launch: srun, count: 2, listen: 10.0.0.1, job: {a: 1}}", "or htcondor"),
        ("hosts={launch: local, count: 2, secrets: shout}", "hosts.secrets"),
        ("load={threads: 1, hosts: 5}", "load.hosts: found 5 "),
        ("sweep={hosts: [2, 9]}", "found 9 hosts"),
    ],
)
def test_impossible_values_are_refused_with_their_place(change: str, fact: str) -> None:
    assert fact in mistakes(change)


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("client1", None, "client1", None),
        ("me@client1:2222", "me", "client1", 2222),
        ("::1", None, "::1", None),
        ("2001:db8::7", None, "2001:db8::7", None),
        ("me@2001:db8::7", "me", "2001:db8::7", None),
        ("[2001:db8::7]:2222", None, "2001:db8::7", 2222),
        ("me@[fe80::7%eth0]:22", "me", "fe80::7%eth0", 22),
        ("10.0.0.1:22", None, "10.0.0.1", 22),
    ],
)
def test_a_host_s_name_may_have_a_user_and_a_port(
    text: str, user: str | None, host: str, port: int | None
) -> None:
    hosts = parse_campaign(
        CAMPAIGN, [f'hosts={{launch: ssh, names: ["{text}"]}}'], environ={}
    ).hosts
    assert hosts is not None
    assert hosts.all_names == (text,)
    assert SshName.parse(text) == SshName(host=host, user=user, port=port)


def test_the_time_to_join_grows_with_the_hosts() -> None:
    few, many = (
        parse_campaign(CAMPAIGN, [f"hosts.count={count}"], environ={}).hosts for count in (1, 100)
    )
    assert few is not None
    assert many is not None
    # A hundred agents on two cores took 52 s.
    assert many.join_s >= 2 * 52
    assert few.join_s < 90


def test_hosts_of_a_load_need_a_campaign_that_names_them() -> None:
    text = CAMPAIGN.replace("hosts: {launch: local, count: 4}\n", "")
    with pytest.raises(CampaignError, match="without hosts"):
        parse_campaign(text, ["load.hosts=2"], environ={})


@given(hosts=st.integers(1, 50), clients=st.integers(1, 200), requests=st.integers(1, 500))
def test_shares_add_up_to_the_whole_and_none_is_empty(
    hosts: int, clients: int, requests: int
) -> None:
    document = whole(clients=clients, requests=requests, hosts=hosts)
    division = divide(document, [f"h{number}" for number in range(hosts)])
    shares = list(division.shares.values())
    assert sum(share["load"]["clients"] for share in shares) == clients
    assert all(share["load"]["clients"] for share in shares)
    assert len(shares) == min(hosts, clients, requests)
    assert len(shares) + len(division.idle) == hosts
    if len(shares) > 1:
        portions = [share["portion"] for share in shares]
        assert portions == [{"index": i, "of": len(shares)} for i in range(len(shares))]
    assert all(share["stop"] == document["stop"] for share in shares)
    assert [share["agent"] for share in shares] == list(division.shares)


def test_a_dataset_is_removed_by_one_host() -> None:
    division = divide(whole(phase="clean-up", hosts=3), ["a", "b", "c"])
    assert list(division.shares) == ["a"]
    assert "portion" not in division.shares["a"]


def test_failures_are_counted_over_all_hosts() -> None:
    document = whole(hosts=2) | {"on_error": {"action": "stop", "limit": 5}}
    shares = divide(document, ["a", "b"]).shares
    assert all(
        share["on_error"] == {"action": "continue", "limit": None} for share in shares.values()
    )


def whole(
    *, clients: int = 8, requests: int = 100, hosts: int = 2, phase: str = "put"
) -> dict[str, Any]:
    return {
        "id": "0001", "phase": phase, "hosts": hosts,
        "load": {"kind": "closed", "clients": clients}, "stop": {"requests": requests},
    }  # fmt: skip


def summary(**values: Any) -> dict[str, Any]:
    times = {"iteration": 1, "start_ns": 10, "measure_start_ns": 10, "measure_end_ns": 90,
             "end_ns": 100, "first_done_ns": 80, "in_flight_ns": 5}  # fmt: skip
    return {
        "state": "finished", "reason": None, "requests": 10, "failed": 1, "bytes": 100,
        "iterations": [times], "thread_cpu_ns": [7], "mismatches": {"corrupt": 1},
        "buckets_created": ["b"], "objects_unwritten": [[5, 6]], "clients_requests_min": 2,
        "clients_requests_max": 6, "hiccup": None, "error_examples": {"timeout": "late"},
    } | values  # fmt: skip


def test_summaries_of_hosts_become_one() -> None:
    first = summary()
    other = summary(
        state="interrupted", reason="Ctrl-C", requests=30, thread_cpu_ns=[8, 9],
        mismatches={"corrupt": 2}, objects_unwritten=[[1, 2]], clients_requests_max=9,
        error_examples={"http_500": "oops"},
    )  # fmt: skip
    merged = merge_summaries([first, other])
    assert merged == merge_summaries([other, first]) | {"thread_cpu_ns": [7, 8, 9]}
    assert (merged["requests"], merged["failed"], merged["bytes"]) == (40, 2, 200)
    assert (merged["state"], merged["reason"]) == ("interrupted", "Ctrl-C")
    assert merged["mismatches"] == {"corrupt": 3}
    assert merged["objects_unwritten"] == [[1, 2], [5, 6]]
    assert merged["buckets_created"] == ["b"]
    assert merged["error_examples"] == {"timeout": "late", "http_500": "oops"}
    assert (merged["clients_requests_min"], merged["clients_requests_max"]) == (2, 9)


def test_an_iteration_lasts_from_its_first_host_to_its_last() -> None:
    edge = {"requests": -1.5, "objects": -1.5, "bytes": -150.0, "failed": 0.0}
    first = {"iteration": 1, "start_ns": 5, "measure_start_ns": 6, "measure_end_ns": 50,
             "end_ns": 60, "first_done_ns": None, "in_flight_ns": 1, "first_answer_ns": None,
             "edges": {"get": edge}}  # fmt: skip
    second = first | {"start_ns": 2, "measure_end_ns": 70, "end_ns": 71, "first_done_ns": 40,
                      "first_answer_ns": 9, "edges": {"get": edge, "put": edge}}  # fmt: skip
    (merged,) = merge_iterations([[first], [second]])
    both = {"requests": -3.0, "objects": -3.0, "bytes": -300.0, "failed": 0.0}
    assert merged == {"iteration": 1, "start_ns": 2, "measure_start_ns": 6, "measure_end_ns": 70,
                      "end_ns": 71, "first_done_ns": 40, "in_flight_ns": 2, "first_answer_ns": 9,
                      "edges": {"get": both, "put": edge}}  # fmt: skip


def test_live_figures_keep_what_lost_hosts_had_done() -> None:
    figures = LiveFigures()
    assert figures.all() is None
    for host, rate in (("a", 30), ("b", 20), ("c", 10)):
        figures.note(host, live(rate), None)
    figures.lose("c")
    all_figures = figures.all()
    assert all_figures is not None
    assert all_figures["requests_last_s"] == 50
    assert all_figures["requests"] == 300
    figures.lose("a")
    figures.lose("b")
    assert figures.all() is None


def test_live_figures_count_no_rate_of_hosts_that_have_ended_or_say_nothing() -> None:
    now_s = 0.0
    figures = LiveFigures(lambda: now_s)
    for host, rate in (("a", 30), ("b", 20), ("c", 10)):
        figures.note(host, live(rate), None)
    figures.end("a")
    assert rate_of(figures) == 30
    now_s = 10.0
    figures.note("c", live(10), None)
    assert rate_of(figures) == 10
    now_s = 20.0
    assert rate_of(figures) == 0


def rate_of(figures: LiveFigures) -> int:
    all_figures = figures.all()
    assert all_figures is not None
    assert all_figures["requests"] == 300
    return all_figures["requests_last_s"]


def live(rate: int) -> Live:
    return {
        "elapsed_ns": 10, "iteration": 1, "iterations": 1, "stage": "measure", "requests": 100,
        "failed": 0, "unwritten": 0, "lost_races": 0, "bytes": 0, "requests_last_s": rate,
        "bytes_last_s": 0, "p50_ns": 0, "p99_ns": 0, "progress": 0.5,
    }  # fmt: skip


def test_every_host_that_cannot_take_part_is_named_and_what_to_do_once() -> None:
    why, code = "no loadstone there", "exit code 3"
    refused = refusal(
        {
            "b": f"host b: {why}\nhint: install it",
            "a": f"host a: {why}\nhint: install it",
            "c": code,
        }
    )
    lines = [line.partition(": ")[::2] for line in refused.message.splitlines()]
    assert lines == [("host a", why), ("host b", why), ("host c", code)]
    assert refused.hint == "install it"
    assert "12 more" in str(refusal({f"c{number:02}": "gone" for number in range(20)}))


@given(
    offset_ns=st.integers(-(10**12), 10**12),
    trips=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1),
)
def test_a_clock_is_never_further_off_than_its_bound(
    offset_ns: int, trips: list[tuple[int, int]]
) -> None:
    sent_ns = 10**18
    exchanges = [
        Exchange(
            sent_ns=sent_ns, answered_ns=sent_ns + out + back, host_ns=sent_ns + out + offset_ns
        )
        for out, back in trips
    ]
    clock = estimate(exchanges)
    assert abs(clock.offset_ns - offset_ns) <= clock.bound_ns
    assert clock.round_trip_ns == min(out + back for out, back in trips)


def test_a_controller_that_stood_still_gives_its_hosts_time_to_be_heard() -> None:
    trial = standing(["a", "b"])
    trial._turned -= 60
    for host in trial._hosts.values():
        host.last_message -= 60
    trial._turn()
    assert {host.state for host in trial._hosts.values()} == {"loading"}
    # The controller did not stall this time: the hosts are silent.
    for host in trial._hosts.values():
        host.last_message -= 60
    trial._turn()
    assert {host.state for host in trial._hosts.values()} == {"lost"}


def test_a_host_that_ends_its_load_unasked_is_lost_and_the_others_are_whole() -> None:
    trial = standing(["a", "b", "c"])
    cut = summary(state="interrupted", ended_unix_ns=10**18)
    why = "what launched the agent has gone"
    say(trial, "a", end(cut, left=why))
    for name in ("b", "c"):
        say(trial, name, end(summary(ended_unix_ns=10**18)))
    trial._turn()
    summary_of_trial = trial._summary(1, 1)
    assert (summary_of_trial["state"], summary_of_trial["reason"]) == ("finished", None)
    assert [host["state"] for host in summary_of_trial["hosts"]] == ["lost", "finished", "finished"]
    assert summary_of_trial["hosts"][0]["reason"].endswith(f": {why}")


def test_the_loss_of_a_host_is_told_when_it_happens() -> None:
    trial = standing(["a", "b"])
    trial._carrier.inbox.put(HostMessage(host="b", name="gone", body={}))
    trial._turn()
    ((text, is_problem),) = trial._output.news
    assert is_problem
    assert " b " in text
    assert trial._hosts["b"].reason in text


def test_no_host_loads_what_the_lost_first_one_has_not_prepared() -> None:
    trial = standing(["a", "b"])
    asked: list[str] = []
    trial._output.begin = lambda stop: None
    trial._carrier.ask = lambda hosts, message: asked.extend(
        host for host in hosts if isinstance(message, messages.Trial)
    )
    trial.secrets = None
    trial._carrier.inbox.put(HostMessage(host="a", name="gone", body={}))
    with pytest.raises(TargetError, match=" a,"):
        trial.run()
    assert asked == ["a"]


def test_a_host_that_is_lost_before_a_trial_is_told_and_missing_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials: list[Any] = []
    news: list[str] = []
    carrier: Any = SimpleNamespace(hosts={"a": 1, "b": 2}, forget=lambda: None)
    monkeypatch.setattr(_TrialOnHosts, "run", lambda trial: trials.append(trial))
    monkeypatch.setattr(OnHosts, "_reach", lambda *words: carrier.hosts.pop("a"))
    document = whole(hosts=2) | {"target": {"name": "t", "driver": "null", "settings": {}}}
    output: Any = SimpleNamespace(host_news=lambda text, is_problem: news.append(text))
    checker: Any = None
    OnHosts(carrier, "ab", checker, stops_on_loss=False).run(document, output)
    assert (trials[0].absent, list(trials[0]._hosts)) == (["a"], ["b"])
    assert any(" a " in text for text in news)
    carrier.hosts["a"] = 1
    with pytest.raises(TargetError, match=" a "):
        OnHosts(carrier, "ab", checker, stops_on_loss=True).run(document, output)


def test_a_host_that_is_lost_in_what_later_trials_need_whole_ends_the_run() -> None:
    whole_put = {"phase": "put", "measured": True, "mix": [{"operation": "put", "weight": 1}],
                 "options": {}, "dataset": {"objects": 1000, "buckets": 1},
                 "keys": {"order": "sequential"}}  # fmt: skip
    for driver, stop, is_needed in [
        ("s3", {"requests": 1000, "duration_ns": None}, True),
        ("s3", {"requests": None, "duration_ns": 1}, False),
        ("null", {"requests": 1000, "duration_ns": None}, False),
    ]:
        trial = standing(["a", "b"])
        target = {"name": "t", "driver": driver, "settings": {}}
        trial._document = {"id": "0001", **whole_put, "target": target, "stop": stop}
        trial._carrier.inbox.put(HostMessage(host="b", name="gone", body={}))
        with pytest.raises(TargetError, match=" b ") if is_needed else contextlib.nullcontext():
            trial._turn()


def test_a_host_that_ends_its_load_because_all_do_is_not_lost() -> None:
    trial = standing(["a"])
    trial._stop(None)
    cut = summary(state="interrupted", ended_unix_ns=10**18)
    say(trial, "a", end(cut, left="it left, too"))
    trial._turn()
    assert trial._summary(1, 1)["hosts"][0]["state"] == "finished"


def end(summary_sent: Any, left: str | None = None) -> messages.End:
    return messages.End(
        attempt=1, summary=summary_sent, left=left, clock_step_ns=0, absent_probes={}
    )


def say(trial: Any, host: str, message: messages.FromAgent) -> None:
    body = messages.body(message)
    trial._carrier.inbox.put(HostMessage(host=host, name=messages.word(type(message)), body=body))


def test_an_agent_that_takes_the_place_of_one_that_has_gone_is_not_dropped() -> None:
    trial = standing(["a", "b"])
    dropped: list[str] = []
    trial._carrier.drop = dropped.append
    trial._carrier.inbox.put(HostMessage(host="a", name="gone", body={}))
    trial._turn()
    trial._hosts["b"].last_message -= 60
    trial._turn()
    assert [host.state for host in trial._hosts.values()] == ["lost", "lost"]
    assert dropped == ["b"]


def test_a_slow_host_is_asked_fewer_times_for_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "ANSWER_S", 2.0)
    monkeypatch.setattr(carrier, "STOP_S", 1.0)

    class Slow(Carrier):
        async def _exchange(self, host: str) -> Exchange:
            await asyncio.sleep(60 if host == "silent" else 0.4)
            return Exchange(sent_ns=0, answered_ns=10, host_ns=7)

    with Slow("a" * 32, "127.0.0.1") as slow:
        clocks = slow.read_clocks(["slow", "silent"])
    assert set(clocks) == {"slow"}
    assert clocks["slow"].offset_ns == 2


def standing(names: list[str]) -> Any:
    """Return a trial on hosts that are loading and say nothing."""
    carrier = SimpleNamespace(inbox=queue.Queue(), drop=lambda host: None, ask=lambda *words: None)
    carrier.clock = SteadyClock()
    news: list[tuple[str, bool]] = []
    output = SimpleNamespace(
        progress=lambda live: None, probes=lambda: None, collector=SimpleNamespace(absent={}),
        news=news, host_news=lambda text, is_problem: news.append((text, is_problem)),
    )  # fmt: skip
    target = {"name": "t", "driver": "null", "settings": {}}
    document = whole(hosts=len(names)) | {"measured": True, "target": target}
    trial: Any = _TrialOnHosts(document, output, carrier, names, 1)  # type: ignore[arg-type]
    for host in trial._hosts.values():
        host.state = "loading"
    return trial


def test_a_clock_that_is_set_moves_no_time_but_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before_ns, host_ns = clock.unix_ns(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: host_ns() + 3600 * 10**9)
    assert clock.unix_ns() - before_ns < 600 * 10**9
    assert round(clock.step_ns() / 1e9) == 3600
    assert clock.monotonic_ns(clock.unix_ns()) <= time.monotonic_ns()


HOST_FINDERS = (
    host_findings.find_lost_hosts,
    host_findings.find_started_apart,
    host_findings.find_uncertain_clocks,
    host_findings.find_set_clocks,
    host_findings.find_unequal,
)


@pytest.mark.parametrize(
    ("host", "label", "facts"),
    [
        (
            {"clock_step_ns": -2 * 10**9},
            "CLOCK_SET",
            ("b", "-2.000 s", "0001"),
        ),
        ({"start_error_ns_max": 7_000_000}, "START_APART", ("b", "0001", "7.0 ms")),
        ({"clock_bound_ns": 9_000_000}, "clocks", ("b", "9.0 ms")),
        ({"requests": 5}, "HOSTS_UNEQUAL", ("b", "10%")),
        ({"state": "lost", "reason": "it went"}, "HOST_LOST", ("b", "0001", "(it went)")),
    ],
)
def test_problems_of_hosts_are_found(
    host: dict[str, Any], label: str, facts: tuple[str, ...]
) -> None:
    ok = {"state": "finished", "reason": None, "clients": 1, "requests": 95}
    document: Any = whole() | {"measured": True, "stop": {"duration_ns": 10**9}}
    record = Record(
        trial=document,
        summary={"hosts": [{"name": "a", **ok}, {"name": "b", **ok, **host}]},  # type: ignore[typeddict-item]
    )
    run_view: Any = SimpleNamespace(measured={"0001": record})
    (finding,) = (finding for find in HOST_FINDERS for finding in find(run_view))
    assert finding.rule == label
    for fact in facts:
        assert re.search(rf"(?<!\w){re.escape(fact)}", finding.statement)
    if bears := TRIAL_LABELS.get(label):
        assert bears(record)
        well = Record(trial=document, summary={"hosts": [{"name": "a", **ok}]})  # type: ignore[typeddict-item]
        assert not bears(well)


def test_a_contact_that_is_stopped_accuses_no_host() -> None:
    carrier: Any = SimpleNamespace(
        inbox=queue.Queue(), ask=lambda *words: None, clock=SteadyClock(),
        read_clocks=lambda hosts: {
            host: Clock(offset_ns=0, bound_ns=1, round_trip_ns=2) for host in hosts
        },
    )  # fmt: skip
    target: Any = {"name": "t", "driver": "s3", "settings": {"endpoints": ["http://a", "http://b"]}}
    document = contact_document(target, "0" * 32, "bucket-")
    assert document["stop"]["requests"] == document["load"]["clients"] == 2
    contact = Contact(carrier, document, 1, sends_secrets=False)
    assert contact.obstacles(["a"], lambda line: None, is_over=lambda: True) == {}
