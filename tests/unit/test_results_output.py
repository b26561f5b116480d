"""Output files that users name: never a file of a run, and no file of others."""

import os
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.results.output import ATTRIBUTE
from tests.unit.synthetic_run import write_rounds

THEIRS = b"of another program\n"
SCRIPT = ("script", "make", "users", "--set", "copies=1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run in it, which is the working directory."""
    write_rounds(tmp_path / "rr")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(run: str = "rr") -> list[tuple[str, ...]]:
    return [
        ("report", run, "-f", "markdown"),
        ("report", run, "-f", "parquet"),
        ("report", "published:cern", "-f", "html"),
        ("compare", f"{run}@ceph", f"{run}@hummingbird", "-f", "json"),
        ("history", run, "-f", "csv"),
        SCRIPT,
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


INSIDE = ("rr/manifest.json", "rr/trials/0001.parquet", "rr/new", "rr/new/deep", "link")


@pytest.mark.parametrize(
    ("command", "names"),
    [(commands()[0], INSIDE), *((command, INSIDE[:1]) for command in commands()[1:])],
    ids=str,
)
def test_nothing_is_written_into_a_run(
    here: Path, command: tuple[str, ...], names: tuple[str, ...]
) -> None:
    (here / "link").symlink_to("rr/manifest.json")
    before = contents(here)
    for name in names:
        assert main([*command, "-o", name, "--overwrite"]) == 1
    assert contents(here) == before
    assert not (here / "rr/new").exists()


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_no_folder_is_made_for_a_file(here: Path, command: tuple[str, ...]) -> None:
    assert main([*command, "-o", "misspelt/file"]) == 1
    assert not (here / "misspelt").exists()


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_file_of_others_is_replaced_when_that_is_allowed(
    here: Path, command: tuple[str, ...]
) -> None:
    path = here / "campaign.yaml"
    path.write_bytes(THEIRS)
    path.chmod(0o640)
    assert main([*command, "-o", "campaign.yaml"]) == 1
    assert path.read_bytes() == THEIRS
    assert main([*command, "-o", "campaign.yaml", "--overwrite"]) == 0
    written = path.read_bytes()
    assert written != THEIRS
    assert path.stat().st_mode & 0o777 == 0o640
    # It is loadstone's now, until somebody changes it.
    assert main([*command, "-o", "campaign.yaml"]) == 0
    path.write_bytes(written + THEIRS)
    assert main([*command, "-o", "campaign.yaml"]) == 1
    assert path.read_bytes() == written + THEIRS
    assert sorted(path.name for path in here.iterdir()) == ["campaign.yaml", "rr"]


def test_a_folder_of_charts_is_written_completely_or_not_at_all(here: Path) -> None:
    assert main(["report", "rr", "-f", "svg", "-o", "charts"]) == 0
    first, *others = sorted((here / "charts").iterdir())
    others[-1].write_bytes(THEIRS)
    first.unlink()
    assert main(["report", "rr", "-f", "svg", "-o", "charts"]) == 1
    assert not first.exists()
    assert others[-1].read_bytes() == THEIRS


def test_a_symbolic_link_of_the_user_stays(here: Path) -> None:
    (here / "latest.md").symlink_to("real.md")
    for _ in range(2):
        assert main(["report", "rr", "-o", "latest.md"]) == 0
    assert (here / "latest.md").is_symlink()
    assert os.getxattr(here / "real.md", ATTRIBUTE)


def test_an_empty_file_and_a_pipe_are_written_to(here: Path) -> None:
    (here / "empty.csv").touch()
    assert main(["report", "rr", "-o", "empty.csv"]) == 0
    reader, writer = os.pipe()
    try:
        assert main(["published", "cern"]) == 0
        assert main(["report", "published:cern", "-f", "json", "-o", f"/dev/fd/{writer}"]) == 0
        assert os.read(reader, 1) == b"{"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("name", ["/dev/absent-of-loadstone", "/proc/absent", "/sys/a/b"])
def test_nothing_is_made_in_a_folder_of_the_kernels(here: Path, name: str) -> None:
    for command in (commands()[0], SCRIPT, ("bench", "put", "null", "-n", "10")):
        assert main([*command, "-o", name]) == 1
        assert not Path(name).exists()


def test_no_run_is_made_inside_another(here: Path) -> None:
    before = contents(here)
    assert main(["bench", "put", "null", "-n", "10", "-o", "rr/inner"]) == 1
    assert contents(here) == before


@pytest.mark.parametrize("command", [("report", "rr", "-f", "svg"), ("bench", "put", "null")])
def test_a_name_that_cannot_be_a_folder_has_a_hint(
    here: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "link").symlink_to("nothing")
    assert main([*command, "-o", "link"]) == 1
    message = capsys.readouterr().err
    assert '"link"' in message
    assert "hint: " in message
    assert not (here / "nothing").exists()
