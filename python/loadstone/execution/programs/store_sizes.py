"""Reads the size and fill level of a store, if it reports them.

For a file system by statvfs, for a pool of Ceph by `ceph df`. Other stores do not report their
size.
"""

import json
import os
import time
from pathlib import Path

from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.ceiling_plan import ceph_words, is_pool
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.lifecycle import FILL, dataset_of, largest_size
from loadstone.campaign.planning.plan import Plan
from loadstone.documents.python_types import TargetSettings
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TargetDocument, TrialDocument
from loadstone.errors import InputError
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import run_programs
from loadstone.probes.ceph_answers import read_answers

TIMEOUT_S = 30.0
SETTLE_S = 60.0
POLL_S = 1.0
SHOWN = 0.98
"""Share of the written bytes that must appear in the size that a store reports."""


class Stores:
    """The stores that a plan fills: their fill level before and after each trial."""

    def __init__(self, plan: Plan, interrupt: Interrupt) -> None:
        self._names = plan.stores.keys()
        self._interrupt = interrupt
        self._before = 0

    def look(self, document: TrialDocument, when: str, absent: dict[str, str]) -> TargetState:
        """Return the size of a trial's store; a missing size is listed in `absent` with the
        reason.
        """
        is_fill = document["phase"] == FILL
        is_asked_for = document["measured"] or is_fill
        if document["target"]["name"] not in self._names or not is_asked_for:
            return {}
        if self._interrupt.is_asked:
            return {}
        try:
            size = read_size(document["target"], self._interrupt)
            if is_fill and size is not None:
                size = self._settled(document, when, size)
        except InputError as error:
            absent["store"] = error.message
            return {}
        return {"store": size.document()} if size is not None else {}

    def _settled(self, document: TrialDocument, when: str, size: StoreSize) -> StoreSize:
        """Return the size once it includes the written bytes: a cluster updates its counts with a
        delay.

        If it does not in time, the reported size is recorded, and leads to a finding.
        """
        if when == "before":
            self._before = size.used_bytes
            return size
        dataset = dataset_of(document)
        written = (dataset["objects"] or 0) * largest_size(dataset["size"])
        give_up = time.monotonic() + SETTLE_S
        while size.used_bytes - self._before < SHOWN * written:
            if self._interrupt.is_asked or time.monotonic() > give_up:
                break
            time.sleep(POLL_S)
            size = read_size(document["target"], self._interrupt) or size
        return size


def read_size(target: TargetDocument, interrupt: Interrupt) -> StoreSize | None:
    """Return the size of a target's store; None if this kind reports none.

    Raises InputError if the store should report it and did not.
    """
    driver, settings = target["driver"], target["settings"]
    try:
        if is_pool(driver):
            return _size_of_pool(settings, interrupt)
        if facts_of(driver).address.kind == "path" and facts_of(driver).place == "directory":
            return _size_of_file_system(Path(settings.get("path") or ""))
    except InputError as error:
        raise InputError(
            f'target "{target["name"]}": its store does not report its size: {error.message}',
            error.hint or "give fill in bytes, such as 500GiB",
        ) from error
    return None


def _size_of_file_system(path: Path) -> StoreSize:
    # A missing directory may later become the mount point of another file system.
    try:
        sizes = os.statvfs(path)
    except OSError as error:
        raise InputError(
            f'statvfs of "{path}": {error.strerror}', "mount or make it, or give fill in bytes"
        ) from error
    used = (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize
    # The same as df: space reserved for root is excluded.
    return StoreSize(total_bytes=used + sizes.f_bavail * sizes.f_frsize, used_bytes=used)


def _size_of_pool(settings: TargetSettings, interrupt: Interrupt) -> StoreSize:
    command = [*ceph_words("ceph", settings), "df", "-f", "json"]
    (ended,) = run_programs(
        [command],
        timeout_s=TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
    )
    if not ended.is_good:
        reason = (ended.tail.strip().splitlines() or [ended.state])[-1]
        reason = f"no answer within {TIMEOUT_S:.0f} s" if ended.state == "timeout" else reason
        raise InputError(
            f"{' '.join(command)}: {secrets.hide(reason, ())}",
            "on Debian: apt-get install ceph-common" if ended.state == "not started" else None,
        )
    try:
        usage = read_answers({"usage": json.loads(ended.output)})["usage"]
    except (ValueError, RecursionError) as error:
        raise InputError(f"the answer of ceph df cannot be read: {error}") from error
    pool = settings.get("pool") or ""
    pools = {pool["name"]: pool.get("stats") for pool in (usage or {}).get("pools") or ()}
    if pool not in pools:
        raise InputError(f'ceph df names no pool "{pool}"')
    stats = pools[pool]
    stored, room = (stats.get("stored"), stats.get("max_avail")) if stats else (None, None)
    if stored is None or room is None:
        raise InputError(f'ceph df reports no used or no free bytes of pool "{pool}"')
    # User data without copies and parity, which Ceph accounts for itself.
    return StoreSize(total_bytes=stored + room, used_bytes=stored)
