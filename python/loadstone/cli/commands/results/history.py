"""Compare many runs of one campaign: did it get slower, when, and does the newest run fit?

Name run folders, or folders that contain them. For each case it shows the present level, the
changes of level (E-Divisive; this needs about ten runs, three of them after the change) with
everything else that changed at that run, and whether the newest run fits the level before it.

For a nightly job, --check exits with code 3 if the newest run is worse, or if the level got worse
within the last --recent runs.

\b
Examples:
  loadstone history runs
  loadstone history runs --campaign nightly --metric service_ns_p99
  loadstone history runs --check --recent 7
  loadstone history runs -o history.html
  loadstone history runs/2026-11-* -o history.csv
"""

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadstone import units
from loadstone.analysis.naming import metric_value, metric_words
from loadstone.analysis.rules import label_words
from loadstone.cli import completion, exit_code
from loadstone.cli.flags import Overwrite
from loadstone.cli.screen.output import write_files
from loadstone.errors import InputError, LoadstoneError

if TYPE_CHECKING:
    from loadstone.analysis.accounts.history import Entry, History, Trend

BARS = "▁▂▃▄▅▆▇█"
POINTS_SHOWN = 24
FORMATS = {"": "terminal", ".txt": "terminal", ".json": "json", ".csv": "csv", ".html": "html"}


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, or folders that hold them.",
            metavar="DIR...",
            autocompletion=completion.run_folders,
        ),
    ],
    campaign: Annotated[str | None, typer.Option(help="Only runs of this campaign.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="requests_per_s, bytes_per_s, service_ns_p99 and the like; repeatable."
            " Default: requests_per_s, seconds of queries, and service_ns_p99."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with code 3 if a case got worse.")
    ] = False,
    recent: Annotated[
        int, typer.Option(min=1, help="For --check: changes within this many last runs count.")
    ] = 10,
    form: Annotated[
        str | None, typer.Option("--format", "-f", help="terminal, json, csv or html.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File; its ending gives the format: .html, .json, .csv."
        ),
    ] = None,
    overwrite: Overwrite = False,
    seed: Annotated[int, typer.Option(help="Seed of the permutations.")] = 1,
) -> None:
    from loadstone.analysis.accounts import history
    from loadstone.cli import plain

    form = form or _form_of(output)
    if form not in FORMATS.values():
        raise InputError.of_value(form, f"a format: {', '.join(dict.fromkeys(FORMATS.values()))}")
    if form == "html" and output is None:
        raise InputError("cannot print an HTML page", "name a file: -o history.html")
    entries, name = _of_one_campaign(_read(folders), campaign)
    traced = history.trace(entries, metrics=metric or history.METRICS, seed=seed)
    if not traced.trends:
        measured = dict.fromkeys(m for entry in entries for m in entry.account.metrics)
        wanted = ", ".join(metric or history.METRICS)
        if measured.keys() & set(metric or history.METRICS):
            why = ", ".join(map(label_words, traced.left_out))
            print(f"no run has a valid value of {wanted}: {why}", file=sys.stderr)
            raise typer.Exit(exit_code.VOID)
        hint = f"these runs have {', '.join(measured)}" if measured else "they measured nothing"
        raise InputError(f"no run has a valid value of {wanted}", hint)
    shown = _page(traced, name) if form == "html" else WRITERS[form](traced).encode()
    if output is None:
        text = shown.decode()
        print(plain(text) if form == "terminal" else text, end="")
    else:
        write_files({output: shown}, may_overwrite=overwrite)
        print(f"written: {output}", file=sys.stderr)
    regressed = [trend for trend in traced.trends if trend.is_regressed(recent)]
    if check and regressed:
        names = "; ".join(f"{trend.name} {metric_words(trend.metric)}" for trend in regressed)
        is_text = output is None and form == "terminal"
        # The reason for the exit code is printed last, and not written to files for programs.
        print(
            plain(f"worse within the last {units.counted(recent, 'run')}: {names}"),
            file=sys.stdout if is_text else sys.stderr,
        )
        raise typer.Exit(exit_code.WORSE)


def _form_of(output: Path | None) -> str:
    suffix = output.suffix.lower() if output is not None else ""
    if suffix not in FORMATS:
        raise InputError(
            f'cannot tell the format of a history from the ending of "{output}"',
            "name a file that ends in .html, .json or .csv, or give -f",
        )
    return FORMATS[suffix]


def _page(traced: "History", campaign: str) -> bytes:
    from loadstone.report.formats.history_page import render_history

    return render_history(traced, campaign)


def _read(folders: list[Path]) -> list[tuple[str, "Entry"]]:
    """Return the runs with the names of their campaigns; print those that cannot be read."""
    from loadstone.analysis.accounts import judged_account
    from loadstone.analysis.accounts.history import Entry
    from loadstone.cli import plain
    from loadstone.results.layout import MANIFEST
    from loadstone.results.store import read_run

    entries: list[tuple[str, Entry]] = []
    paths: list[Path] = []
    for folder in folders:
        if (folder / MANIFEST).is_file():
            paths.append(folder)
            continue
        inner = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
        if not inner:
            raise InputError(f'"{folder}" is not a run folder, and contains none')
        paths += inner
    for path in dict.fromkeys(path.resolve() for path in paths):
        try:
            run = read_run(path)
            name = str((run.manifest.get("campaign") or {}).get("name") or run.name)
            started = str(run.manifest.get("started") or "")
            account = judged_account.read_account(run)
        except LoadstoneError as error:
            print(plain(f"left out: {error.message}"), file=sys.stderr)
            continue
        entries.append((name, Entry(name=path.name, started=started, account=account)))
    return entries


def _of_one_campaign(
    named_entries: list[tuple[str, "Entry"]], wanted: str | None
) -> tuple[list["Entry"], str]:
    """Return the runs of one campaign, and its name."""
    names = dict.fromkeys(name for name, _ in named_entries)
    if wanted is not None and wanted not in names:
        known = ", ".join(names) or "none that can be read"
        raise InputError(f'no run of campaign "{wanted}"', f"these runs are of: {known}")
    if wanted is None and len(names) > 1:
        raise InputError(
            f"these runs are of {len(names)} campaigns: {', '.join(names)}",
            "choose one with --campaign",
        )
    entries = [entry for name, entry in named_entries if wanted in (None, name)]
    return entries, wanted or next(iter(names), "")


def _as_text(traced: "History") -> str:
    first, last = traced.entries[0], traced.entries[-1]
    lines = [
        f"{units.counted(len(traced.entries), 'run')}, {first.started[:10]} to {last.started[:10]};"
        f" newest: {last.name}",
        "",
    ]
    width = max(len(trend.name) for trend in traced.trends)
    for metric in dict.fromkeys(trend.metric for trend in traced.trends):
        lines.append(_heading(metric))
        for trend in traced.trends:
            if trend.metric == metric:
                lines += _lines_of(trend, width)
        lines.append("")
    for label, count in traced.left_out.items():
        lines.append(f"left out: {units.counted(count, 'value')}: {label_words(label)}")
    lines.append(_answer(traced))
    return "\n".join(lines) + "\n"


def _heading(metric: str) -> str:
    from loadstone.analysis.accounts.account import is_lower_better

    better = "lower is better" if is_lower_better(metric) else "higher is better"
    return f"{metric_words(metric)} ({better})"


def _lines_of(trend: "Trend", width: int) -> list[str]:
    values = [point.value for point in trend.points]
    drawn = _sparkline(values[-POINTS_SHOWN:])
    word = {"as before": "", "unknown": "too few runs"}.get(trend.newest, f"newest {trend.newest}")
    if trend.expected is not None and trend.newest in ("better", "worse"):
        low, high = (metric_value(bound, trend.metric) for bound in trend.expected)
        word += f" (expected {low} to {high})"
    head = f"  {trend.name:<{width}}  {metric_value(values[-1], trend.metric):>11}  {drawn}  {word}"
    lines = [head.rstrip()]
    for change in trend.changes:
        what = "worse" if change.is_worse else "better"
        before, after = (
            metric_value(level, trend.metric) for level in (change.before, change.after)
        )
        lines.append(
            f"    {change.magnitude:+.0%} ({what}) from {change.run}:"
            f" {before} to {after}, p {change.p_words}"
        )
        lines += [f"      changed there: {difference}" for difference in change.differing]
    return lines


def _answer(traced: "History") -> str:
    from loadstone.analysis.accounts.history import RUNS_FOR_A_CHANGE, answer_words

    answer = answer_words(traced)
    if max(len(trend.points) for trend in traced.trends) < RUNS_FOR_A_CHANGE:
        answer += f"\nChanges of level are detected in {RUNS_FOR_A_CHANGE} runs or more."
    return answer


def _sparkline(values: list[float]) -> str:
    """Draw values as bars; the axis begins at zero, so that noise does not look like a change."""
    top = max(values)
    return "".join(BARS[min(7, int(8 * value / top))] for value in values)


def _as_json(traced: "History") -> str:
    document: dict[str, Any] = {
        "format": 1,
        "runs": [{"run": entry.name, "started": entry.started} for entry in traced.entries],
        "left_out": dict(traced.left_out),
        "trends": [
            {
                "case": dict(trend.case),
                "metric": trend.metric,
                "newest": trend.newest,
                "expected": list(trend.expected) if trend.expected else None,
                "points": [
                    {
                        "run": point.run,
                        "started": point.started,
                        "value": point.value,
                        "n": point.trials,
                    }
                    for point in trend.points
                ],
                "changes": [
                    {
                        "run": change.run,
                        "started": change.started,
                        "before": change.before,
                        "after": change.after,
                        "p": change.p,
                        "is_worse": change.is_worse,
                        "differing": [
                            {"field": field.field, "before": field.a, "after": field.b}
                            for field in change.differing
                        ],
                    }
                    for change in trend.changes
                ],
            }
            for trend in traced.trends
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_csv(traced: "History") -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("case", "metric", "run", "started", "value", "n", "level_changes_here"))
    for trend in traced.trends:
        begun = {change.run for change in trend.changes}
        for point in trend.points:
            where = map(units.csv_cell, (trend.name, trend.metric, point.run, point.started))
            writer.writerow((*where, repr(point.value), point.trials, point.run in begun))
    return out.getvalue()


WRITERS = {"terminal": _as_text, "json": _as_json, "csv": _as_csv}
