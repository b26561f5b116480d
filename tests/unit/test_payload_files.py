"""Files that objects are filled with: which are of no use, and how a plan names the others."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.campaign.parse import read_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.errors import CampaignError, InputError
from loadstone.execution.payload_files import BYTES_MIN, PayloadFiles
from tests.unit.test_plan_conditions import STORE

SAMPLE = bytes(range(256)) * (BYTES_MIN // 256)


def payload_files(folder: Path, payload: str = "{file: sample}") -> PayloadFiles:
    dataset = STORE.replace("size: 4KiB", f"size: 4KiB, payload: {payload}")
    text = f"name: payload\n{dataset}phases: [put, get]\n"
    file = folder / "campaign.yaml"
    file.write_text(text)
    return PayloadFiles(read_campaign(file, []))


def test_a_plan_names_the_file_with_its_digest(tmp_path: Path) -> None:
    (tmp_path / "sample").write_bytes(SAMPLE)
    payload_files(tmp_path)
    campaign = read_campaign(tmp_path / "campaign.yaml", [])
    plan = make_plan(campaign, payload_files=PayloadFiles(campaign))
    named = {
        "path": str(tmp_path / "sample"),
        "sha256": hashlib.sha256(SAMPLE).hexdigest(),
    }
    assert [trial.document["dataset"]["payload"] for trial in plan.trials] == [named] * 3


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda file: None, "such"),
        (lambda file: file.write_bytes(b""), "nothing"),
        (lambda file: file.write_bytes(SAMPLE[:-1]), "KiB"),
        (lambda file: os.mkfifo(file), "regular"),
        (lambda file: file.mkdir(), "directory"),
        (lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_RDWR), (1 << 30) + 1), "GiB"),
    ],
    ids=["absent", "empty", "small", "pipe", "folder", "large"],
)
def test_a_file_of_no_use_is_refused(
    make: Callable[[Path], object], word: str, tmp_path: Path
) -> None:
    make(tmp_path / "sample")
    files = payload_files(tmp_path)
    with pytest.raises(InputError, match=word) as caught:
        files("sample")
    assert str(tmp_path / "sample") in caught.value.message
    assert caught.value.hint


def test_a_file_that_has_changed_since_the_run_began_is_named(tmp_path: Path) -> None:
    (tmp_path / "sample").write_bytes(SAMPLE)
    files = payload_files(tmp_path)
    campaign = read_campaign(tmp_path / "campaign.yaml", [])
    planned = make_plan(campaign, payload_files=files).documents()
    assert PayloadFiles(campaign, planned)("sample") == files("sample")
    (tmp_path / "sample").write_bytes(SAMPLE + b"!")
    with pytest.raises(InputError, match=str(tmp_path / "sample")):
        PayloadFiles(campaign, planned)("sample")


def test_a_file_is_as_compressible_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="payload"):
        payload_files(tmp_path, "{file: sample}, compressible: 0.5")
