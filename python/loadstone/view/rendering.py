"""Renders pages on request, and caches them until their runs change."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.report.pages.frame import render_page
from loadstone.results.layout import MANIFEST, TRIALS
from loadstone.view.run_list import ListedRun, RunList

PAGES_KEPT = 8

# Errors that readers raise for edited or incomplete folders.
UNFIT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A page: its bytes, the template whose scripts it may run, and the HTTP status."""

    body: bytes
    template: str
    status: int = 200


class PageRenderer:
    """Renders one page at a time, so that a folder of large runs does not exhaust the host."""

    def __init__(self, runs: RunList) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[object, ...], RenderedPage] = OrderedDict()
        self._answers: dict[str, tuple[tuple[object, ...], Mapping[str, object]]] = {}

    def index(self) -> RenderedPage:
        """Return the list of runs."""
        runs = self._runs.read()
        body = render_page(
            "runs.html.jinja",
            data={"results": [], "rounds": []},
            title="Runs",
            folder=str(self._runs.folder).encode(errors="replace").decode(),
            runs=runs,
        )
        return RenderedPage(body=body, template="runs.html.jinja")

    def answer(self, run: ListedRun) -> Mapping[str, object]:
        """Return a run's list entry: its targets, and the best result with its validity."""
        mark = _mark(run)
        with self._lock:
            if self._answers.get(run.id, ((), {}))[0] != mark:
                try:
                    self._answers[run.id] = (mark, _answer(run))
                except (LoadstoneError, *UNFIT):
                    # The run's own page shows the reason.
                    self._answers[run.id] = (mark, {})
            return self._answers[run.id][1]

    def live(self, run: ListedRun) -> RenderedPage:
        """Return the page that follows a run."""
        data = {"results": [], "rounds": [], "id": run.id}
        body = render_page("live.html.jinja", data=data, title=run.folder, run=run)
        return RenderedPage(body=body, template="live.html.jinja")

    def report(self, run: ListedRun) -> RenderedPage:
        """Return a run's report."""

        def render() -> bytes:
            from loadstone.analysis import analyse
            from loadstone.report import REPORTS, Options
            from loadstone.results.store import read_run

            report = REPORTS["html"]
            read = read_run(run.path)
            return report.render(read, analyse(read, courses=report.draws), Options())

        return self._made(("report", *_mark(run)), "run.html.jinja", render)

    def comparison(self, a: ListedRun, b: ListedRun) -> RenderedPage:
        """Return the comparison of two runs, or the reason why they are not comparable."""

        def render() -> bytes:
            from loadstone.analysis.accounts import comparison, judged_account
            from loadstone.report.formats.comparison_page import render_comparisons
            from loadstone.results.store import read_run

            # Runs of one campaign have the same name, so their folders distinguish them.
            arms = [
                replace(judged_account.read_account(read_run(run.path)), name=run.folder)
                for run in (a, b)
            ]
            compared = comparison.compare(*arms)
            if compared.refused and not compared.is_overridden:
                fields = "; ".join(map(str, compared.refused[:8]))
                raise LoadstoneError(
                    f'"{a.folder}" and "{b.folder}" are not comparable: they differ in {fields}',
                    "name the field that may differ: loadstone compare A B --factor NAME",
                )
            return render_comparisons([compared], ())

        key = ("comparison", *_mark(a), *_mark(b))
        return self._made(key, "comparison.html.jinja", render)

    def message(self, text: str, hint: str = "", *, status: int) -> RenderedPage:
        """Return a page with an error message."""
        body = render_page("message.html.jinja", data=None, title="Not shown", text=text, hint=hint)
        return RenderedPage(body=body, template="message.html.jinja", status=status)

    def _made(self, key: tuple[object, ...], template: str, render: object) -> RenderedPage:
        assert callable(render)
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
                return self._pages[key]
            try:
                page = RenderedPage(body=render(), template=template)
            except LoadstoneError as error:
                return self.message(error.message, error.hint or "", status=422)
            except UNFIT as error:
                what = f"Files of the run are inconsistent: {type(error).__name__}: {error}"
                hint = "A run that goes on is shown live; one that was edited cannot be shown."
                return self.message(what, hint, status=422)
            self._pages[key] = page
            while len(self._pages) > PAGES_KEPT:
                self._pages.popitem(last=False)
            return page


def _answer(run: ListedRun) -> Mapping[str, object]:
    from loadstone.analysis import analyse
    from loadstone.analysis.answers.answer import answer_of, answer_of_scripts
    from loadstone.analysis.answers.headline import headline_of
    from loadstone.report.result_words import quantile_words, rate_words
    from loadstone.results.store import read_run

    findings = analyse(read_run(run.path), courses=False)
    answer = answer_of(findings)
    scripts = answer_of_scripts(findings, answer)
    results = answer.results if scripts is None else scripts.whole.results
    best = headline_of(findings, answer if scripts is None else scripts.whole).best
    # A run without a usable result shows the first one.
    shown = best or next(iter(results), None)
    facts: dict[str, object] = {
        "target": ", ".join(dict.fromkeys(result.target for result in results)),
        "operation": ", ".join(dict.fromkeys(result.operation for result in results)),
    }
    if shown is None:
        return facts
    times = shown.headline
    return facts | {
        "rate": rate_words(shown),
        "rate_value": shown.requests_per_s,
        "p99": quantile_words(times, "p99"),
        "p99_value": times.quantiles["p99"] if times is not None else None,
        "standing": shown.standing,
        "of": shown.operation if len({result.operation for result in results}) > 1 else "",
        "case": shown.name,
    }


def _mark(run: ListedRun) -> tuple[object, ...]:
    """Return a value that changes whenever a run's numbers do."""
    return (run.id, run.state, *(_changed_ns(run.path / name) for name in (MANIFEST, TRIALS)))


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1
