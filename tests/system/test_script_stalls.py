"""A server stalls under a timed script: requests behind the stall are recorded as late."""

from pathlib import Path

from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone
from tests.system.hostile_server import Exchange, hostile

STALL_S = 1.5
STEP_MS, ROWS = 20, 150
CAMPAIGN = """\
name: stalled
targets:
  store: {{driver: s3, endpoint: "http://127.0.0.1:{port}", access_key: {{env: KEY}},
    secret_key: {{env: SECRET}}}}
dataset: {{buckets: 1}}
load: {{threads: 1}}
phases:
  - {{name: replay, script: {{file: "{script}", speed: 1}}}}
"""


def test_requests_delayed_by_a_stall_count_from_their_due_time(tmp_path: Path) -> None:
    script = tmp_path / "script.csv"
    rows = ["session,action,object,size,due_ns", "0,WRITE,a,1000,0"]
    rows += [f"0,READ,a,,{step * STEP_MS * 1_000_000}" for step in range(1, ROWS)]
    script.write_text("\n".join(rows) + "\n")
    reads = 0

    def stall_once(exchange: Exchange) -> bool:
        nonlocal reads
        reads += exchange.request.method == "GET" and exchange.request.path.endswith("a")
        if reads == 10:
            reads += 1
            exchange.wait(STALL_S)
        return False

    secrets = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}
    with (
        store_under_test.store() as url,
        hostile(int(url.rpartition(":")[2]), stall_once) as server,
    ):
        text = CAMPAIGN.format(port=server.url.rpartition(":")[2], script=script)
        file = campaigns.write(tmp_path, text)
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=secrets)
    assert finished.code == 0, finished.err
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    (read,) = [action for action in report["actions"] if action["action"] == "READ"]
    assert read["good_actions"] == ROWS - 1
    assert read["lag_ns"]["count"] == ROWS - 1
    # One read waited for the server, so no more than one service time is long; those that were
    # due meanwhile began late, and their response times say so.
    assert read["service_ns"]["max"] >= STALL_S * 1e9
    assert read["service_ns"]["p90"] < STALL_S * 1e9 / 2
    late = int(STALL_S * 1000 / STEP_MS)
    assert read["lag_ns"]["max"] >= (STALL_S - 2 * STEP_MS / 1000) * 1e9 * 0.95
    assert (
        read["response_ns"]["mean"]
        >= read["service_ns"]["mean"] + STALL_S * 1e9 * late / 2 / (ROWS) * 0.8
    )
    (replay,) = report["replays"]
    assert replay["lateness_ns"]["max"] == read["lag_ns"]["max"]
    assert replay["actions_done"] == replay["actions_planned"] == ROWS
