"""Clients that contend for a few objects: how often, how soon and how fairly they win."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, SECRET_KEY
from tests.system import campaigns
from tests.system.command import loadstone

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
CAMPAIGN = """\
name: contention
targets: {{store: {{driver: s3, endpoints: ["{url}"]}}}}
dataset: {{objects: 20, size: 4KiB}}
phases: [{{contend: {{keys: 2, clients: 16}}, requests: 1500}}]
"""


def contend(folder: Path, **faults: Any) -> tuple[dict[str, Any], Path]:
    """Run the campaign; give the only contention of its report, and the run."""
    with store_under_test.store(faults=faults) as url:
        campaign = campaigns.write(folder, CAMPAIGN.format(url=url))
        finished = loadstone("run", campaign, "-o", folder / "run", environment=KEYS)
        assert finished.code == 0, finished.err
    (contention,) = loadstone("report", folder / "run", "-f", "json").json()["contention"]
    return contention, folder / "run"


def test_a_contention_is_on_the_screen_the_page_and_in_json(tmp_path: Path) -> None:
    contention, run = contend(tmp_path)
    assert (contention["phase"], contention["wins"]) == ("contend", 1500)
    assert contention["tries_per_win"] > 1
    assert contention["wins_per_s"] > 0
    assert 1 / 16 <= contention["fairness"] <= 1
    assert contention["win_ns"]["p50"] <= contention["win_ns"]["p99"]
    tries = f"{contention['tries_per_win']:.2f}"
    for form, *options in (("terminal",), ("html",)):
        shown = loadstone("report", run, "-f", form, *options, "-o", tmp_path / form)
        assert shown.code == 0, shown.err
        assert tries in (tmp_path / form).read_text()


@pytest.mark.parametrize("lie", ["condition_ignored", "several_winners"])
def test_a_store_that_lets_several_win_makes_fewer_tries(lie: str, tmp_path: Path) -> None:
    honest, _ = contend(tmp_path)
    (tmp_path / "lying").mkdir()
    lying, _ = contend(tmp_path / "lying", lies={lie: 1.0})
    assert lying["wins"] == 1500
    assert lying["tries_per_win"] < honest["tries_per_win"]
    if lie == "condition_ignored":
        assert lying["tries_per_win"] == 1
