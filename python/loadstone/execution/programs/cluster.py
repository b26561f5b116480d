"""Reads the state of a Ceph cluster before and after a trial, with the ceph command."""

import json
from collections.abc import Sequence
from typing import Any

from loadstone.campaign.planning.ceiling_plan import ceph_words, command_via, is_pool
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.schema.target_probe import CephProbe
from loadstone.documents.python_types import TargetSettings
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Ended, run_programs
from loadstone.probes.ceph import QUESTIONS, digest


class Clusters:
    """The clusters that a plan monitors."""

    def __init__(self, plan: Plan, interrupt: Interrupt) -> None:
        self._probes = plan.probes.ceph
        self._interrupt = interrupt
        # Targets in a pool name the pool in their settings.
        self._settings = {
            document["target"]["name"]: document["target"]["settings"]
            for document in plan.documents()
            if is_pool(document["target"]["driver"])
        }

    def look(self, document: TrialDocument, absent: dict[str, str]) -> TargetState:
        """Return the state of the cluster behind a trial's target.

        Missing values are listed in `absent` with reasons.
        """
        probe = self._probe_of(document)
        if probe is None or self._interrupt.is_asked:
            return {}
        nothing: TargetSettings = {}
        settings = self._settings.get(document["target"]["name"], nothing)
        answers = self._ask(probe, settings, absent)
        pool = settings.get("pool")
        pools = probe.pools or ((pool,) if pool else ())
        try:
            return {"ceph": digest(answers, pools)} if answers else {}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Another program may be installed as `ceph`: its output must not end a run.
            what = f"not valid output of ceph: {type(error).__name__}: {error}"
            absent["ceph"] = secrets.hide(what, ())
            return {}

    def _probe_of(self, document: TrialDocument) -> CephProbe | None:
        if not document["measured"]:
            return None
        name = document["case"]["target"]
        return next(
            (probe for probe in self._probes if not probe.targets or name in probe.targets), None
        )

    def _ask(
        self, probe: CephProbe, settings: TargetSettings, absent: dict[str, str]
    ) -> dict[str, Any]:
        settings_of_probe = {key: getattr(probe, key) for key in ("conf", "keyring", "user")}
        reach = {**settings, **{key: value for key, value in settings_of_probe.items() if value}}
        ceph = ceph_words("ceph", reach)
        programs = run_programs(
            [
                command_via(probe.via, [*ceph, *question, "-f", "json"])
                for question in QUESTIONS.values()
            ],
            timeout_s=probe.timeout_ns / 1e9,
            is_stopped=lambda: self._interrupt.is_asked,
        )
        return _answers(programs, absent)


def _answers(programs: Sequence[Ended], absent: dict[str, str]) -> dict[str, Any]:
    answers = {}
    for (name, question), ended in zip(QUESTIONS.items(), programs, strict=True):
        try:
            if not ended.is_good:
                lines = ended.tail.splitlines() or [ended.state]
                raise ValueError(lines[-1] if ended.state == "ended" else ended.state)
            answers[name] = json.loads(ended.output)
        except (ValueError, RecursionError) as error:
            absent[f"ceph {' '.join(question)}"] = secrets.hide(str(error), ())
    return answers
