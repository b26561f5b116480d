"""Encryption of paths as a key of a dataset: swept, planned, refused where it cannot be."""

from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import campaign_of
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.quick import campaign_from_flags
from loadstone.campaign.reading.source import Document
from loadstone.errors import CampaignError, Mistake
from loadstone.script.planned import ScriptMaker
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.campaign_mistakes import names

SIV = "aes-256-siv"


def planned(folder: Path | None = None, **changes: Any) -> list[dict[str, Any]]:
    data = {
        "name": "sealed",
        "targets": {"t": {"driver": "s3", "endpoint": "http://s"}},
        "dataset": {"objects": 10, "size": "4KiB", "path_encryption": SIV},
        "load": {"threads": 1},
        "phases": ["put", "get"],
    }
    campaign = campaign_of(Document("c.yaml", data | changes), (), drivers=DRIVERS, environ={})
    scripts = {} if folder is None else {"scripts": ScriptMaker(folder, beside=folder)}
    trials = make_plan(campaign, DRIVERS, **scripts).trials
    return [trial.document for trial in trials if trial.is_measured]


def mistakes_with(folder: Path | None = None, **changes: Any) -> list[Mistake]:
    with pytest.raises(CampaignError) as caught:
        planned(folder, **changes)
    return caught.value.mistakes


def of_script(folder: Path, rows: str, **dataset: Any) -> dict[str, Any]:
    """Write a script and return the mistakes of its campaign."""
    (folder / "s.csv").write_text(f"session,action,user,space,object,size,recipients\n{rows}")
    return {
        "dataset": {"path_encryption": SIV, **dataset},
        "phases": [{"name": "p", "script": {"file": "s.csv"}}],
    }


def test_a_sweep_over_both_ciphers_writes_a_dataset_for_each_pair() -> None:
    documents = planned(
        dataset={"objects": 10, "size": 1},
        sweep={"encryption": ["none", "aes-256-gcm"], "path_encryption": ["none", SIV]},
    )
    prefix_of = {
        (dataset["encryption"], dataset["path_encryption"]): dataset["bucket_prefix"]
        for dataset in (document["dataset"] for document in documents)
    }
    assert prefix_of.keys() == {
        (cipher, two) for cipher in (None, "aes-256-gcm") for two in (None, SIV)
    }
    assert len(set(prefix_of.values())) == 4


def test_paths_are_not_encrypted_unless_the_dataset_says_so() -> None:
    documents = planned(dataset={"objects": 10, "size": 1})
    assert {document["dataset"]["path_encryption"] for document in documents} == {None}


def test_a_cipher_that_there_is_not_is_refused_with_the_one_there_is() -> None:
    (mistake,) = mistakes_with(dataset={"objects": 1, "size": 1, "path_encryption": "aes-256-gcm"})
    assert (mistake.key, mistake.actual) == ("dataset.path_encryption", '"aes-256-gcm"')
    assert names(mistake.allowed, '"none"', f'"{SIV}"')


def test_a_driver_without_keys_is_refused_with_those_that_have_some() -> None:
    target = {"t": {"driver": "block", "path": "/x"}}
    (mistake,) = mistakes_with(targets=target, phases=[{"op": "write", "range": 4096}])
    assert (mistake.key, mistake.actual) == ("dataset.path_encryption", SIV)
    assert names(mistake.allowed, "none", "driver block", ": rados, s3, swift, file")


def test_a_prefix_within_what_is_sealed_is_refused() -> None:
    (mistake,) = mistakes_with(phases=["put", {"op": "list", "prefix": "bench-1"}])
    assert mistake.key == "phases.1.prefix"
    assert names(mistake.actual, '"bench-1"')
    assert planned(phases=["put", {"op": "list", "prefix": "ben"}])


def test_names_that_become_too_long_are_refused() -> None:
    # With a digit: 1,024 bytes plain, and 23 for a sealed digit.
    for length, is_right in ((1001, True), (1002, False)):
        dataset = {"objects": 10, "size": 1, "object_prefix": "x" * length}
        planned(dataset=dataset)
        sealed = {**dataset, "path_encryption": SIV}
        if is_right:
            planned(dataset=sealed)
        else:
            (mistake,) = mistakes_with(dataset=sealed)
            assert names(mistake.actual, "1,025 bytes")
            assert names(mistake.allowed, "1,024 bytes")


@pytest.mark.parametrize(
    ("target", "name", "fact"),
    [
        ({"driver": "s3", "endpoint": "http://s"}, "x" * 740, "a key of 1,026 bytes"),
        ({"driver": "file", "path": "/x"}, "x" * 160, "the name of a file of 257 bytes"),
    ],
)
def test_a_scripts_key_that_becomes_too_long_is_named(
    tmp_path: Path, target: dict[str, Any], name: str, fact: str
) -> None:
    rows = f"1,CREATE_USER,ann,,,,\n2,WRITE,ann,private,{name},10,\n2,WRITE,ann,private,y,10,\n"
    (mistake,) = mistakes_with(tmp_path, targets={"t": target}, **of_script(tmp_path, rows))
    assert mistake.key == "dataset.path_encryption"
    assert names(mistake.actual, f'"ann/private/{name}"', fact)
    shorter = of_script(tmp_path, rows.replace(name, name[:-5]))
    assert planned(tmp_path, targets={"t": target}, **shorter)
    # Without encrypted paths, no key is too long.
    plain = of_script(tmp_path, rows, path_encryption="none")
    assert planned(tmp_path, targets={"t": target}, **plain)


@pytest.mark.parametrize(
    ("prefix", "is_right"), [("", True), ("a/", True), ("a/b/", True), ("a", False)]
)
def test_a_listing_that_ends_within_a_name_is_refused(
    tmp_path: Path, prefix: str, is_right: bool
) -> None:
    rows = f"1,WRITE,,,a/b/c,10,\n1,LIST,,,{prefix},,\n"
    script = of_script(tmp_path, rows)
    if is_right:
        assert planned(tmp_path, **script)
    else:
        (mistake,) = mistakes_with(tmp_path, **script)
        assert mistake.key == "dataset.path_encryption"
        assert names(mistake.actual, 'listing of "a"')


def test_a_flag_of_bench_encrypts_paths() -> None:
    campaign = campaign_from_flags(
        "put,get", "s3+http://s", drivers=DRIVERS, environ={}, path_encryption=SIV
    )
    trials = make_plan(campaign, DRIVERS).trials
    assert {trial.document["dataset"]["path_encryption"] for trial in trials} == {SIV}


def test_a_mistake_in_the_flag_names_the_flag() -> None:
    with pytest.raises(CampaignError, match="--encrypt-paths"):
        campaign_from_flags("put", "s3+http://s", drivers=DRIVERS, environ={}, path_encryption="x")
