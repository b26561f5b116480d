"""The readers of files from elsewhere, each as a function that takes any bytes.

What must hold whatever they are given: they read it, or refuse it by loadstone's own error with a
message; no other exception, no end of memory, no endless reading. `python -m tests.fuzz.explore`
looks for bytes that break it, guided by coverage; `test_readers.py` tries those that were kept.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from loadstone import importers
from loadstone.analysis import analyse
from loadstone.analysis.accounts.account import Account
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.schema.dataset import Existing
from loadstone.documents.trial import TargetDocument
from loadstone.errors import LoadstoneError
from loadstone.execution.object_lists import ListMaker
from loadstone.formats.imported import Hints
from loadstone.importers.run_folder import write_run
from loadstone.results.store import read_run
from tests.unit.synthetic_run import write_rounds

CORPUS = Path(__file__).parent / "corpus"
AUDIT = "audits/1-audit-1.json"
TRIALS_MAX = 64
HINTS = Hints(size_bytes=4096, threads=4)


def try_campaign(data: bytes) -> None:
    """Read a campaign, and plan the first of its trials."""
    text = data.decode("utf-8", "surrogateescape")
    campaign = parse_campaign(text, environ={})
    make_plan(campaign, starts=1)


def try_object_list(data: bytes) -> None:
    """Read a table of objects that others wrote, as planning does."""
    (_folder() / "list.csv").write_bytes(data)
    lists = ListMaker(_folder(), beside=_folder(), watch=lambda where, count: None)
    target: TargetDocument = {"name": "store", "driver": "s3", "settings": {}}
    try:
        lists(target, Existing.model_validate({"bucket": "theirs", "list": "list.csv"}))
    finally:
        shutil.rmtree(lists.folder, ignore_errors=True)


@cache
def _folder() -> Path:
    """Return a folder for one input after the other, in memory where there is such a place."""
    memory = Path("/dev/shm")
    name = tempfile.mkdtemp(prefix="loadstone-fuzz-", dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, name, ignore_errors=True)
    return Path(name)


def _try_import(form: str, suffix: str, data: bytes) -> None:
    """Import a file whole, as the command does: many mistakes show only when it is written."""
    path = _folder() / f"input{suffix}"
    path.write_bytes(data)
    imported = importers.find(form).read([path], HINTS)
    if not isinstance(imported, Account):
        shutil.rmtree(_folder() / "run", ignore_errors=True)
        write_run(imported, _folder() / "run")


def _importer(form: str, suffix: str) -> Callable[[bytes], None]:
    return lambda data: _try_import(form, suffix, data)


@cache
def run_files() -> Mapping[str, bytes]:
    """Return the files of a small run folder, by their paths in it."""
    folder = _folder() / "sample"
    write_rounds(folder, seconds=3)
    (folder / "audits").mkdir()
    (folder / AUDIT).write_bytes((CORPUS / "run" / "audit").read_bytes().partition(b"\n")[2])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def run_input(name: str, content: bytes) -> bytes:
    """Return the input that replaces a file of the run folder by `content`."""
    return name.encode() + b"\n" + content


def try_run(data: bytes) -> None:
    """Read and judge a run folder in which one file is another; its first line says which."""
    name, _, content = data.partition(b"\n")
    files = run_files()
    names = list(files)
    chosen = name.decode("utf-8", "replace")
    if chosen not in files:
        chosen = names[sum(name) % len(names)]
    path = _folder() / "sample" / chosen
    path.write_bytes(content)
    try:
        analyse(read_run(_folder() / "sample"))
    finally:
        path.write_bytes(files[chosen])


SUFFIXES = {
    "nectar": ".csv",
    "warp": ".csv.zst",
    "fio": ".json",
    "rados-bench": ".txt",
    "elbencho": ".csv",
    "iperf3": ".json",
    "datasafe": ".txt",
    "tpch": ".md",
    "cosbench": ".csv",
    "hsbench": ".csv",
    "hummingbird": ".txt",
    "sai3-bench": ".tsv",
    "ior": ".txt",
    "mdtest": ".txt",
}

TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "campaign": try_campaign,
    "object-list": try_object_list,
    "run": try_run,
    **{form: _importer(form, SUFFIXES.get(form, ".json")) for form in importers.IMPORTERS},
}


def attempt(name: str, data: bytes) -> bool:
    """Try an input on a reader; return whether it was read. Anything but a refusal is raised."""
    try:
        TARGETS[name](data)
    except LoadstoneError as error:
        assert error.message.strip(), "a refusal says why"
        return False
    return True
