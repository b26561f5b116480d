"""Results of audits: how many acknowledged objects were read back, and how many were wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.statistics.student import beta_share
from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.lifecycle import AUDIT, place_of
from loadstone.documents.mix import writes_data
from loadstone.documents.summary import AuditFinding, HistorySummary, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.audits import call_words, kept_audits
from loadstone.results.record import Record, Run
from loadstone.units import counted

AUDIT_FAILED = "AUDIT_FAILED"
CONFIDENCE = 0.95
SHOWN = 5

WORDS = {
    "lost": "acknowledged, but missing",
    "stale": "an older version than the acknowledged one",
    "resurrected": "deleted, but present",
    "corrupt": "bytes that nobody wrote",
    "torn": "parts of two versions",
    "short": "shorter than was written",
    "long": "longer than was written",
    "mixed": "bytes of another object",
    "phantom": "present, but never written",
    "ghost": "listed, but missing",
    "list_missing": "present, but not listed",
    "listed_twice": "listed twice",
    "metadata_wrong": "other metadata than was acknowledged",
    "two_winners": "two concurrent writes on one condition both succeeded",
    "lost_update": "overwritten by a write whose condition excludes it",
    "condition_ignored": "written although the condition did not hold",
    "unordered": "no order of the calls explains the answers",
}
"""The kinds of findings, by the names that the load generator gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One audit of one dataset.

    `acknowledged` counts objects whose state the ledgers determine, `unknown` those with a request
    that failed or was cut off, and `read_back` the acknowledged ones whose reads were answered.
    """

    trial: str
    target: str
    place: str
    ended_unix_ns: int | None
    acknowledged: int
    read_back: int
    unknown: int
    unanswered: int
    metadata: int
    """Objects with acknowledged metadata, of which `metadata_read_back` were asked for theirs."""
    metadata_read_back: int
    listings_failed: int
    counts: dict[str, int]
    findings: tuple[AuditFinding, ...]
    is_whole: bool
    history: HistorySummary | None
    """The verdict on calls by their times; None in an audit of ledgers."""

    @classmethod
    def of(cls, document: TrialDocument, summary: Summary) -> "Audited":
        """Read the summary of an audit's trial."""
        audit = summary.get("audit") or {}
        target, place = place_of(document)
        return cls(
            trial=document["id"],
            target=target,
            place=place,
            ended_unix_ns=summary.get("ended_unix_ns"),
            acknowledged=audit.get("written", 0) + audit.get("deleted", 0),
            read_back=audit.get("read_back", 0),
            unknown=audit.get("unknown", 0),
            unanswered=audit.get("unanswered", 0),
            metadata=audit.get("metadata", 0),
            metadata_read_back=audit.get("metadata_read_back", 0),
            listings_failed=audit.get("listings_failed", 0),
            counts={name: max(count, 0) for name, count in (audit.get("counts") or {}).items()},
            findings=tuple(audit.get("findings") or ()),
            is_whole=summary.get("state") == "finished",
            history=audit.get("history"),
        )

    @property
    def wrong(self) -> int:
        """The number of objects that are not as acknowledged."""
        return sum(self.counts.values())

    @property
    def replays(self) -> list[str]:
        """Campaigns in the run folder that repeat the calls of findings."""
        return [replay for finding in self.findings if (replay := finding.get("replay"))]

    @property
    def wrong_share_max(self) -> float | None:
        """The upper bound of the share of wrong objects; None if nothing was read."""
        return upper_bound(self.wrong, self.read_back) if self.read_back else None

    @property
    def has_read(self) -> bool:
        """Whether anything was read back, if anything was acknowledged."""
        return self.read_back > 0 or not self.acknowledged

    @property
    def _counts(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))

    @property
    def _metadata(self) -> str:
        if not self.metadata:
            return ""
        return f"; metadata read back: {self.metadata_read_back:,} of {self.metadata:,} changed"

    def _judged(self, history: HistorySummary) -> str:
        """Return the verdict on a history as a sentence."""
        of_all = f"{history['calls']:,} calls on {counted(history['objects'], 'object')}"
        undecided = counted(history["undecided"], "object")
        open_end = f"; {undecided} undecided" if history["undecided"] else ""
        if not self.wrong:
            return f"{of_all}: none contradicts a {history['model']} store{open_end}"
        return f"{of_all} contradict a {history['model']} store: {self._counts}{open_end}"

    def statement(self) -> str:
        """Return the result as a sentence."""
        if self.history is not None:
            return self._judged(self.history)
        share = self.wrong_share_max
        of_all = f"{self.read_back:,} of {self.acknowledged:,} acknowledged"
        if share is None:
            return f"nothing of {self.acknowledged:,} acknowledged was read back"
        of_all += self._metadata
        if self.wrong:
            return f"{counted(self.wrong, 'object')} wrong ({self._counts}); read back: {of_all}"
        if self.read_back == self.acknowledged:
            return f"nothing that the store acknowledged was lost or wrong; read back: {of_all}"
        return (
            f"0 of {self.read_back:,} read back were wrong, of {self.acknowledged:,} acknowledged:"
            f" a defect of {percent(share)} or more is excluded with 95 %{self._metadata}"
        )

    def short(self) -> str:
        """Return the result in half a line."""
        if self.history is not None:
            return self._judged(self.history)
        share = self.wrong_share_max
        if share is None:
            return self.statement()
        if self.wrong:
            text = f"{self.wrong:,} wrong of {self.read_back:,} read back: {self._counts}"
        elif self.read_back == self.acknowledged:
            text = f"all {self.read_back:,} acknowledged read back, none lost or wrong"
        else:
            most = f"at most {percent(share)} with 95 %"
            text = f"{self.read_back:,} of {self.acknowledged:,} read back, 0 wrong ({most})"
        return text + self._metadata


def upper_bound(wrong: int, looked_at: int) -> float:
    """Return the upper bound of the share of wrong ones at 95 % confidence, one-sided.

    By Clopper and Pearson (1934): the p at which k or fewer of n are wrong with a probability of
    5 %, which is where the regularized incomplete beta function I_p(k + 1, n - k) is 0.95.
    """
    if wrong >= looked_at:
        return 1.0
    low, high = wrong / looked_at, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if beta_share(middle, 1 - middle, wrong + 1, looked_at - wrong) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def percent(share: float) -> str:
    """Return a share in percent, with two significant digits."""
    return f"{float(f'{100 * share:.2g}'):g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """How acknowledged writes survived one kind of fault, caused `times` times under load.

    Faults before any acknowledged write are not counted.
    `wrong` of the objects `read_back` were not as acknowledged, after `times_wrong` of the faults.
    Objects lost to one fault are not independent, so the share of faults has a bound, too.
    """

    fault: str
    times: int
    times_wrong: int
    acknowledged: int
    read_back: int
    wrong: int

    @property
    def wrong_share_max(self) -> float | None:
        """The upper bound of the share of wrong objects; None if nothing was read."""
        return upper_bound(self.wrong, self.read_back) if self.read_back else None

    @property
    def times_wrong_share_max(self) -> float | None:
        """The upper bound of the share of faults after which something is wrong."""
        return upper_bound(self.times_wrong, self.times) if self.times else None

    def statement(self) -> str:
        """Return the result as a sentence."""
        share, times_share = self.wrong_share_max, self.times_wrong_share_max
        if share is None or times_share is None:
            return f"nothing was read back after any {FAULT_NOUNS[self.fault]}"
        faults = counted(self.times, FAULT_NOUNS[self.fault])
        if self.wrong:
            of_all = f"{self.wrong:,} of {self.read_back:,} acknowledged objects"
            return f"{of_all} were lost or wrong, after {self.times_wrong} of {faults}"
        return (
            f"0 of {self.read_back:,} acknowledged objects were lost or wrong after {faults}: with"
            f" 95 %, at most {percent(share)} of objects, and at most"
            f" {percent(times_share)} of {FAULT_NOUNS[self.fault]}s lose any"
        )


FAULT_NOUNS = {"kill": "process kill", "power_cut": "power cut"}
"""The faults of a durability run, by the names of their commands."""


CLASSES = {
    "volatile": "acknowledged writes are lost at a process kill",
    "buffered": "acknowledged writes survive process kills; power cuts lose some or all of them",
    "kill-safe": "acknowledged writes survive process kills; power cuts were not tried",
    "synced": "acknowledged writes survive process kills and power cuts",
}
"""The durability classes of acknowledgements, the weakest first, and what each means."""


def durability_class(survived: Sequence[Survival]) -> str | None:
    """Return the class that faults show; None where those that were read back tell none.

    What survives a power cut survives a process kill, but what a power cut takes may not.
    """
    wrong = {each.fault: each.wrong for each in survived if each.read_back}
    kill, power_cut = wrong.get("kill"), wrong.get("power_cut")
    if kill:
        return "volatile"
    if power_cut == 0:
        return "synced"
    if kill is None:
        return None
    return "kill-safe" if power_cut is None else "buffered"


def survivals(records: Sequence[Record]) -> Iterator[Survival]:
    """Yield the survival of each kind of fault that was caused under load and then audited."""
    faults = {
        (record.trial["target"]["name"], record.trial["block"]): entry["hook"]
        for record in records
        for entry in record.hooks
        if entry["hook"] in FAULT_NOUNS
    }
    for fault in dict.fromkeys(faults.values()):
        audits = [
            audit
            for record in records
            if record.trial["phase"] == AUDIT
            and faults.get((record.trial["target"]["name"], record.trial["block"])) == fault
            and (audit := Audited.of(record.trial, record.summary)).read_back
        ]
        yield Survival(
            fault=fault,
            times=len(audits),
            times_wrong=sum(audit.wrong > 0 for audit in audits),
            acknowledged=sum(audit.acknowledged for audit in audits),
            read_back=sum(audit.read_back for audit in audits),
            wrong=sum(audit.wrong for audit in audits),
        )


def read_audits(run: Run) -> tuple[Audited, ...]:
    """Return the audits of a run, those after its end last."""
    audits = [
        Audited.of(record.trial, record.summary)
        for record in run.records
        if record.trial["phase"] == AUDIT and record.summary.get("audit")
    ]
    return (*audits, *(Audited.of(*audit) for audit in kept_audits(run.path)))


def is_never_read(run: Run) -> bool:
    """Tell whether a run wrote objects and checked none of them."""
    measured = [record for record in run.records if record.trial.get("measured")]
    writes = any(
        facts_of(record.trial["target"]["driver"]).keeps and writes_data(record.trial)
        for record in measured
    )
    is_checked = any(record.summary.get("verified_requests") for record in run.records)
    return writes and not is_checked and not run.manifest.get("imported")


def with_failed(run: Run, audits: Sequence[Audited]) -> Run:
    """Return the run with a label on each trial of a dataset in which an audit found something."""
    places = {(audit.target, audit.place) for audit in audits if audit.wrong}
    if not places:
        return run
    records = tuple(
        replace(record, labels=(*record.labels, AUDIT_FAILED))
        if place_of(record.trial) in places
        else record
        for record in run.records
    )
    return replace(run, records=records)


def find_audited(audits: Sequence[Audited]) -> Iterator[Finding]:
    """Yield a finding for each audit: objects that are wrong, or the share that is excluded."""
    for audit in audits:
        share = audit.wrong_share_max
        evidence = Evidence(
            "objects wrong", float(audit.wrong), 0.0, unit="objects", place=f"trial {audit.trial}"
        )
        yield Finding(
            AUDIT_FAILED if audit.wrong else "audited",
            f"{audit.target}, {audit.place}: {audit.statement()}",
            evidence=(evidence,) if share is not None or audit.history else (),
            cases=(f"trial {audit.trial}",),
        )


def find_survivals(records: Sequence[Record]) -> Iterator[Finding]:
    """Yield a finding for each kind of fault in a durability run."""
    survived = list(survivals(records))
    name = durability_class(survived)
    of_class = "" if name is None else f" (durability class {name}: {CLASSES[name]})"
    for survival in survived:
        evidence = Evidence(
            "objects wrong", float(survival.wrong), 0.0, unit="objects",
            place=f"{survival.times} times: {FAULT_NOUNS[survival.fault]}",
        )  # fmt: skip
        yield Finding("durability", survival.statement() + of_class, evidence=(evidence,))


def describe(audit: Audited) -> Iterator[str]:
    """Yield an audit as lines for people: the sentence, then findings with their calls."""
    yield f"audit of {audit.target}, {audit.place}: {audit.statement()}"
    for count, words in (
        (audit.unknown, "may be in more than one state: a request failed or was cut off"),
        (audit.unanswered, "without a conclusive answer"),
    ):
        if count:
            yield f"  {counted(count, 'object')} {words}"
    if audit.history is not None and audit.history["stale_reads"]:
        behind, versions = audit.history["behind_ns"], audit.history["behind_versions"]
        times = (units.format_duration(behind[name]) for name in ("p50", "p99", "max"))
        yield f"  {counted(audit.history['stale_reads'], 'read')} behind, by (p50, p99, most):"
        yield f"    {', '.join(times)}; versions: {', '.join(map(str, versions.values()))}"
    if audit.listings_failed:
        yield f"  {counted(audit.listings_failed, 'listing')} failed, and prove nothing"
    for finding in audit.findings[:SHOWN]:
        words = WORDS.get(finding["kind"], "not as was acknowledged")
        shown = f" ({finding['times']:,} times)" if finding.get("times", 1) > 1 else ""
        yield f"  {finding['kind']}: {finding['bucket']}/{finding['key']}: {words}{shown}"
        for call in finding["calls"]:
            yield f"    {call_words(call)}"
        if replay := finding.get("replay"):
            yield f"    replay: {replay}"
    if len(audit.findings) > SHOWN:
        yield f"  and {len(audit.findings) - SHOWN} more: loadstone report RUN -f json"
