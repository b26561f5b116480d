"""Which account an argument names: a run folder, a published report, and one target of either."""

from dataclasses import replace
from pathlib import Path

from loadstone.analysis.account import Account
from loadstone.errors import InputError


def read_account(name: str) -> Account:
    """Return the account that RUN, published:NAME, or either with @TARGET stands for."""
    whole, target = split_target(name)
    account = read_whole(whole)
    if target is None:
        return account
    if target not in account.targets:
        known = ", ".join(account.targets)
        raise InputError(f'"{whole}" has no target "{target}"', f"its targets are {known}")
    return account.only(target)


def read_whole(name: str) -> Account:
    """Return the account of a whole run or published report."""
    from loadstone import published

    if published.is_published(name):
        return published.find(name).account()
    from loadstone.analysis import run_account
    from loadstone.results.store import read_run

    return replace(run_account.read_account(read_run(name)), name=Path(name).name or name)


def split_target(name: str) -> tuple[str, str | None]:
    """Return an argument without its @TARGET, and the target; a folder may have "@" in its name."""
    if "@" not in name or Path(name).exists():
        return name, None
    whole, _, target = name.rpartition("@")
    return whole, target
