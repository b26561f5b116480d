"""Every chart as a file of its own, for slides and papers: SVG and PNG, made without a browser."""

import json
from collections.abc import Mapping

import vl_convert

from loadstone.analysis import Findings
from loadstone.report.charts import pictures
from loadstone.report.options import Options
from loadstone.results.record import Run

PNG_SCALE = 2


def render_svg(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one SVG for each chart."""
    return {
        f"{picture.name}.svg": vl_convert.vegalite_to_svg(
            json.dumps(picture.specification(with_title=True))
        ).encode()
        for picture in pictures(findings)
    }


def render_png(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one PNG for each chart, twice as fine as a screen needs it."""
    return {
        f"{picture.name}.png": vl_convert.vegalite_to_png(
            json.dumps(picture.specification(with_title=True)), scale=PNG_SCALE
        )
        for picture in pictures(findings)
    }
