"""The frame of a page that loads nothing: its head, its style, its charts and what draws them."""

import functools
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources

import vl_convert

from loadstone.report.charts.drawing import Picture

DRAW = """
for (const element of document.querySelectorAll('.chart')) {
  const data = document.getElementById(element.dataset.specification);
  vegaEmbed(element, JSON.parse(data.textContent),
            {mode: 'vega-lite', renderer: 'svg', actions: false});
}
"""


def whole_page(title: str, body: Iterable[str], drawn: Sequence[Picture]) -> bytes:
    """Return a page; the charts that its body has places for are drawn by scripts inside it."""
    scripts = [_specification(picture) for picture in drawn]
    if drawn:
        scripts.append(f"<script>{_chart_program()}</script>\n<script>{DRAW}</script>")
    page = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # An icon of its own: without one, browsers would ask for one.
        '<link rel="icon" href="data:,">',
        f"<title>{text_of(title)} – loadstone</title>",
        f"<style>\n{_style()}</style>",
        "</head>",
        "<body>",
        *body,
        *scripts,
        "</body>",
        "</html>",
    ]
    return ("\n".join(page) + "\n").encode()


def charts_section(drawn: Sequence[Picture]) -> Iterable[str]:
    """Return the section of charts: a place, a title and a caption for each."""
    if not drawn:
        return
    yield '<section id="charts"><h2>Charts</h2>'
    yield "<noscript><p>Charts need a browser with scripts; the numbers do not.</p></noscript>"
    for picture in drawn:
        yield from figure(picture)
    yield "</section>"


def figure(picture: Picture) -> Iterable[str]:
    """Return the place of one chart."""
    name = text_of(picture.name)
    yield f'<figure id="{name}"><h3>{text_of(picture.title)}</h3>'
    yield f"<figcaption>{text_of(picture.caption)}</figcaption>"
    yield (
        f'<div class="chart" data-specification="{name}-specification" role="img" '
        f'aria-label="{text_of(picture.title)}"></div></figure>'
    )


def text_of(value: object) -> str:
    """Return a value as text that cannot become markup."""
    return html.escape(str(value))


def _specification(picture: Picture) -> str:
    text = json.dumps(picture.specification(with_title=False), separators=(",", ":"))
    # Inside a script element only "</" could end it early.
    safe = text.replace("</", "<\\/")
    return f'<script type="application/json" id="{picture.name}-specification">{safe}</script>'


@functools.cache
def _chart_program() -> str:
    program: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return program.replace("</script", "<\\/script")


def _style() -> str:
    return (
        resources.files("loadstone.report.formats").joinpath("page.css").read_text(encoding="utf-8")
    )
