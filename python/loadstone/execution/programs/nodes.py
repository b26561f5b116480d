"""Describes the machines that a campaign names: one program sent to each, all at once.

A machine that does not answer is recorded with the reason, and stops nothing.
"""

from collections.abc import Mapping

from loadstone.campaign.schema.systems.node import Node
from loadstone.documents.node import NodeDocument
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Ended, run_programs
from loadstone.execution.programs.reaching import command_on, new_mark, shell_file, why_failed
from loadstone.formats.survey import read_survey

TIMEOUT_S = 60.0


def survey(nodes: Mapping[str, Node], interrupt: Interrupt) -> dict[str, NodeDocument]:
    """Return what each machine says of itself, with its host and roles, by the campaign's names.

    One that could not be asked has "failed", the reason, instead.
    """
    mark = new_mark()
    found = run_programs(
        [
            command_on(node, shell_file("survey.sh"), _settings(node, mark))
            for node in nodes.values()
        ],
        timeout_s=TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
        tick=lambda passed_s: None,
    )
    return {
        name: {"host": node.host, "roles": list(node.roles), **_read(ended, mark)}
        for (name, node), ended in zip(nodes.items(), found, strict=True)
    }


def _settings(node: Node, mark: str) -> dict[str, str]:
    return {
        "mark": mark,
        "sudo": "sudo -n" if node.sudo else "",
        # What a monitor knows of pools; others need not be allowed to ask.
        "pools": "yes" if "mon" in node.roles else "",
    }


def _read(ended: Ended, mark: str) -> NodeDocument:
    text = ended.output.decode(errors="replace")
    if mark in text:
        return read_survey(text, mark)
    return {"failed": why_failed(ended, TIMEOUT_S)}
