"""Objects that a put did not reach keep an older version; reading it is right."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone, trials_of

KEYS = {
    "AWS_ACCESS_KEY_ID": store_under_test.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": store_under_test.SECRET_KEY,
}
OBJECTS = 20
SOME = [
    "{op: put, name: again, requests: 5}",
    "{op: put, name: again, keys: {order: uniform}}",
    "{op: put, name: again, requests: 5, iterations: 2}",
]
CAMPAIGN = """
name: overwritten
targets: {{store: {target}}}
dataset: {{objects: {objects}, size: {size}}}
load: {{threads: 2}}
phases:
  - put
  - {again}
  - get
  - {{op: range_get, range: 10}}
  - {{op: put, name: all}}
  - {{op: get, name: new}}
"""


@pytest.mark.parametrize("size", ["20", "9000"])
@pytest.mark.parametrize("again", SOME)
def test_reads_accept_each_version_that_an_object_may_have(
    again: str, size: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    target = f"{{driver: file, path: {tmp_path / 'data'}}}"
    get, ranges, *_, new = run(tmp_path, target, again, size)[2:6]
    for trial in (get, ranges):
        assert trial["trial"]["dataset"]["oldest_version"] == 1
        assert trial["summary"]["verified_requests"] == OBJECTS
    assert "oldest_version" not in new["trial"]["dataset"]


def test_a_put_that_failed_leaves_the_older_version(tmp_path: Path) -> None:
    # Some puts of the first phase fail as well; reads of those objects are counted apart.
    errors = {"put": {"rate": 0.3, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        target = f'{{driver: s3, endpoint: "{url}"}}'
        trials = run(tmp_path, target, "{op: put, name: again}", "9000", code=1)
    again, get = trials[1], trials[2]
    assert 0 < again["summary"]["failed"] < OBJECTS
    assert get["summary"]["failed"] == 0


def test_blocks_that_were_written_again_leave_whole_reads_unchecked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = campaigns.write(
        tmp_path,
        f"""
name: blocks
targets: {{store: {{driver: file, path: {tmp_path / "data"}}}}}
dataset: {{objects: 4, size: 64KiB}}
load: {{threads: 2}}
phases:
  - {{op: write, range: 4KiB}}
  - {{op: write, range: 4KiB, name: again, requests: 20, keys: {{order: uniform}}}}
  - {{op: read, range: 4KiB}}
  - get
  - {{op: write, range: 4KiB, name: all}}
  - {{op: get, name: new}}
""",
    )
    result = loadstone("run", file, "-o", tmp_path / "run")
    assert result.code == 0, result.err
    verified = [trial["summary"]["verified_requests"] for trial in trials_of(tmp_path / "run")[2:6]]
    assert verified == [64, 0, 0, 4]


def run(tmp_path: Path, target: str, again: str, size: str, code: int = 0) -> list[dict[str, Any]]:
    """Run the campaign; return its trials."""
    text = CAMPAIGN.format(target=target, objects=OBJECTS, again=again, size=size)
    result = loadstone(
        "run", campaigns.write(tmp_path, text), "-o", tmp_path / "run", environment=KEYS
    )
    assert result.code == code, result.err
    return trials_of(tmp_path / "run")
