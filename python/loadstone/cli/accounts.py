"""Reads the account that an argument names: a run folder, a published report, or one target of
it.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from loadstone.analysis.accounts.account import Account
from loadstone.errors import InputError


def read_account(name: str) -> Account:
    """Return the account of RUN, published:NAME or FORMAT:FILE, or of one @TARGET of it."""
    whole, target = split_target(name)
    account = read_whole(whole)
    if target is None:
        return account
    if target not in account.targets:
        known = ", ".join(account.targets)
        raise InputError(f'"{whole}" has no target "{target}"', f"its targets are {known}")
    return account.only(target)


def read_whole(name: str) -> Account:
    """Return the account of a whole run, published report, or file of another tool."""
    from loadstone import published

    if published.is_published(name):
        return published.find(name).account()
    form, _, file = name.partition(":")
    if file and not Path(name).exists():
        return _read_file(form, Path(file))
    from loadstone.analysis.accounts import judged_account
    from loadstone.results.store import read_run

    return replace(judged_account.read_account(read_run(name)), name=Path(name).name or name)


def _read_file(form: str, file: Path) -> Account:
    """Return the account of another tool's file, imported as a temporary run if need be."""
    from loadstone import importers
    from loadstone.analysis.accounts import judged_account
    from loadstone.formats.imported import Hints
    from loadstone.importers.run_folder import write_run
    from loadstone.results.store import read_run

    imported = importers.find(form).read([file], Hints())
    if isinstance(imported, Account):
        return imported
    with tempfile.TemporaryDirectory(prefix="loadstone-import-") as folder:
        write_run(imported, Path(folder) / "run")
        account = judged_account.read_account(read_run(Path(folder) / "run"))
    return replace(_without_file_name(account, file, form), name=file.name)


def _without_file_name(account: Account, file: Path, form: str) -> Account:
    """Return an account whose workload does not contain the file's name, which differs between
    files.
    """
    stem = file.name.partition(".")[0]
    measurements = tuple(
        replace(
            measurement,
            workload=form if measurement.workload in (stem, file.stem) else measurement.workload,
        )
        for measurement in account.measurements
    )
    comparable = {
        target: {
            f"{form} {field.removeprefix(f'{name} ')}" if field.startswith(f"{name} ") else field: v
            for field, v in facts.items()
            for name in [stem if field.startswith(f"{stem} ") else file.stem]
        }
        for target, facts in account.comparable.items()
    }
    return replace(account, measurements=measurements, comparable=comparable)


def split_target(name: str) -> tuple[str, str | None]:
    """Split @TARGET from an argument; a folder's name may contain "@", too."""
    if "@" not in name or Path(name).exists():
        return name, None
    whole, _, target = name.rpartition("@")
    return whole, target
