"""A small campaign with ceilings or hooks, and programs that behave as a test asks."""

import datetime
import stat
from pathlib import Path
from typing import Any

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.resume import resume as resume_plan
from loadstone.execution import runner
from loadstone.execution.interrupt import Interrupt
from loadstone.results.store import RunWriter
from tests.unit.campaign_drivers import DRIVERS

CAMPAIGN = """
name: test
targets:
  one: {driver: rados, pool: p}
dataset: {objects: 100, size: 4KiB}
load: {threads: 4}
phases: [put, get]
"""


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {folder}/calls\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.removeprefix(f"{folder}/") for line in lines]


def plan_of(text: str) -> Plan:
    return make_plan(parse_campaign(CAMPAIGN + text, drivers=DRIVERS, environ={}), DRIVERS)


def create(path: Path, plan: Plan, text: str = "") -> RunWriter:
    campaign = parse_campaign(CAMPAIGN + text, drivers=DRIVERS, environ={}).document()
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started,
    }
    return RunWriter.create(path, {**manifest, "campaign": campaign})


def run(
    folder: Path, text: str, listen: Any = lambda event: None, interrupt: Interrupt | None = None
) -> runner.RunEnd:
    plan = plan_of(text)
    return runner.execute(plan, create(folder, plan, text), listen, interrupt=interrupt)


def resume(folder: Path, text: str, listen: Any = lambda event: None) -> runner.RunEnd:
    writer = RunWriter.reopen(folder)
    return runner.execute(resume_plan(plan_of(text), writer.finished), writer, listen)
