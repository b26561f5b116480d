"""The driver `rados` on a cluster that says no: wrong keys, full pools, pools that go away."""

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.errors import Kind
from tests.conformance import trials
from tests.conformance.trials import SECOND_NS, Dataset
from tests.system.ceph_trials import after, lasting, place, until
from tests.system.command import loadstone, trials_of
from tests.system.servers.ceph import Cluster
from tests.system.servers.processes import free_ports

pytestmark = pytest.mark.real

CAMPAIGN = """\
name: short
targets:
  pool: {driver: rados, pool: bench}
dataset: {objects: 20, size: 4KiB, prefix: "short-{run}"}
load: {threads: 4}
phases: [put, get, head, list]
"""


def refusal(cluster: Cluster, *kinds: Kind, **settings: object) -> str:
    """Return why a trial with these settings is not even begun."""
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place(cluster, **settings), Dataset())  # type: ignore[arg-type]
    assert caught.value.kind in kinds
    return str(caught.value)


def test_a_pool_that_is_not_there_is_named(ceph_to_break: Cluster) -> None:
    message = refusal(ceph_to_break, "target-absent", pool="no-such-pool")
    assert f'"no-such-pool": {os.strerror(errno.ENOENT)}' in message
    assert "ceph osd pool create" in message


def test_a_monitor_that_does_not_answer_is_given_up(ceph_to_break: Cluster, tmp_path: Path) -> None:
    conf = tmp_path / "ceph.conf"
    nobody = f"v2:127.0.0.1:{free_ports(1)}"
    text = f"[global]\nmon host = [{nobody}]\nkeyring = {ceph_to_break.keyring}\n"
    conf.write_text(text)
    message = refusal(
        ceph_to_break, "unreachable", conf=str(conf), options={"client_mount_timeout": 2}
    )
    assert os.strerror(errno.ETIMEDOUT) in message
    assert "mon_host" in message


def test_a_configuration_that_is_not_there_is_named(ceph_to_break: Cluster) -> None:
    message = refusal(ceph_to_break, "target", conf="/no/such/ceph.conf")
    assert f" /no/such/ceph.conf: {os.strerror(errno.ENOENT)}" in message
    assert "CEPH_CONF" in message


def test_the_key_of_somebody_else_is_refused(ceph_to_break: Cluster, tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text("[client.admin]\n\tkey = AQBnUD5nAAAAABAAmGYnMxcxJNgdQXE4Sf8Wmg==\n")
    message = refusal(ceph_to_break, "denied", keyring=str(keyring))
    assert f'"client.admin": {os.strerror(errno.EACCES)}' in message
    assert "AQBnUD5n" not in message


def test_a_user_without_a_key_is_told_so(ceph_to_break: Cluster) -> None:
    message = refusal(ceph_to_break, "denied", user="nobody")
    assert f'"client.nobody": {os.strerror(errno.EACCES)}' in message
    assert "keyring" in message


def test_an_invalid_keyring_is_reported(ceph_to_break: Cluster, tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text('{"key": "text of another kind"}\n')
    # The librados of Ceph 20 reads it as one that holds no key of this user.
    message = refusal(ceph_to_break, "target", "denied", keyring=str(keyring))
    assert "keyring" in message
    keyring.unlink()
    message = refusal(ceph_to_break, "secret-absent", keyring=str(keyring))
    assert f"{keyring}: {os.strerror(errno.ENOENT)}" in message


def test_an_option_that_ceph_does_not_know_is_named(ceph_to_break: Cluster) -> None:
    message = refusal(ceph_to_break, "target", options={"no_such_option": 1})
    assert 'no_such_option to "1"' in message


def test_a_user_who_may_only_read_can_read_and_is_refused_to_write(
    ceph_to_break: Cluster, tmp_path: Path
) -> None:
    keyring = make_user(ceph_to_break, tmp_path, "reader", "allow r")
    reader = place(ceph_to_break, user="reader", keyring=str(keyring))
    owner, dataset = place(ceph_to_break), Dataset()
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(reader, Dataset())
    assert caught.value.kind == "denied"
    assert "capabilities" in str(caught.value)
    trials.prepare(owner, dataset)
    read = trials.run(trials.document(reader, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    written = trials.run(trials.document(reader, dataset, "put"))
    assert written.outcomes() == {"denied": dataset.objects}
    trials.clean_up(owner, dataset)


@pytest.mark.parametrize("instances", [1, 3])
def test_environment_variables_of_ceph_are_used(
    ceph_to_break: Cluster, tmp_path: Path, instances: int
) -> None:
    keyring = make_user(ceph_to_break, tmp_path, "bench", "allow rwx pool=bench")
    file = tmp_path / "campaign.yaml"
    file.write_text(CAMPAIGN)
    environment = {
        "CEPH_CONF": str(ceph_to_break.conf),
        "CEPH_ARGS": f"--id bench --keyring {keyring}",
    }
    run = tmp_path / "run"
    more = f"--set=targets.pool.instances={instances}"
    finished = loadstone("run", file, "-o", run, more, environment=environment)
    assert finished.code == 0, finished.out + finished.err
    measured = [trial for trial in trials_of(run) if trial["trial"]["measured"]]
    assert [trial["trial"]["phase"] for trial in measured] == ["put", "get", "head", "list"]
    assert not any(trial["summary"]["failed"] for trial in measured)
    settings = measured[0]["trial"]["target"]["settings"]
    assert (settings["user"], settings["keyring"]) == ("bench", str(keyring))
    key = keyring.read_text().split("key = ")[1].split()[0]
    assert not [
        path for path in run.rglob("*") if path.is_file() and key in path.read_text("latin1")
    ]


def test_a_full_pool_is_an_outcome_and_can_be_emptied(ceph_to_break: Cluster) -> None:
    ceph_to_break.command("osd", "pool", "create", "small", "8", "8", "replicated")
    where, dataset = place(ceph_to_break, "small"), Dataset()
    trials.prepare(where, dataset)
    ceph_to_break.command("osd", "pool", "set-quota", "small", "max_objects", "3")

    def is_full() -> bool:
        pools = ceph_to_break.command("osd", "dump")["pools"]
        return any("full" in pool["flags_names"] for pool in pools if pool["pool_name"] == "small")

    until("the quota to be noticed", is_full)
    # Existing objects may be overwritten, because that needs no more space.
    more = Dataset(objects=2 * dataset.objects, prefix=dataset.prefix, run=dataset.run)
    written = trials.run(trials.document(where, more, "put"))
    assert written.outcomes() == {"ok": dataset.objects, "no_space": dataset.objects}
    assert "ceph df detail" in written.summary["error_examples"]["no_space"]
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(where, Dataset())
    assert caught.value.kind == "no-space"
    read = trials.run(trials.document(where, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    trials.clean_up(where, dataset)
    assert where.view is not None
    assert where.view.buckets() == set()
    drop_pool(ceph_to_break, "small")


def test_a_pool_that_is_deleted_under_load_ends_the_trial_with_its_limit(
    ceph_to_break: Cluster,
) -> None:
    ceph_to_break.command("osd", "pool", "create", "doomed", "8", "8", "replicated")
    where, dataset = place(ceph_to_break, "doomed"), Dataset()
    trials.prepare(where, dataset)
    with after(5.0, lambda: drop_pool(ceph_to_break, "doomed")):
        on_error = {"action": "continue", "limit": 100}
        result = lasting(where, dataset, "put", 600, on_error=on_error)
    assert result.summary["state"] == "stopped"
    outcomes = result.outcomes()
    assert outcomes["ok"] > 0
    assert set(outcomes) == {"ok", "not_found"}
    assert '"doomed"' in result.summary["error_examples"]["not_found"]
    with pytest.raises(_loadgen.TargetError, match=os.strerror(errno.ENOENT)) as caught:
        trials.clean_up(where, dataset)
    assert caught.value.kind == "target-absent"


def test_nothing_of_anybody_else_in_the_pool_is_touched(ceph_to_break: Cluster) -> None:
    where, dataset = place(ceph_to_break), Dataset()
    assert where.view is not None
    theirs = [("", "object-1"), ("", "theirs"), ("somebody", "object-2")]
    for bucket, key in theirs:
        where.view.write(bucket, key, b"precious")
    trials.prepare(where, dataset)
    trials.run(trials.document(where, dataset, "delete"))
    trials.prepare(where, dataset)
    trials.clean_up(where, dataset)
    assert where.view.buckets() == {"", "somebody"}
    for bucket, key in theirs:
        assert where.view.read(bucket, key) == b"precious"
    for bucket in ("", "somebody"):
        where.view.drop_bucket(bucket)


def test_the_last_block_of_an_object_may_be_shorter(ceph_to_break: Cluster) -> None:
    where, dataset = place(ceph_to_break), Dataset(size_bytes=10_000)
    stop = {"requests": 3 * dataset.objects, "duration_ns": None}
    trial = trials.document(where, dataset, "write", stop=stop)
    trial["options"]["range_bytes"] = 4096
    written = trials.run(trial)
    assert written.outcomes() == {"ok": 3 * dataset.objects}
    assert written.total("bytes") == dataset.bytes
    read = trials.run(trials.document(where, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    assert read.summary["verified_bytes"] == dataset.bytes
    trials.clean_up(where, dataset)


def test_appends_to_an_erasure_coded_pool_are_whole_stripes_or_refused(
    ceph_to_break: Cluster,
) -> None:
    """A pool without overwrites refuses them before the first request, with a message."""
    profile = ["k=2", "m=1", "crush-failure-domain=osd", "plugin=jerasure"]
    ceph_to_break.command("osd", "erasure-code-profile", "set", "striped", *profile)
    ceph_to_break.command("osd", "pool", "create", "striped", "8", "8", "erasure", "striped")
    where = place(ceph_to_break, "striped")
    dataset = Dataset(objects=4, size_bytes=3 * 8192 + 100)
    trial = trials.document(where, dataset, "append", stop={"requests": 16, "duration_ns": None})
    trial["options"]["range_bytes"] = 4096
    with pytest.raises(_loadgen.TargetError, match="8192 bytes") as caught:
        trials.run(trial)
    for fact in ("4096 bytes", '"striped"'):
        assert fact in str(caught.value)
    trial["options"]["range_bytes"] = 8192
    assert trials.run(trial).outcomes() == {"ok": 16}
    read = trials.run(trials.document(where, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    assert read.summary["verified_bytes"] == dataset.bytes
    trials.clean_up(where, dataset)
    drop_pool(ceph_to_break, "striped")


def test_an_object_is_given_up_after_an_append_that_failed(
    ceph_to_break: Cluster, tmp_path: Path
) -> None:
    """Nobody knows where it ends then; later readers see that it is short."""
    keyring = make_user(
        ceph_to_break, tmp_path, "half", "allow r, allow rwx object_prefix object-1"
    )
    owner, dataset = place(ceph_to_break), Dataset(objects=4, size_bytes=8192)
    trials.prepare(owner, dataset)
    trials.run(trials.document(owner, dataset, "delete"))
    half = place(ceph_to_break, user="half", keyring=str(keyring))
    trial = trials.document(half, dataset, "append", stop={"requests": 100, "duration_ns": None})
    trial["options"]["range_bytes"] = 4096
    assert trials.run(trial).outcomes() == {"ok": 2, "denied": 3}
    read = trials.run(trials.document(owner, dataset, "get"))
    assert read.outcomes() == {"ok": 1, "not_found": 3}
    trials.clean_up(owner, dataset)


def test_a_secret_in_the_options_is_refused(ceph_to_break: Cluster) -> None:
    where = place(ceph_to_break, options={"key": "AQBnUD5nAAAAABAAmGYnMxcxJNgdQXE4Sf8Wmg=="})
    document = trials.document(where, Dataset(), "put", timeout_ns=SECOND_NS)
    with pytest.raises(ValueError, match=r"target\.settings\.options\.key") as caught:
        _loadgen.check(json.dumps(document))
    assert "AQBnUD5n" not in str(caught.value)


def make_user(cluster: Cluster, folder: Path, name: str, allow: str) -> Path:
    """Make a user with these capabilities on OSDs; return a keyring with the user's key."""
    words = ["auth", "get-or-create", f"client.{name}", "mon", "allow r", "osd", allow]
    (user,) = cluster.command(*words)
    keyring = folder / "keyring"
    keyring.write_text(f"[client.{name}]\n\tkey = {user['key']}\n")
    return keyring


def drop_pool(cluster: Cluster, name: str) -> None:
    """Delete a pool with all that is in it."""
    sure = "--yes-i-really-really-mean-it"
    cluster.command("osd", "pool", "delete", name, name, sure)


def test_objects_of_others_are_read_by_a_listing_of_the_default_namespace(
    ceph_to_break: Cluster, tmp_path: Path
) -> None:
    login = ceph_to_break.endpoints["rados"]
    rados = ["rados", "-c", login["conf"], "-k", login["keyring"], "-p", "bench"]
    sizes = {"theirs-1": 1, "theirs-2": 70_000, "other": 10}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
        subprocess.run([*rados, "put", name, str(tmp_path / name)], check=True)
    before = subprocess.run([*rados, "ls", "--all"], check=True, capture_output=True).stdout
    settings = [f"--target-set={key}={value}" for key, value in login.items()]
    finished = loadstone(
        "bench", "get,head", "rados:bench", "--existing", "--object-prefix", "theirs-",
        *settings, "-n", "20", "-t", "2", "-o", tmp_path / "run",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    get, head = (trial["summary"] for trial in trials_of(tmp_path / "run"))
    assert (get["requests"], get["failed"], head["failed"]) == (20, 0, 0)
    assert get["bytes"] == 10 * (1 + 70_000)
    now = subprocess.run([*rados, "ls", "--all"], check=True, capture_output=True).stdout
    assert sorted(now.splitlines()) == sorted(before.splitlines())
