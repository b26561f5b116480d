"""The disclosure: everything a reader must know of a run, and the standard it meets, as YAML."""

import io

from ruamel.yaml import YAML

from loadstone.analysis import Findings
from loadstone.analysis.standard import declare, disclosure, statements_of
from loadstone.report.layout import NOT_KNOWN, Column, Table
from loadstone.report.options import Options
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return disclosure.yaml; an empty field is something that nobody stated or saw."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 100
    writer.representer.sort_base_mapping_type_on_output = False
    stream = io.BytesIO()
    writer.dump(disclosure(run, findings), stream)
    return stream.getvalue()


def standard_table(run: Run, findings: Findings) -> Table:
    """Return the rules of the standard and which of them the run meets."""
    rules = declare(run, findings)
    met = sum(one.status == "met" for one in rules)
    failed = sum(one.status == "not met" for one in rules)
    return Table(
        title="The standard",
        columns=(
            Column(head="No."),
            Column(head="Rule", align="left"),
            Column(head="Is", align="left"),
            Column(head="Because", align="left"),
        ),
        rows=tuple((str(one.number), one.title, one.status, one.because) for one in rules),
        caption=f"{met} of {len(rules)} rules are met, {failed} are not.",
        notes=("The whole disclosure: loadstone report RUN -f disclosure.",),
    )


def statements_table(run: Run) -> Table:
    """Return what the campaign states of what nobody can measure."""
    return Table(
        title="Statements",
        columns=(Column(head="Of", align="left"), Column(head="Stated", align="left")),
        rows=tuple((name, text or NOT_KNOWN) for name, text in statements_of(run).items()),
        notes=("Statements are the campaign's own; nobody checked them.",),
    )
