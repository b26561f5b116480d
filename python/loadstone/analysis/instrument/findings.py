"""What a run does not know of its own instrument, and the command that would find it out."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from loadstone import units
from loadstone.analysis.instrument.headroom import AGE_MAX_DAYS
from loadstone.analysis.instrument.own_ceiling import COUNTS_AS
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.measured.part import Part
from loadstone.campaign.drivers import facts_of
from loadstone.documents.trial import TrialDocument
from loadstone.results.calibration import calibrated_operations, costs_of, usual_costs
from loadstone.results.features import describe_refusal, refused

DAY_S = 86_400


def find_uncalibrated(parts: Sequence[Part]) -> Iterator[Finding]:
    """Report results whose instrument has no known ceiling, or one that was measured long ago."""
    unknown = [part for part in parts if part.no_ceiling]
    if unknown:
        reasons = "; ".join(dict.fromkeys(part.no_ceiling for part in unknown))
        command = calibration_command(unknown)
        todo = f": run {command} before the next run" if command else ""
        share = f" of {len(unknown)} of {len(parts)} results" if len(unknown) < len(parts) else ""
        yield Finding(
            rule="not-calibrated",
            statement=f"the load generator's own ceiling is not known{share} ({reasons}){todo}",
            todo=command,
            cases=tuple(dict.fromkeys(_name(part) for part in unknown)),
        )
    aged = [
        (part, part.instrument.age_s)
        for part in parts
        if part.instrument is not None and part.instrument.age_s > AGE_MAX_DAYS * DAY_S
    ]
    if aged:
        days = max(age_s for _, age_s in aged) / DAY_S
        command = calibration_command([part for part, _ in aged])
        yield Finding(
            rule="calibration-old",
            statement=(
                f"the load generator's own ceiling was measured {days:.0f} days before the run,"
                f" and counts for {AGE_MAX_DAYS}: run {command}"
            ),
            evidence=(
                Evidence(metric="age", value=days, threshold=float(AGE_MAX_DAYS), unit="days"),
            ),
            cases=tuple(dict.fromkeys(_name(part) for part, _ in aged)),
        )


def find_refusals(parts: Sequence[Part]) -> Iterator[Finding]:
    """Report features of the kernel that this host refused, and what was done without them."""
    found: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        for refusal in refused(part.record.summary).items():
            found.setdefault(refusal, []).append(_name(part))
    for (name, said), cases in found.items():
        yield Finding(
            rule="kernel-feature",
            statement=describe_refusal(name, said),
            evidence=(Evidence(metric=name, value=said),),
            cases=tuple(dict.fromkeys(cases)),
        )


def calibration_command(parts: Sequence[Part]) -> str:
    """Return the command that calibrates the loads of these parts; none where there is none."""
    trials = [part.record.trial for part in parts]
    drivers = _unique(trial["target"]["driver"] for trial in trials)
    drivers = [driver for driver in drivers if facts_of(driver).calibration]
    operations = _unique(COUNTS_AS.get(part.operation, part.operation) for part in parts)
    operations = [operation for operation in operations if operation in calibrated_operations()]
    if not drivers or not operations:
        return ""
    words = ["loadstone", "calibrate", *drivers]
    sizes = sorted({round(part.bytes / part.good) for part in parts if part.good and part.bytes})
    if sizes:
        words += ["--sizes", ",".join(units.format_size(size) for size in sizes)]
    threads = sorted({one for trial in trials if (one := (trial.get("load") or {}).get("clients"))})
    if threads:
        # One alone shows how long a request takes when no other is served.
        words += ["--threads", ",".join(map(str, sorted({1, *threads})))]
    words += ["--operations", ",".join(operations)]
    words += _settings(trials)
    if any(trial.get("connections") == "per_request" for trial in trials):
        words.append("--no-keepalive")
    return shlex.join(words)


def _settings(trials: Iterable[TrialDocument]) -> Iterator[str]:
    """Return the flags of settings that are not as usual, and make a request dearer or cheaper."""
    for trial in trials:
        driver = trial["target"]["driver"]
        usual = usual_costs(driver)
        found = costs_of(driver, trial["target"].get("settings") or {})
        for name, value in found.items():
            if name in usual and value != usual[name]:
                shown = str(value).lower() if isinstance(value, bool) else str(value)
                yield from ("--target-set", f"{name}={shown}")
        return


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _name(part: Part) -> str:
    return f"trial {part.record.id} {part.operation}"
