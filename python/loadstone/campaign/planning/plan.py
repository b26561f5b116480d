"""Turns a campaign into a Plan: ordered trials, deterministic for a seed, without side effects."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from loadstone.campaign.check import campaign_mistakes
from loadstone.campaign.check_surroundings import targets_with_card
from loadstone.campaign.drivers import Driver, Drivers, DriverTable, read_drivers
from loadstone.campaign.planning import beyond, filling, lifecycle, placement, scripted, trial
from loadstone.campaign.planning.case import Case, cases_of
from loadstone.campaign.planning.ceiling_plan import PlannedCeiling, plan_ceilings
from loadstone.campaign.planning.estimate import Estimate, estimate
from loadstone.campaign.planning.existing import Lists, no_lists
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.lifecycle import Need, State
from loadstone.campaign.planning.placement import DatasetKey, PayloadFiles, no_payload_files
from loadstone.campaign.planning.query_plan import QueryPlanner
from loadstone.campaign.planning.reuse import Reused
from loadstone.campaign.planning.scripted import PlannedScript, Scripts
from loadstone.campaign.planning.stops import MeasuredStep, stops_of, with_next_needs
from loadstone.campaign.planning.trial import PlannedTrial, Step, targets_in_run
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.campaign import Campaign, suites
from loadstone.campaign.schema.hook import Hook
from loadstone.campaign.schema.target import Arm
from loadstone.campaign.schema.target_probe import TargetProbes
from loadstone.documents.mix import writes_dataset
from loadstone.documents.trial import DatasetDocument, TargetDocument, TrialDocument
from loadstone.errors import CampaignError, Mistake

CARD_FROM_NS: Final = 300 * 1_000_000_000
"""Duration of a plan from which a card of up to 5 s is made unasked: it is 2 % of it at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The trials of a campaign in order, with the pauses between them."""

    name: str
    seed: int
    run: str
    trials: tuple[PlannedTrial, ...]
    drivers: Mapping[str, Driver]
    replication: Mapping[str, float]
    ceilings: tuple[PlannedCeiling, ...] = ()
    hooks: tuple[Hook, ...] = ()
    cards: tuple[TargetDocument, ...] = ()
    are_cards_asked: bool = False
    arms: Mapping[str, Arm] = field(default_factory=dict)
    probes: TargetProbes = field(default_factory=TargetProbes)
    later: "Later | None" = field(default=None, compare=False, repr=False)
    stores: Mapping[str, StoreSize] = field(default_factory=dict)

    @property
    def suites(self) -> int:
        """Number of starts of the schedule in the plan; 1 without a schedule."""
        return 1 + max((planned.suite for planned in self.trials), default=0)

    def documents(self) -> list[TrialDocument]:
        """Return the trial documents in order, as the manifest keeps them."""
        return [planned.document for planned in self.trials]

    def estimate(
        self, *, requests_per_s: float | None = None, bytes_per_s: float | None = None
    ) -> Estimate:
        """Return the cost of the plan under assumed rates of the targets."""
        return estimate(
            self.trials, self.replication, requests_per_s=requests_per_s, bytes_per_s=bytes_per_s
        )


def make_plan(
    campaign: Campaign,
    drivers: DriverTable | None = None,
    run: str | None = None,
    reused: Mapping[str, Reused] | None = None,
    starts: int | None = None,
    scripts: Scripts = scripted.no_scripts,
    stores: Mapping[str, StoreSize] | None = None,
    lists: Lists = no_lists,
    payload_files: PayloadFiles = no_payload_files,
) -> Plan:
    """Plan a campaign; raise CampaignError with every mistake if it cannot run as written.

    `stores` are the sizes of the targets that report them, for fill levels given as shares.
    `scripts` makes the scripts that phases name, `lists` the lists of objects that others wrote;
    `payload_files` describes the files that objects are filled with. `run` is the run's identity,
    32 hex digits. Without one it is derived from the campaign, so that the same campaign gives the
    same plan. `reused` are the runs that targets name in `reuse`. Only the first `starts` of a
    schedule are planned, and `later` plans the others one by one; without `starts`, or with
    ceilings before blocks, all are planned.
    """
    table = read_drivers(drivers)
    wrong = campaign_mistakes(campaign, table)
    if wrong:
        raise CampaignError([campaign.source.place(mistake) for mistake in wrong])
    run = run or _run_of(campaign)
    planner: _Planner | QueryPlanner
    if campaign.queries is not None:
        planner = QueryPlanner(campaign, table, run)
    else:
        cases, _ = cases_of(campaign)
        makers = (scripts, lists, payload_files)
        planner = _Planner(campaign, table, cases, run, reused or {}, makers, stores or {})
    later = Later(planner, suites(campaign.schedule))
    is_lazy = starts is not None and all(ceiling.when != "blocks" for ceiling in campaign.ceilings)
    for _ in range(min(starts or 1, later.starts) if is_lazy else later.starts):
        later.plan_next()
    return Plan(
        name=campaign.name,
        seed=campaign.seed,
        run=run,
        trials=tuple(planner.trials),
        drivers={name: table[target.driver] for name, target in campaign.targets.items()},
        replication={
            name: target.replication
            for name, target in campaign.targets.items()
            if target.replication is not None
        },
        ceilings=plan_ceilings(campaign, planner.targets, planner.trials, run),
        hooks=(*campaign.hooks, *(hook for fault in campaign.faults for hook in fault.hooks)),
        cards=_cards(campaign, table, planner),
        are_cards_asked=bool(campaign.card),
        arms=campaign.arms,
        probes=campaign.probes,
        later=later if later.left else None,
        stores=stores or {},
    )


def _cards(
    campaign: Campaign, drivers: Drivers, planner: "_Planner | QueryPlanner"
) -> tuple[TargetDocument, ...]:
    """Return the targets whose card is made: if the campaign does not say, in long runs that read
    nothing of others.
    """
    targets = tuple(planner.targets[name] for name in targets_with_card(campaign, drivers))
    if campaign.card is None and targets:
        datasets = (planned.document.get("dataset") or {} for planned in planner.trials)
        is_long = estimate(planner.trials, {}).time_ns_min >= CARD_FROM_NS
        if not is_long or any("existing" in dataset for dataset in datasets):
            return ()
    return targets


class Later:
    """Starts of a schedule that are planned when they are due.

    A schedule may have thousands, and each passes the datasets' states on to the next.
    """

    def __init__(self, planner: "_Planner | QueryPlanner", starts: int) -> None:
        self.starts = starts
        self._planner = planner
        self._planned = 0

    @property
    def left(self) -> int:
        """Number of starts still to be planned."""
        return self.starts - self._planned

    def plan_next(self) -> tuple[PlannedTrial, ...]:
        """Return the trials of the next start."""
        before = len(self._planner.trials)
        self._planner.add_start(self._planned, is_last=self.left == 1)
        self._planned += 1
        return tuple(self._planner.trials[before:])


def _too_many_trials(campaign: Campaign) -> Mistake:
    mistake = KeyMistake(
        ("phases",),
        f"mixes in more than {beyond.ORDINALS_MAX:,} trials",
        "fewer, so that what each puts has names of its own (see trials_max of capacity)",
    )
    return campaign.source.place(mistake)


@dataclass(slots=True)
class _Held:
    """The state of one dataset during planning."""

    document: TrialDocument
    threads: int
    prefix: str
    state: State = State.ABSENT
    version: int = 0
    generation: int = 1
    written: list[tuple[int, int]] = field(default_factory=list)
    is_owed: bool = False
    """Whether its ledgers have entries that were not audited yet."""
    is_ours: bool = True
    """Whether this campaign writes and deletes the dataset."""
    dataset: DatasetDocument | None = None
    """Its document in the run that wrote it, if that was another run."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Data written to fill a target to a level."""

    reached_bytes: int
    held: _Held


def _run_of(campaign: Campaign) -> str:
    text = json.dumps(campaign.document(), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _Planner:
    """Iterates over the steps, tracks the datasets' states, and inserts the trials that they
    need.
    """

    def __init__(
        self,
        campaign: Campaign,
        drivers: Drivers,
        cases: Sequence[Case],
        run: str,
        reused: Mapping[str, Reused],
        makers: tuple[Scripts, Lists, PayloadFiles],
        stores: Mapping[str, StoreSize],
    ) -> None:
        self.trials: list[PlannedTrial] = []
        self._campaign = campaign
        self._cases = cases
        self._run = run
        self._places = placement.places(cases, campaign.name, run)
        self._held: dict[DatasetKey, _Held] = {}
        # Includes the prefixes of later generations.
        self._emitted = dict(self._places)
        self._reused = reused
        self._scripts, self._lists, self._payload_files = makers
        self._left_over: list[_Held] = []
        self._pause_ns = 0
        self._suite = 0
        # 0 means that a trial puts nothing outside its dataset.
        self._ordinal = 1
        self._threads = trial.prepare_threads(cases)
        self._targets = targets_in_run(campaign, drivers, run)
        self._stores = stores
        self._filled = {case.target for case in cases if case.workload.fill is not None}
        self._fills: dict[str, list[_Filled]] = {}
        self._fills_made = 0

    @property
    def targets(self) -> dict[str, TargetDocument]:
        """The targets as trial documents contain them."""
        return {name: target.document for name, target in self._targets.items()}

    def add_start(self, suite: int, *, is_last: bool) -> None:
        """Add one start of the schedule to the plan."""
        campaign, coming = self._campaign, dict[DatasetKey, Need]()
        if not is_last:
            # All starts have the same cases, so the next start's needs are already known.
            with_next_needs(stops_of(campaign, self._cases, self._run, suite + 1), campaign, coming)
        stops = stops_of(campaign, self._cases, self._run, suite)
        for stop in with_next_needs(stops, campaign, coming):
            self.add(stop)
        # All generations are named by now, and no request has been sent to a target yet.
        shared = placement.shared_bucket(self._emitted)
        if shared is not None:
            held = next(held for key, held in self._held.items() if key.target == shared[0].target)
            self._refuse_name(held, f'"{shared[2]}", which another dataset has,', "another prefix")
        if is_last:
            self.finish()

    def add(self, stop: MeasuredStep) -> None:
        """Add a measured step, with the preparation and clean-up that its dataset needs."""
        self._suite = stop.suite
        step = stop.step
        target = self._targets[step.case.target]
        existing = step.case.dataset(step.phase).existing
        objects = self._lists(target.document, existing) if existing is not None else None
        document = trial.measured_document(target, step, objects)
        payload = step.case.dataset(step.phase).payload
        if payload is not None:
            lifecycle.dataset_of(document)["payload"] = self._payload_files(payload.file)
        script = self._script_of(step, document)
        if script is not None:
            assert step.phase.script is not None, "it has been asked for"
            document = scripted.with_script(document, script, step.phase.script.speed)
            if not target.driver.facts.keeps:
                document["verify"] = 0.0
        if step.case.target in self._filled:
            self._fill(step.case, document)
        held = self._hold(stop, document)
        if lifecycle.deletes_all(document) or document.get("keeps_history"):
            self._audit(held)
        need = lifecycle.need_of(document, is_first=stop.is_first)
        if not need.is_met_by(held.state):
            held = self._meet(need, held, stop.key)
        if script is not None:
            self._prepare_script(script, held)
        self._emit(document, held, pause_ns=self._pause_ns, is_first=stop.is_first)
        if document.get("keeps_history") and self._campaign.audit is not None:
            read_back = trial.read_back_of(document, held.threads, self._campaign.audit.model)
            if script is not None:
                is_fresh = self._campaign.prepare != "never" and not target.allow_foreign
                read_back = scripted.read_back_of(document, script, read_back, is_fresh=is_fresh)
            self._audit_twice([(read_back, held)])
        self._pause_ns = stop.pause_after_ns
        if self._is_over(stop.next_need):
            self._clean_up(held)

    def _script_of(self, step: Step, document: TrialDocument) -> PlannedScript | None:
        if step.phase.script is None:
            return None
        planned = self._scripts(scripted.wanted_by(step.case, step.phase, self._campaign.seed))
        wrong = scripted.mistake(planned, step.case, step.phase, document)
        if wrong is not None:
            raise CampaignError([self._campaign.source.place(wrong)])
        return planned

    def _prepare_script(self, script: PlannedScript, held: _Held) -> None:
        """Add the trial that prepares the objects of a script."""
        driver = self._driver(held)
        if script.prepare is None or self._campaign.prepare == "never":
            return
        if lifecycle.can_prepare(driver):
            plain = trial.prepare_of(held.document, driver, held.threads)
            self._emit(scripted.prepare_of(held.document, script, plain), held)

    def finish(self) -> None:
        """Append the remaining audits and clean-ups at the end of the plan."""
        self._audit(*self._left_over, *self._held.values())
        if not self._campaign.keep_data:
            for held in (*self._left_over, *self._held.values()):
                self._clean_up(held)
        for fills in self._fills.values():
            for filled in reversed(fills):
                self._clean_up(filled.held)
            fills.clear()

    def _fill(self, case: Case, document: TrialDocument) -> None:
        """Fill or empty a target to the level of a case, unless it is there already."""
        wanted = filling.wanted_bytes(case, self._stores)
        if isinstance(wanted, KeyMistake):
            raise CampaignError([self._campaign.source.place(wanted)])
        fills = self._fills.setdefault(case.target, [])
        reached = fills[-1].reached_bytes if fills else 0
        if abs(wanted - reached) < case.workload.fill_size_bytes:
            return
        for key, held in self._held.items():
            # Datasets written at another level are written again at this one.
            if key.target == case.target and self._is_early():
                self._clean_up(held)
        while fills and fills[-1].reached_bytes > wanted:
            self._clean_up(fills.pop().held)
        reached = fills[-1].reached_bytes if fills else 0
        objects = (wanted - reached) // case.workload.fill_size_bytes
        if objects:
            threads = self._threads[case.workload.name]
            filled = filling.fill_document(document, case, threads, objects)
            held = _Held(filled, threads, self._place_of_fill(case, filled))
            fills.append(_Filled(wanted, held))
            self._emit(filled, held, is_first=True)

    def _place_of_fill(self, case: Case, document: TrialDocument) -> str:
        """Return the bucket prefix of a fill, distinct from all datasets' prefixes."""
        self._fills_made += 1
        key = next(key for key in self._places if key.target == case.target)
        prefix = placement.numbered(self._places[key], "f", self._fills_made)
        held = lifecycle.dataset_of(document)["buckets"]
        content = json.dumps({"buckets": held, "fill": prefix})
        dataset_key = DatasetKey(case.target, f"{prefix}/fill", content, held)
        self._emitted[dataset_key] = prefix
        buckets = placement.buckets_of(dataset_key, prefix)
        allowed = buckets.mistake(self._targets[case.target].driver.facts.bucket_names)
        if allowed is not None:
            self._refuse_name(_Held(document, 1, prefix), f'"{buckets.last()}"', allowed)
        return prefix

    def _hold(self, stop: MeasuredStep, document: TrialDocument) -> _Held:
        held = self._held.get(stop.key)
        if held is None:
            threads = self._threads[stop.step.case.workload.name]
            held = _Held(document, threads, self._places[stop.key])
            reused = self._reused.get(stop.step.case.target)
            if reused is not None:
                self._take_over(held, reused)
            if stop.key.is_existing:
                held.is_ours, held.state = False, State.FULL
            self._held[stop.key] = held
        if held.dataset is not None:
            self._demand_reuse(document)
        # Inserted trials take their names from the trial that they are inserted for.
        held.document = document
        return held

    def _take_over(self, held: _Held, reused: Reused) -> None:
        dataset = reused.dataset_for(held.document)
        if isinstance(dataset, KeyMistake):
            raise CampaignError([self._campaign.source.place(dataset)])
        held.dataset, held.prefix, held.version = (
            dataset,
            dataset["bucket_prefix"],
            dataset["version"],
        )
        held.state = State.FULL

    def _demand_reuse(self, document: TrialDocument) -> None:
        dataset = self._reused[document["case"]["target"]].dataset_for(document)
        if isinstance(dataset, KeyMistake):
            raise CampaignError([self._campaign.source.place(dataset)])

    def _meet(self, need: Need, held: _Held, key: DatasetKey) -> _Held:
        if held.dataset is not None:
            # An earlier phase or block of the campaign deleted the objects.
            mistake = KeyMistake(
                ("targets", key.target, "reuse"),
                f"{held.document['phase']} of objects that an earlier phase deletes",
                "phases that find what the other run kept",
            )
            raise CampaignError([self._campaign.source.place(mistake)])
        if need is not Need.FULL and held.state is not State.ABSENT:
            held = self._remove(held, key)
        if self._campaign.prepare == "never":
            return held
        driver = self._driver(held)
        if need is Need.FULL and lifecycle.can_prepare(driver):
            self._emit(trial.prepare_of(held.document, driver, held.threads), held)
        if need is Need.EMPTY and held.state is State.ABSENT:
            self._emit(trial.prepare_buckets_of(held.document, held.threads), held)
        return held

    def _remove(self, held: _Held, key: DatasetKey) -> _Held:
        """Make room for new objects: delete the old ones, or continue in buckets with another
        name.
        """
        if self._is_early():
            self._clean_up(held)
            return held
        self._left_over.append(held)
        number = held.generation + 1
        named, prefix = placement.generation(key, self._places[key], number)
        self._emitted[named] = prefix
        allowed = placement.buckets_of(key, prefix).mistake(self._driver(held).facts.bucket_names)
        if allowed is not None:
            self._refuse_name(held, f'"{placement.buckets_of(key, prefix).last()}"', allowed)
        fresh = self._held[key] = _Held(
            held.document, held.threads, prefix, version=held.version, generation=number
        )
        return fresh

    def _refuse_name(self, held: _Held, name: str, allowed: str) -> None:
        case = held.document["case"]
        source = next(
            other.source
            for other in self._cases
            if (other.target, other.workload.name) == (case["target"], case["workload"])
        )
        mistake = KeyMistake(
            source.path(("dataset", "prefix")),
            f"{name} as the name of a bucket, for objects that are written anew",
            allowed,
            hint="or clean_up: early, which needs no new names",
        )
        raise CampaignError([self._campaign.source.place(mistake)])

    def _is_early(self) -> bool:
        return self._campaign.clean_up == "early" and not self._campaign.keep_data

    def _is_over(self, next_need: Need | None) -> bool:
        """Tell whether no later trial needs the objects that exist now."""
        return self._is_early() and next_need in (None, Need.FRESH, Need.ABSENT)

    def _audit(self, *datasets: _Held) -> None:
        """Audit datasets whose ledgers have new entries."""
        if self._campaign.audit is None:
            return
        audits = []
        for held in datasets:
            if held.is_owed:
                held.is_owed = False
                sample = self._campaign.audit.sample
                audits.append((trial.audit_of(held.document, held.threads, sample), held))
        self._audit_twice(audits)

    def _audit_twice(self, audits: Sequence[tuple[TrialDocument, _Held]]) -> None:
        """Audit datasets, and again later if the campaign asks for it."""
        assert self._campaign.audit is not None, "that is what asks for audits"
        for document, held in audits:
            self._emit(document, held)
        pause_ns = self._campaign.audit.again_after_ns
        for document, held in audits if pause_ns is not None else ():
            self._emit(document, held, pause_ns=pause_ns or 0)
            pause_ns = 0

    def _clean_up(self, held: _Held) -> None:
        self._audit(held)
        is_ours = held.is_ours and held.dataset is None
        if (
            is_ours
            and held.state is not State.ABSENT
            and lifecycle.can_clean_up(self._driver(held))
        ):
            self._emit(trial.clean_up_of(held.document, held.threads, held.written), held)
            held.written = []

    def _driver(self, held: _Held) -> Driver:
        return self._targets[held.document["case"]["target"]].driver

    def _emit(
        self, document: TrialDocument, held: _Held, pause_ns: int = 0, is_first: bool = False
    ) -> None:
        held.version += writes_dataset(document)
        dataset: DatasetDocument = {
            **lifecycle.dataset_of(document),
            "bucket_prefix": held.prefix,
            "version": max(1, held.version),
        }
        if held.dataset is not None:
            dataset = {**held.dataset, "version": max(1, held.version)}
            origin = held.dataset["written_by"]
            runs = [origin["run"]] if origin else []
            document = {**document, "ownership": {**document["ownership"], "runs": runs}}
        document = {**document, "id": f"{len(self.trials) + 1:04d}", "dataset": dataset}
        if beyond.ordinals_of(document) > beyond.ORDINALS_MAX - self._ordinal:
            raise CampaignError([_too_many_trials(self._campaign)])
        document["ticket_base"] = self._ordinal * beyond.BEYOND_MAX
        written = beyond.written_beyond(document)
        if written is None:
            document["ticket_base"] = 0
        else:
            held.written.append(written)
            self._ordinal += beyond.ordinals_of(document)
        held.state = lifecycle.state_after(document, held.state)
        held.is_owed |= lifecycle.is_in_ledger(document)
        self.trials.append(
            PlannedTrial(
                document=document, pause_before_ns=pause_ns, suite=self._suite, is_first=is_first
            )
        )
