"""Users whose paths are encrypted, from campaign to report: on one host, and on two."""

from pathlib import Path

import pytest

from tests.conformance import store_under_test
from tests.conformance.envelopes import Keys, opened_path
from tests.system import campaigns
from tests.system.command import loadstone, trials_of

CAMPAIGN = """\
name: sealed
seed: 11
targets:
  store: {{driver: s3, endpoint: "{url}", access_key: {{env: KEY}}, secret_key: {{env: SECRET}}}}
dataset: {{size: 4KiB, buckets: 2, encryption: aes-256-gcm}}
load: {{threads: 2{per}}}
phases:
  - name: users
    script: {{generator: users, settings: {{users: 3, actions: 60, recipients: [1, 2], copies: 2}}}}
sweep: {{path_encryption: [none, aes-256-siv]}}
keep_data: true
{hosts}
"""
SECRETS = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}


@pytest.mark.parametrize("hosts", ["", "hosts: {launch: local, count: 2}"], ids=["one", "two"])
def test_the_same_objects_lie_under_sealed_names(tmp_path: Path, hosts: str) -> None:
    run = tmp_path / "run"
    with store_under_test.store() as url:
        per = ", per: total" if hosts else ""
        file = campaigns.write(tmp_path, CAMPAIGN.format(url=url, hosts=hosts, per=per))
        finished = loadstone("run", file, "-o", run, environment=SECRETS)
        assert finished.code == 0, finished.err + finished.out
        s3 = store_under_test.s3(url)
        keys_of: dict[str | None, set[tuple[int, str]]] = {}
        for trial in (
            planned["trial"] for planned in trials_of(run) if planned["trial"]["measured"]
        ):
            dataset = trial["dataset"]
            stored_keys = keys_of[dataset["path_encryption"]] = set()
            for bucket in range(2):
                listed = s3.list_objects_v2(Bucket=f"{dataset['bucket_prefix']}{bucket}")
                stored_keys |= {(bucket, entry["Key"]) for entry in listed["Contents"]}
        keys = Keys(trial["run"], seed=11)
        cleaned = loadstone("clean", run, "--yes", environment=SECRETS)
        assert cleaned.code == 0, cleaned.err + cleaned.out
        assert s3.list_buckets()["Buckets"] == []
    plain, sealed = (keys_of[cipher] for cipher in (None, "aes-256-siv"))
    is_mark = {place for place in plain if ".loadstone" in place[1]}
    assert {(bucket, opened(name, keys)) for bucket, name in sealed - is_mark} == plain - is_mark
    assert not any("copy-" in name for _, name in sealed)

    report = loadstone("report", run, "-f", "json").json()
    by_action: dict[str, dict[str, dict[str, object]]] = {}
    for action in report["actions"]:
        assert action["errors"] == {}, action
        cipher = action["parameters"]["path_encryption"]
        by_action.setdefault(action["action"], {})[cipher] = action
    for name in ("WRITE", "READ", "LIST", "SHARE", "DELETE"):
        without, with_paths = (by_action[name][cipher] for cipher in ("none", "aes-256-siv"))
        assert without["good_actions"] == with_paths["good_actions"]
        assert without["paths_ns"] is None
        spent = with_paths["paths_ns"]
        assert isinstance(spent, dict)
        assert spent["count"] == with_paths["good_actions"]
        assert spent["mean"] > 0
    assert by_action["LIST"]["none"]["crypto_share"] == 0
    assert by_action["LIST"]["aes-256-siv"]["crypto_share"] > 0  # type: ignore[operator]
    assert "aes-256-siv" in loadstone("report", run, "-f", "markdown").out


def opened(name: str, keys: Keys) -> str:
    """Return the key that a name of a user's object stands for."""
    user, space = name.split("/")[:2]
    if space not in ("private", "inbox"):
        return name
    number = int(user.rpartition("-")[2])
    sealer = keys.of_paths(number if space == "private" else None)
    return opened_path(name, f"{user}/{space}/", sealer)
