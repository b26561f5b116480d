"""Runs a campaign from its plan to its report, for the commands run, bench, ab, audit and demo."""

import contextlib
import datetime
import functools
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO, cast

from loadstone.campaign.planning.existing import Lists
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.planning.scripted import Scripts
from loadstone.campaign.resume import RECORDED, Change, changes
from loadstone.campaign.resume import resume as resume_plan
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.target import http_url
from loadstone.campaign.search import Goal, Observation
from loadstone.cli import exit_code, extras, fail_if, plain
from loadstone.cli.messages import say, tell
from loadstone.cli.running import consent, load_hosts
from loadstone.cli.running.reuse import note_deletes, reused_by
from loadstone.cli.running.scripts import CampaignScripts, making_scripts
from loadstone.cli.running.stores import keep_lists, making_lists, store_sizes
from loadstone.documents.ceiling import CeilingDocument
from loadstone.documents.manifest import CampaignChange, Manifest, Resumption, RunOutcome
from loadstone.documents.mix import LOCKS, operations_of
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError, LeftBehindError, LoadstoneError
from loadstone.execution import runner
from loadstone.execution.cleaning import what_is_left
from loadstone.execution.events import Event
from loadstone.execution.executors import absent_secrets, check_documents
from loadstone.execution.host import limits as host_limits
from loadstone.execution.host.memory_group import MemoryGroup, limited
from loadstone.execution.payload_files import PayloadFiles
from loadstone.execution.programs.ceilings import check_programs
from loadstone.execution.programs.hooks import undo_faults_left
from loadstone.results import calibration
from loadstone.results.files import durable
from loadstone.results.layout import MANIFEST, NodeOutputs, read_manifest
from loadstone.results.record import Record
from loadstone.results.store import damaged_logs, read_run
from loadstone.results.writer import RunWriter, is_only_begun

if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.analysis.judgements.thresholds import Threshold
    from loadstone.execution.object_lists import ListMaker

REMAINS_SHOWN = 8


class Keeper(Protocol):
    """Receives all events of a run and acts on them, such as a gate that computes its answer."""

    is_resumable: bool
    """Whether the command that began the run can resume it with --resume."""
    shows_trials: bool  # if False, the keeper prints the progress itself

    def watch(self, event: Event) -> None:
        """Process an event; the run waits until this returns."""

    def decide(self, folder: Path, blocks: int) -> bool:
        """Return whether the run may end after this many blocks."""

    def conclude(self, folder: Path, end: runner.RunEnd) -> int:
        """Print the answer and return the exit code."""


class LiveMetrics(NamedTuple):
    """Destinations of live metrics: an address to serve them at, a URL to push them to."""

    listen: str | None = None
    push: str | None = None

    def check(self) -> None:
        """Refuse unusable destinations and a URL with a secret, before a run folder is made."""
        if self.push is not None:
            http_url(self.push)
            if not extras.has("otlp"):
                raise extras.refuse("--metrics-push", "otlp")
        if self.listen is not None:
            from loadstone.view.live_metrics import listener

            listener(self.listen).server_close()


NO_METRICS = LiveMetrics()


def default_folder(name: str) -> Path:
    """Return a new run folder whose name sorts by time."""
    now = datetime.datetime.now(datetime.UTC)
    return Path("runs") / f"{now:%Y-%m-%dT%H%M%S}-{name}-{uuid.uuid4().hex[:4]}"


def measure(
    campaign: Campaign,
    folder: Path,
    *,
    resume: bool = False,
    file: Path | None = None,
    text: str | None = None,
    command: str | None = None,
    form: str = "terminal",
    allow_commands: bool = False,
    with_page: bool = False,
    thresholds: Sequence["Threshold"] = (),
    gate: Keeper | None = None,
    is_quiet: bool = False,
    metrics: LiveMetrics = NO_METRICS,
) -> int:
    """Run a campaign into a folder, print its report, and return the exit code.

    `with_page` first writes report.html into the folder. A `gate` may end the run early. The
    manifest stores the campaign's `text`. `file` is needed to resume; "-" is standard input.
    """
    # A wrong report name is refused before hours of load instead of after them.
    from loadstone.cli.reporting import find_report
    from loadstone.cli.screen.progress import make_view

    find_report(form)
    metrics.check()
    if resume and is_only_begun(folder):
        print(f"run folder {folder} is of a run that never started: it starts now", file=sys.stderr)
        resume = False
    if resume:
        begun = read_manifest(folder)
        fail_if.check_thresholds(thresholds, begun["plan"])
        if begun["state"] == "finished":
            return _finished(campaign, folder, form, thresholds, gate)
    with contextlib.ExitStack() as stack:
        plan: Plan
        scripts = stack.enter_context(making_scripts(campaign))
        lists = stack.enter_context(making_lists(campaign, folder if resume else None))
        makers = (scripts, lists)
        if resume:
            writer, plan = _take_up(campaign, folder, text, allow_commands, makers)
            stack.enter_context(writer)
            group = _limited(campaign, plan.run, folder, stack)
            hosts = stack.enter_context(load_hosts.joined(campaign, plan))
        else:
            plan = _checked_plan(campaign, allow_commands, makers)
            fail_if.check_thresholds(thresholds, plan.documents())
            group = _limited(campaign, plan.run, folder, stack)
            # Hosts join first, so that an unreachable host leaves no run folder behind.
            hosts = stack.enter_context(load_hosts.joined(campaign, plan))
            writer = stack.enter_context(_begin(campaign, plan, folder, text, command))
        _keep_inputs(scripts, lists, folder, writer)
        if hosts.documents:
            writer.amend({"hosts": list(hosts.documents)})
        _export(metrics, folder, stack)
        done = max(0, len(writer.manifest["plan"]) - len(plan.trials)) if resume else 0
        view = make_view(plan.trials, done, is_quiet=is_quiet, has_trials=_shows_trials(gate))
        try:
            note_deletes(campaign, plan)
            end = runner.execute(
                plan, writer, _listen(view.show, gate), schedule=campaign.schedule,
                observe=_observe, table=hosts.table,
                decide=None if gate is None else functools.partial(gate.decide, folder),
            )  # fmt: skip
        except BaseException:
            # The folder may be unreadable for the same reason that stopped the run.
            with contextlib.suppress(LoadstoneError):
                _print_left(folder, file, command, gate)
            raise
        finally:
            view.close()
            if group is not None:
                writer.amend({"limits": group.use()})
        is_gone = file is None and _is_discarded(end, writer)
    for problem in end.problems:
        tell(problem)
    if end.state == "interrupted":
        return _interrupted(end, folder, file, form, command, gate)
    if is_gone:
        print("run folder removed: nothing was measured or written to a target", file=sys.stderr)
        return exit_code.FAILED
    print(f"run folder: {folder}", file=sys.stderr)
    _print_remains(folder)
    # The answer is printed last, so that other output does not scroll it off the screen.
    sys.stderr.flush()
    if gate is not None:
        return gate.conclude(folder, end)
    findings = _print_report(folder, form, thresholds=thresholds, with_page=with_page)
    return _exit_code(end, campaign, thresholds, findings, is_left=_is_left(folder, campaign))


def _shows_trials(gate: Keeper | None) -> bool:
    return gate is None or gate.shows_trials


def _listen(show: Callable[[Event], None], gate: Keeper | None) -> Callable[[Event], None]:
    """Return a listener that passes each event to the screen, then to the keeper."""

    def listen(event: Event) -> None:
        show(event)
        if gate is not None:
            gate.watch(event)

    return listen


def _export(metrics: LiveMetrics, folder: Path, stack: contextlib.ExitStack) -> None:
    if metrics.push is not None:
        from loadstone.view.metrics_push import pushing_metrics

        stack.enter_context(pushing_metrics(folder, metrics.push, say))
    if metrics.listen is not None:
        from loadstone.view.live_metrics import serving_metrics

        url = stack.enter_context(serving_metrics(folder, metrics.listen))
        print(f"metrics: {url}", file=sys.stderr)


def _interrupted(
    end: runner.RunEnd,
    folder: Path,
    file: Path | None,
    form: str,
    command: str | None,
    gate: Keeper | None,
) -> int:
    """Print the remains of a stopped run and how to resume it; return the exit code."""
    _print_left(folder, file, command, gate)
    sys.stderr.flush()
    if gate is not None:
        return gate.conclude(folder, end)
    # A report of the finished trials, marked as interrupted; the load has ended.
    _print_report(folder, form)
    return exit_code.FAILED if end.is_cut_unasked else exit_code.INTERRUPTED


def _print_left(folder: Path, file: Path | None, command: str | None, gate: Keeper | None) -> None:
    """Print the remains of a run that ended early, and how to resume a campaign or a gate."""
    print(f"run folder: {folder}", file=sys.stderr)
    _print_remains(folder)
    if file is not None or (gate is not None and gate.is_resumable):
        say(f"hint: continue with: {_resuming(command, file, folder)}")
        if str(file) == "-":
            key = "campaign_file"
            print(f'hint: use the same campaign: "{key}" of {MANIFEST}', file=sys.stderr)


def _resuming(command: str | None, file: Path | None, folder: Path) -> str:
    """Return the command that resumes a run: as typed, because its --set values must not change."""
    words = shlex.split(command) if command else ["loadstone", "run", str(file)]
    # Options after a gate's workload belong to the workload.
    at = len(words) if file is not None else words.index("ab") + 1
    is_named = any(word.startswith(("-o", "--out")) for word in words)
    options = [] if is_named else ["-o", str(folder)]
    options += [] if "--resume" in words else ["--resume"]
    return shlex.join([*words[:at], *options, *words[at:]])


def _is_discarded(end: runner.RunEnd, writer: RunWriter) -> bool:
    """Remove an empty run folder unless it belongs to a campaign, whose run can be resumed."""
    is_refused = bool(end.problems) and end.state != "interrupted"
    return is_refused and writer.discard_if_empty()


def _limited(
    campaign: Campaign, run: str, folder: Path, stack: contextlib.ExitStack
) -> MemoryGroup | None:
    """Apply the campaign's limits to this process; None if there are none."""
    limit_bytes = campaign.limits.memory_bytes
    if limit_bytes is None:
        return None
    if campaign.hosts is not None:
        raise InputError(
            "limits.memory applies to this process, but the campaign's hosts make the load",
            "leave out limits, or hosts",
        )
    return stack.enter_context(limited(limit_bytes, run, folder))


def _checked_plan(campaign: Campaign, allow_commands: bool, makers: tuple[Scripts, Lists]) -> Plan:
    """Return the plan of a new run after all checks that need no load."""
    scripts, lists = makers
    plan = make_plan(
        campaign, run=uuid.uuid4().hex, reused=reused_by(campaign), starts=1, scripts=scripts,
        stores=store_sizes(campaign), lists=lists, payload_files=PayloadFiles(campaign),
    )  # fmt: skip
    check_documents(plan)
    # Client hosts have their own environment, and report missing variables themselves.
    is_looked_up_here = campaign.hosts is None or campaign.hosts.sends_secrets
    for absent in absent_secrets(plan) if is_looked_up_here else ():
        raise absent
    check_programs(plan.ceilings, plan.hooks)
    consent.ask(plan, campaign.hosts, is_allowed=allow_commands)
    # Limits of this host apply only to load that it makes itself.
    for worry in host_limits.check(plan) if campaign.hosts is None else ():
        say(f"warning: {worry.text}\nhint: {worry.hint}")
    tell_of_locks(plan)
    return plan


def tell_of_locks(plan: Plan, stream: TextIO | None = None) -> None:
    """Print on which targets objects will be locked, and how they are removed."""
    retentions = {
        document["target"]["name"]: document["target"].get("settings", {}).get("retention_s")
        for document in plan.documents()
        if not LOCKS.isdisjoint(operations_of(document))
    }
    for name, retention_s in retentions.items():
        say(
            f'note: objects of target "{name}" are locked, for {retention_s} s or by a legal hold;'
            " the clean-up lifts the locks",
            stream,
        )


def _print_remains(folder: Path) -> None:
    """Print the data that is, or may be, left on the targets, and the command that removes it."""
    left = what_is_left(folder)
    for dataset in left[:REMAINS_SHOWN]:
        text = "; ".join((f"not cleaned up: {dataset.describe()}", *dataset.reasons))
        print(plain(text), file=sys.stderr)
    if len(left) > REMAINS_SHOWN:
        print(f"and {len(left) - REMAINS_SHOWN} datasets more", file=sys.stderr)
    # In a place of others a clean-up deletes nothing.
    if any(dataset.kinds != {"foreign"} for dataset in left):
        versions = " --versions" if any(dataset.has_versions for dataset in left) else ""
        say(f"hint: remove it with: loadstone clean {folder}{versions}")


def _exit_code(
    end: runner.RunEnd,
    campaign: Campaign,
    thresholds: Sequence["Threshold"],
    findings: "Findings | None",
    *,
    is_left: bool,
) -> int:
    """Return the exit code of the worst problem; remaining data does not void results."""
    code = fail_if.judge_all(thresholds, findings) if thresholds else 0
    left = [problem for problem in end.problems if isinstance(problem, LeftBehindError)]
    if len(left) < len(end.problems):
        return exit_code.FAILED
    # With a threshold of failures, that threshold decides; otherwise any failure outside faults
    # counts.
    is_bounded = any(threshold.metric == "failures" for threshold in thresholds)
    is_judged = campaign.expect.failures or bool(campaign.faults) or is_bounded
    if not code and end.failed_requests and not is_judged:
        return exit_code.FAILED
    if findings is not None and not is_bounded and fail_if.has_failed_outside(findings):
        return exit_code.FAILED
    if findings is not None:
        code = code or fail_if.judge_standing(findings, are_failures_expected=is_judged)
    return code or (exit_code.LEFT if left or is_left else 0)


def _is_left(folder: Path, campaign: Campaign) -> bool:
    """Tell whether a run's clean-up left data that no later clean-up removed."""
    is_cleaned = bool(read_manifest(folder).get("cleaned"))
    return not campaign.keep_data and not is_cleaned and bool(what_is_left(folder))


def _finished(
    campaign: Campaign,
    folder: Path,
    form: str,
    thresholds: Sequence["Threshold"],
    gate: Keeper | None,
) -> int:
    """Print that a run is finished, and its report; return the exit code of the whole run."""
    _changes(campaign, read_manifest(folder), folder)
    run = read_run(folder)
    print(f"run {folder} is finished: nothing is left to run", file=sys.stderr)
    if gate is not None:
        return gate.conclude(folder, runner.RunEnd())
    findings = _print_report(folder, form, thresholds=thresholds)
    end = runner.whole_end(
        {"trial": record.trial, "summary": record.summary, "labels": list(record.labels)}
        for record in run.records
    )
    for problem in end.problems:
        tell(problem)
    is_left = _is_left(folder, campaign) or any(ceiling.left_behind for ceiling in run.ceilings)
    return _exit_code(end, campaign, thresholds, findings, is_left=is_left)


def _changes(campaign: Campaign, manifest: Manifest, folder: Path) -> dict[str, Change]:
    """Return changes in how a run is judged and shown; refuse others, which would mix two runs."""
    before = manifest.get("campaign")
    changed = changes(before, campaign) if before is not None else {}
    wrong = [key for key in changed if key not in RECORDED]
    if wrong:
        raise InputError(
            f'run "{folder}" was planned differently: {", ".join(wrong)} of the campaign '
            "changed since the run began",
            "resume with the campaign file and the --set values that the run began with (its "
            f"{MANIFEST} keeps the file), or run the new campaign into another folder and remove "
            f"what this run left with: loadstone clean {folder}",
            kind="other-plan",
        )
    return changed


def _amended(campaign: Campaign, manifest: Manifest, folder: Path, text: str | None) -> Manifest:
    """Return the manifest's new fields if the campaign's file has changed: both texts, with a
    time.
    """
    changed = _changes(campaign, manifest, folder)
    before = manifest.get("campaign_file")
    if not changed and (text is None or text == before):
        return {}
    change: CampaignChange = {
        "time": runner.now().isoformat(),
        "keys": {key: change.document() for key, change in changed.items()},
        "campaign_file": {"before": before, "after": text},
    }
    if changed:
        names = ", ".join(changed)
        print(plain(f"changed since the run began, and recorded: {names}"), file=sys.stderr)
    return {
        "campaign": campaign.document(),
        "campaign_file": text,
        "changes": [*manifest.get("changes", ()), change],
    }


def _begin(
    campaign: Campaign, plan: Plan, folder: Path, text: str | None, command: str | None
) -> RunWriter:
    """Return the writer of a new run folder, with the descriptions of its nodes."""
    outputs = NodeOutputs()
    manifest = _manifest(campaign, plan, text, command) | _described(campaign, outputs)
    writer = RunWriter.create(folder, manifest)
    try:
        outputs.write(folder)
    except BaseException:
        writer.close()
        raise
    return writer


def _keep_inputs(
    scripts: CampaignScripts, lists: "ListMaker", folder: Path, writer: RunWriter
) -> None:
    """Store a run's scripts and object lists in its folder, with their sources."""
    scripts.keep_in(folder)
    keep_lists(lists, folder, writer)
    if scripts.origins:
        writer.amend({"scripts": scripts.origins})


def _manifest(campaign: Campaign, plan: Plan, text: str | None, command: str | None) -> Manifest:
    manifest: Manifest = {
        "name": campaign.name,
        "seed": campaign.seed,
        "run": plan.run,
        "campaign": campaign.document(),
        "campaign_file": text,
        "command": command,
        "plan": plan.documents(),
        "ceilings": [planned.document for planned in plan.ceilings],
    }
    if plan.stores:
        manifest["stores"] = {name: size.document() for name, size in plan.stores.items()}
    circumstances = runner.circumstances()
    manifest.update(circumstances)
    drivers = sorted({document["target"]["driver"] for document in plan.documents()})
    build = circumstances["versions"]["load_generator"]
    manifest["calibration"] = calibration.copy_for(circumstances["host"], build, drivers)
    return manifest


def _described(campaign: Campaign, outputs: NodeOutputs) -> Manifest:
    """Return the descriptions of the campaign's nodes, if it names any."""
    if not campaign.nodes:
        return {}
    from loadstone.cli.running.nodes import describe

    return {"nodes": describe(campaign, outputs=outputs)}


def _take_up(
    campaign: Campaign,
    folder: Path,
    text: str | None,
    allow_commands: bool,
    makers: tuple[Scripts, Lists],
) -> tuple[RunWriter, Plan]:
    """Return the writer of an interrupted run, and the rest of its plan."""
    before = read_manifest(folder)
    _changes(campaign, before, folder)
    scripts, lists = makers
    plan = make_plan(
        campaign, run=before["run"], reused=reused_by(campaign, before["run"]),
        starts=before.get("starts", 1), scripts=scripts,
        # The sizes from before the run wrote to the stores, so that the resumed plan is the same.
        stores={name: StoreSize(**size) for name, size in before.get("stores", {}).items()},
        lists=lists, payload_files=PayloadFiles(campaign, before["plan"]),
    )  # fmt: skip
    consent.ask(plan, campaign.hosts, is_allowed=allow_commands)
    for log in damaged_logs(folder):
        say(f'warning: "{folder / log}" has damaged lines, which the run ignores')
    writer = RunWriter.reopen(folder)
    try:
        amended = _amended(campaign, writer.manifest, folder, text)
        planned, ceilings = writer.manifest["plan"], writer.manifest.get("ceilings", [])
        _refuse_others(folder, "trial", planned, plan.documents())
        _refuse_others(folder, "ceiling", ceilings, [ceiling.document for ceiling in plan.ceilings])
        check_programs(plan.ceilings, plan.hooks)
        # Before anything reaches the target: a paused store would keep it waiting.
        undo_faults_left(plan.hooks, writer, say)
        # A finished search is not repeated.
        searched = writer.manifest.get("searches", {}).keys()
        remaining = resume_plan(plan, writer.finished | searched)
        resumed = [*writer.manifest.get("resumed", ()), _resumption(writer.manifest)]
        writer.amend({**amended, "plan": _plan_with(planned, remaining), "resumed": resumed})
    except BaseException:
        writer.close()
        raise
    return writer, remaining


def _refuse_others(
    folder: Path,
    what: str,
    before: Sequence[TrialDocument] | Sequence[CeilingDocument],
    now: Sequence[TrialDocument] | Sequence[CeilingDocument],
) -> None:
    """Refuse to resume a run with another plan."""
    known: dict[str, object] = {document["id"]: document for document in before}
    for document in now:
        if known.get(document["id"]) != document:
            raise InputError(
                f'{what} {document["id"]} of run "{folder}" was planned differently',
                "resume with the campaign file, the --set values and the loadstone that the "
                f"run began with, or remove what it left with: loadstone clean {folder}",
                kind="other-plan",
            )


def _resumption(manifest: Manifest) -> Resumption:
    """Return the time and the host of a resumption, and how the run had ended before."""
    here = runner.circumstances()
    recorded: Mapping[str, object] = manifest
    left = {key: recorded[key] for key in RunOutcome.__annotations__ if key in recorded}
    return {
        "started": here["started"],
        "loadstone": here["loadstone"],
        "versions": here["versions"],
        "host": here["host"],
        "left_as": cast(RunOutcome, left),
    }


def _plan_with(planned: Sequence[TrialDocument], remaining: Plan) -> list[TrialDocument]:
    """Return the plan with the repairs of this resumption at its end.

    A repair left by an earlier interrupted resumption passes its number on to a new one.
    """
    documents = {document["id"]: document for document in planned}
    documents |= {document["id"]: document for document in remaining.documents()}
    return list(documents.values())


def _observe(record: Record, goal: Goal) -> Observation:
    """Return the observation that a search needs from a record; execution itself judges nothing."""
    from loadstone.analysis.limits.searches import observe

    return observe(record, goal)


def _print_report(
    folder: Path, form: str, *, thresholds: Sequence["Threshold"] = (), with_page: bool = False
) -> "Findings | None":
    """Print the report of a run and return its findings; None if nothing was recorded."""
    run = read_run(folder)
    if not run.records:
        return None
    from loadstone.analysis import analyse
    from loadstone.cli.reporting import find_report, report_options, write
    from loadstone.report import REPORTS, Options

    report, page = find_report(form), REPORTS["html"]
    if with_page and not extras.has(page.extra):
        print(f"for the page with charts: {extras.install(page.extra)}", file=sys.stderr)
        with_page = False
    findings = analyse(run, courses=report.draws or with_page)
    if with_page:
        options = report_options(run, page, Options(), is_terminal=False)
        durable.write_file(folder, "report.html", page.render(run, findings, options))
    chosen = Options(thresholds=thresholds)
    options = report_options(run, report, chosen, is_terminal=sys.stdout.isatty())
    write(report, run, findings, options, None)
    return findings
