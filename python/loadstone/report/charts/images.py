"""Every chart as a file of its own, for slides and papers: SVG and PNG, made without a browser."""

import contextlib
from collections.abc import Mapping, Sequence
from importlib import resources

import resvg_py

from loadstone.analysis import Findings
from loadstone.report.charts.headless import Picture, draw
from loadstone.report.formats.html import drawn_of_run
from loadstone.report.options import Options
from loadstone.results.record import Run

PNG_SCALE = 2
FONT = "Inter"


def render_svg(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one SVG for each chart."""
    return svg_files(_pictures(run, findings, options))


def render_png(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one PNG for each chart, twice as fine as a screen needs it."""
    return png_files(_pictures(run, findings, options))


def _pictures(run: Run, findings: Findings, options: Options) -> tuple[Picture, ...]:
    """Return a layout's own charts where it has some, or else all charts of the run."""
    of_layout = options.layout.chart_data if options.layout is not None else None
    data = of_layout(run, findings, options) if of_layout else drawn_of_run(run, findings)
    return draw(data)


def svg_files(pictures: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as SVG, by their files' names."""
    return {f"{picture.name}.svg": picture.svg.encode() for picture in pictures}


def png_files(pictures: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as PNG, by their files' names, in a font that needs none of the host's."""
    fonts = resources.files("loadstone.report.pages").joinpath("vendor", "fonts")
    with contextlib.ExitStack() as stack:
        files = [
            str(stack.enter_context(resources.as_file(fonts / f"Inter-{weight}.ttf")))
            for weight in ("Regular", "SemiBold")
        ]
        return {
            f"{picture.name}.png": resvg_py.svg_to_bytes(
                svg_string=picture.svg,
                zoom=PNG_SCALE,
                font_files=files,
                font_family=FONT,
                sans_serif_family=FONT,
                # Names in scripts that the font lacks are drawn where the host has a font for them.
                skip_system_fonts=_is_known(picture.svg),
            )
            for picture in pictures
        }


def _is_known(text: str) -> bool:
    """Tell whether the fonts that are shipped have every letter of a text."""
    return all(letter <= "\u045f" or "\u2010" <= letter <= "\u27ff" for letter in text)
