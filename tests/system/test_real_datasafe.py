"""Users of an encrypting vault on real stores: the whole campaign, scaled down."""

import itertools
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from loadstone.analysis.rules import view
from loadstone.results.record import Record
from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import assert_secret_absent, loadstone, start
from tests.system.servers import ceph

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "datasafe.yaml"


class Sweep(NamedTuple):
    """The cases of a campaign, each in both modes."""

    threads: tuple[int, ...]
    sizes: dict[str, int]
    buckets: tuple[int, ...]


WHOLE = Sweep((2, 4), {"1KiB": 1 << 10, "100KiB": 100 << 10}, (1, 3))
FEW = Sweep((2,), {"100KiB": 100 << 10}, (1, 3))
"""The same actions for stores that answer slowly: what differs in the other cases is ours."""
MODES = ("aes-256-cbc", "aes-256-gcm")
USERS, SEQUENCE = 10, {"WRITE": 155, "READ": 296, "LIST": 281, "DELETE": 214, "SHARE": 63}
SOAK_S = float(os.environ.get("LOADSTONE_SOAK_S", "1800"))


def scaled(sweep: Sweep, *, every: str | None = None) -> list[str]:
    """Return how the campaign is made small: its sequence stays whole."""
    schedule = "null" if every is None else f"{{every: {every}, days: 1}}"
    return [
        f"--set=schedule={schedule}",
        f"--set=sweep.threads={list(sweep.threads)}",
        f"--set=sweep.size=[{', '.join(sweep.sizes)}]",
        f"--set=sweep.buckets={list(sweep.buckets)}",
    ]


def check_campaign(sweep: Sweep, folder: Path, login: Mapping[str, str]) -> None:
    """Run the cases on a store; every action of every case did what the script expects."""
    secret = login["secret_key"]
    environment = {"AWS_ACCESS_KEY_ID": login["access_key"], "AWS_SECRET_ACCESS_KEY": secret}
    words = [*scaled(sweep), f"--set=targets.amazon.endpoint={login['endpoint']}"]
    words.append("--set=targets.amazon.region=us-east-1")
    finished = loadstone("run", EXAMPLE, "-o", folder, *words, environment=environment)
    # On a busy host a client may have stalled: its numbers must not be used, but all was right.
    assert finished.code == 0 or view("label")["STALLED"].short in finished.out, (
        finished.out + finished.err
    )
    assert_secret_absent(secret, finished, folder)
    actions_of_case: dict[tuple[object, ...], dict[str, int]] = {}
    for action in loadstone("report", folder, "-f", "json").json()["actions"]:
        case = action["parameters"]
        assert action["errors"] == {}, action
        key = (case["threads"], case["size"], case["buckets"], case["encryption"])
        actions_of_case.setdefault(key, {})[action["action"]] = action["good_actions"]
    cases = itertools.product(sweep.threads, sweep.sizes.values(), sweep.buckets, MODES)
    assert set(actions_of_case) == set(cases)
    for (threads, *_), counts in actions_of_case.items():
        copies = int(str(threads))
        expected = {name: copies * count for name, count in SEQUENCE.items()}
        assert counts == expected | {"CREATE_USER": USERS, "AUDIT": copies * 2 * USERS}
    table = loadstone("report", folder, "--table", "datasafe", "-f", "markdown")
    assert table.code == 0
    assert table.out.count("==== Statistics for AMAZON") == len(actions_of_case)  # others' words


@pytest.mark.real
def test_the_datasafe_campaign_runs_on_the_embedded_store(tmp_path: Path) -> None:
    keys = {"access_key": store_under_test.ACCESS_KEY, "secret_key": store_under_test.SECRET_KEY}
    with store_under_test.store() as url:
        check_campaign(WHOLE, tmp_path / "run", {"endpoint": url, **keys})
        assert store_under_test.s3(url).list_buckets()["Buckets"] == []


@pytest.mark.real
def test_the_datasafe_campaign_runs_on_versitygw(
    versitygw_server: dict[str, str], tmp_path: Path
) -> None:
    check_campaign(FEW, tmp_path / "run", versitygw_server)


@pytest.mark.real
def test_the_datasafe_campaign_runs_on_cephs_gateway(
    ceph_server: ceph.Cluster, tmp_path: Path
) -> None:
    check_campaign(FEW, tmp_path / "run", ceph_server.endpoints["s3"])


@pytest.mark.long(cpu_s=900)
def test_users_find_what_they_wrote_for_half_an_hour(tmp_path: Path) -> None:
    """Start after start of the campaign, until Ctrl-C; nothing is lost and memory does not grow."""
    environment = {
        "AWS_ACCESS_KEY_ID": store_under_test.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": store_under_test.SECRET_KEY,
    }
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch, store_under_test.store() as url:
        for name, value in environment.items():
            patch.setenv(name, value)
        process = start(
            "run", EXAMPLE, "-o", run, *scaled(WHOLE, every="20s"),
            f"--set=targets.amazon.endpoint={url}", "--set=targets.amazon.region=us-east-1",
        )  # fmt: skip
        time.sleep(SOAK_S)
        process.send_signal(signal.SIGINT)
        output = campaigns.end(process)
        assert process.returncode == 130, output
    report = loadstone("report", run, "-f", "json").json()
    assert all(action["errors"] == {} for action in report["actions"])
    whole = [
        record for record in read_run(run).records if record.is_whole and record.trial["measured"]
    ]
    # How many starts half an hour has is the host's speed; memory is compared over three or more.
    assert len({record.trial["block"] for record in whole}) >= 3
    peaks = [max(_memory(record), default=0.0) for record in whole]
    third = len(peaks) // 3
    assert min(peaks) > 0
    assert max(peaks[-third:]) <= 1.2 * max(peaks[:third])


def _memory(record: Record) -> list[float]:
    """Return what the load generator's process held while a trial ran."""
    return [row["value"] for row in record.probes.to_pylist() if row["metric"] == "rss_bytes"]
