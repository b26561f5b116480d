"""The pieces of campaigns on the how-to and help pages can be planned."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from loadstone.campaign.parse import validate
from loadstone.campaign.planning.plan import make_plan
from loadstone.script.planned import ScriptMaker
from loadstone.script.table import writing
from loadstone.script.users import Users, make
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.test_campaign_existing import objects_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*(DOCS / "how-to").glob("*.md"), *(DOCS / "help").glob("*.md")])
AROUND = {
    "name": "page",
    "targets": {"ceph": {"driver": "rados", "pool": "p"}},
    "dataset": {"objects": 10, "size": "4MiB"},
    "load": {"threads": 1},
    "phases": ["put", "get"],
}

OF_QUERIES = ("name", "targets")

WITHOUT_CAMPAIGN = {"imports", "what-a-store-honours"} | {
    page.stem for page in PAGES if page.parent.name == "help"
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_piece_of_a_campaign_on_a_page_can_be_planned(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The page about sessions names a script of the reader's own.
    with writing(tmp_path / "users.parquet", may_overwrite=False) as script:
        for action in make(Users(actions=20, copies=1, size=4096), seed=1):
            script.add(action)
    pieces = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    assert pieces or page.stem in WITHOUT_CAMPAIGN
    for piece in pieces:
        written = YAML(typ="safe").load(piece)
        if "apiVersion" in written:  # a manifest of Kubernetes
            continue
        around = {key: AROUND[key] for key in OF_QUERIES} if "queries" in written else AROUND
        campaign, wrong = validate({**around, **written})
        assert wrong == []
        assert campaign is not None
        scripts = ScriptMaker(tmp_path, beside=tmp_path)
        assert make_plan(campaign, DRIVERS, scripts=scripts, lists=objects_of).trials
