"""Links in a run folder do not lead to changes outside of it."""

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli.running import session
from loadstone.cli.running.gate import last_green
from loadstone.errors import LoadstoneError, ResultError
from loadstone.results.audits import keep_audit
from loadstone.results.files import durable
from loadstone.results.layout import ANSWER, LOCK, MANIFEST
from loadstone.results.writer import RunWriter
from tests.unit.crash_disk import Crash
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.sample_runs import document, manifest
from tests.unit.test_gate import keep_gate
from tests.unit.test_results_crash_points import campaign as campaign  # a fixture
from tests.unit.test_results_crash_points import crashes_found as crashes_found  # a fixture

KINDS = ("link", "dangling link", "hard link", "pipe")


def plant(path: Path, outside: Path, kind: str) -> None:
    """Move a file or folder out of a run folder, and put a link to it in its place."""
    outside.mkdir()
    victim = outside / "victim"
    if path.exists():
        path.rename(victim)
    else:
        victim.write_text("of another program\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "hard link" if victim.is_file():
            os.link(victim, path)
        case "pipe":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to(outside / "absent")
        case _:
            path.symlink_to(victim)


def state(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder, in the form of a tree of `crash_disk`."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_no_run_is_gone_on_with_or_cleaned_up_through_a_link(
    crashes_found: list[Crash],
    tmp_path: Path,
    campaign: Campaign,
    loadgen: FakeLoadgen,
) -> None:
    draw = random.Random(32)
    begun = [crash for crash in crashes_found if f"run/{MANIFEST}" in crash.tree]
    names = {name for crash in crashes_found for name in crash.tree if name != "run"}
    files = {name for name in names if not durable.is_draft(name)}
    # Drafts of earlier builds had names that everybody could know.
    drafts = {f"{name}.tmp" for name in files}
    assert {f"run/{LOCK}", "run/trials", "run/trials/0001.arrows"} < files
    plants = [(name, kind) for name in sorted(files) for kind in KINDS]
    plants += [(name, kind) for name in sorted(drafts) for kind in KINDS[:2]]

    def resume(folder: Path) -> None:
        session.measure(campaign, folder, resume=True)

    def clean(folder: Path) -> None:
        with RunWriter.lock(folder) as writer:
            writer.note_cleaning()

    refused = 0
    commands: list[Callable[[Path], None]] = [resume, resume, clean]
    for number, (name, kind) in enumerate(plants):
        crash, command = draw.choice(begun), draw.choice(commands)
        here, outside = tmp_path / f"{number}", tmp_path / f"{number}-outside"
        crash.put(here)
        plant(here / name, outside, kind)
        before = state(outside)
        try:
            command(here / "run")
        except LoadstoneError:
            refused += 1
        assert state(outside) == before, f"{name} was a {kind}, {crash.how}, {command.__name__}"
        shutil.rmtree(here)
        shutil.rmtree(outside)
    assert refused > 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [LOCK, "trials", "probes"])
def test_no_run_begins_in_a_folder_with_links(tmp_path: Path, name: str, kind: str) -> None:
    plant(tmp_path / "run" / name, tmp_path / "outside", kind)
    before = state(tmp_path)
    with pytest.raises(ResultError):
        RunWriter.create(tmp_path / "run", manifest())
    assert {path: text for path, text in state(tmp_path).items() if path in before} == before
    assert state(tmp_path / "outside").keys() == {"victim"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["audits", "audits/1-audit-1.json"])
def test_no_audit_is_kept_through_a_link(tmp_path: Path, name: str, kind: str) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    RunWriter.create(folder, manifest()).close()
    plant(folder / name, outside, kind)
    before = state(outside)
    audit = document(1) | {"id": "audit-1"}
    with contextlib.suppress(ResultError):
        keep_audit(folder, audit, {"started_unix_ns": 1})  # type: ignore[arg-type, typeddict-item]
    assert state(outside) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [ANSWER, MANIFEST])
def test_a_baseline_that_is_read_through_links_changes_nothing(
    tmp_path: Path, name: str, kind: str
) -> None:
    history, outside = tmp_path / "runs", tmp_path / "outside"
    history.mkdir()
    keep_gate(history / "a", "2026-01-01", "no worse", 0)
    keep_gate(history / "b", "2026-01-02", "no worse", 0)
    plant(history / "b" / name, outside, kind)
    before = state(outside)
    # Only regular files are read; opening a pipe must not wait for a writer.
    is_read = kind in ("link", "hard link")
    assert last_green(history)[0] == ("./b" if is_read else "./a")
    assert state(outside) == before


@pytest.mark.parametrize(
    "content", [b"ssh-ed25519 AAAA me@here\n", b"pid 1 on a\nssh-ed25519 AAAA\n", b"p" * 4096]
)
def test_a_lock_with_another_content_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK).write_bytes(content)
    with pytest.raises(ResultError) as caught:
        durable.FolderLock(tmp_path, LOCK)
    assert caught.value.kind == "not-ours"
    assert (tmp_path / LOCK).read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\0" * 20, b"pid 12", b"pid 1 on host\n"])
def test_a_lock_that_a_crash_left_is_taken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK).write_bytes(content)
    durable.FolderLock(tmp_path, LOCK).release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_lock_of_another_user_is_refused_unless_the_folder_is_theirs_too(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    os.chown(tmp_path / LOCK, 65534, -1)
    with pytest.raises(ResultError) as caught:
        durable.FolderLock(tmp_path, LOCK)
    assert caught.value.kind == "not-ours"
    os.chown(tmp_path, 65534, -1)
    durable.FolderLock(tmp_path, LOCK).release()


def test_no_name_in_a_manifest_leads_out_of_the_folder(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer, pytest.raises(ResultError):
        writer.begin_trial(document(1) | {"id": "../../outside"})  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_drafts_of_a_killed_writer_go_when_the_run_goes_on(tmp_path: Path) -> None:
    RunWriter.create(tmp_path, manifest()).close()
    drafts = [f"{name}.0123456789abcdef.tmp" for name in (MANIFEST, "trials/0001.json")]
    for name in (*drafts, "notes.tmp"):
        (tmp_path / name).touch()
    RunWriter.reopen(tmp_path).close()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left == {LOCK, MANIFEST, "trials", "probes", "notes.tmp"}
