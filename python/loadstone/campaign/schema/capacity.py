"""The objective of a search phase: the largest load that meets limits on latency and errors.

`search` chooses the next load, and `search_step` makes each step's trial.
"""

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.values import (
    Duration,
    Fraction,
    PositiveCount,
    PositiveDuration,
    Rate,
    Section,
)
from loadstone.campaign.search import BEYOND_QUANTILE, WARM_UP_SHARE, Goal, Loads
from loadstone.documents.trial import SearchDocument

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}

WIDTH_MIN = 0.005


class Capacity(Section):
    """The objective of a search, and its effort."""

    p50: PositiveDuration | None = Field(default=None, description="Maximum of the median latency.")
    p90: PositiveDuration | None = Field(
        default=None, description="Maximum of the 90th percentile of latency."
    )
    p95: PositiveDuration | None = Field(
        default=None, description="Maximum of the 95th percentile of latency."
    )
    p99: PositiveDuration | None = Field(
        default=None, description="Maximum of the 99th percentile of latency."
    )
    p99_9: PositiveDuration | None = Field(
        default=None, alias="p99.9", description="Maximum of the 99.9th percentile of latency."
    )
    errors: Fraction = Field(default=0.001, description="Share of requests that may fail.")
    achieved: Fraction = Field(
        default=0.99, description="Share of an offered rate that must be achieved."
    )
    vary: Literal["rate", "threads"] = Field(
        default="rate",
        description="The searched setting: the rate of an open load, or the threads of a "
        "closed one.",
    )
    low: Rate | None = Field(
        default=None,
        alias="min",
        description="Lowest load to try; determined by the search by default.",
    )
    high: Rate | None = Field(
        default=None,
        alias="max",
        description="Highest load to try; determined by the search by default.",
    )
    width: Fraction = Field(
        default=0.01, description="Relative distance of the bounds at which the search ends."
    )
    trial_ns: PositiveDuration = Field(
        default=60_000_000_000, alias="trial", description="Measured length of a deciding trial."
    )
    coarse_trial_ns: PositiveDuration = Field(
        default_factory=lambda given: min(10_000_000_000, given.get("trial_ns", 10_000_000_000)),
        alias="coarse_trial",
        description="Measured length of a trial that only narrows the loads; default "
        "10s, or that of trial if it is shorter.",
    )
    majority_of: PositiveCount = Field(
        default=3, description="Number of trials whose majority decides whether a load passes."
    )
    confirm: PositiveCount = Field(
        default=5,
        description="Number of new trials at the load that was found; all but one must pass.",
    )
    trials_max: PositiveCount = Field(default=100, description="Trials after which to give up.")
    time_max_ns: PositiveDuration | None = Field(
        default=None,
        alias="time_max",
        description="Time after which to give up; default: the time of trials_max deciding trials.",
    )
    pause_ns: Duration = Field(
        default=0, alias="pause", description="Pause between two trials of the search."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        given = [name for name in QUANTILES if getattr(self, name) is not None]
        if len(given) != 1:
            actual = " and ".join(given).replace("_", ".") or "none of them"
            yield KeyMistake((), actual, "one percentile with its limit, like {p99: 50ms}")
        for key, value in (("min", self.low), ("max", self.high)):
            if value is not None and self.vary == "threads" and value != int(value):
                yield KeyMistake((key,), f"{value:g}", "a whole number of threads")
        if self.low is not None and self.high is not None and self.low >= self.high:
            yield KeyMistake(("max",), f"{self.high:g}", "a load above min")
        if not WIDTH_MIN <= self.width <= 0.5:
            yield KeyMistake(("width",), f"{self.width:g}", "0.5% to 50%")
        if self.coarse_trial_ns > self.trial_ns:
            allowed = "a duration up to that of trial"
            yield KeyMistake(("coarse_trial",), "more than trial", allowed)

    @property
    def quantile(self) -> str:
        """The percentile of the objective, by its name in analysis."""
        return next(name for name in QUANTILES if getattr(self, name) is not None)

    def goal(self) -> Goal:
        """Return the objective for the search."""
        trial_s = self.trial_ns / 1e9
        whole_s = trial_s * (1 + WARM_UP_SHARE)
        time_max_s = self.time_max_ns / 1e9 if self.time_max_ns else self.trials_max * whole_s
        return Goal(
            latency_ns_max=getattr(self, self.quantile),
            quantile=QUANTILES[self.quantile],
            errors_max=self.errors,
            achieved_min=self.achieved if self.vary == "rate" else 0.0,
            width=self.width,
            trial_s=trial_s,
            coarse_trial_s=self.coarse_trial_ns / 1e9,
            duration_sum_s=trial_s * self.majority_of,
            confirm_trials=self.confirm,
            confirm_good_min=max(1, self.confirm - 1),
            trials_max=self.trials_max,
            time_max_s=time_max_s,
        )

    def loads(self, load: Load | None) -> Loads:
        """Return the range of loads to search, starting from the phase's load in the campaign."""
        is_whole = self.vary == "threads"
        start = load and (load.threads if is_whole else load.rate_per_s)
        if not start:
            wanted = BEYOND_QUANTILE / (1 - QUANTILES[self.quantile])
            start = self.low or (1 if is_whole else wanted / (self.coarse_trial_ns / 1e9))
        start = min(max(start, self.low or 0.0), self.high or math.inf)
        return Loads(start=start, low=self.low, high=self.high, is_whole=is_whole)

    def first_load(self, load: Load | None) -> Load:
        """Return the load of the first step; later ones differ only in rate or threads."""
        start = self.loads(load).start
        cores = load.cores if load is not None else None
        if self.vary == "threads":
            return Load(threads=int(start), cores=cores)
        if load is not None and load.rate_per_s is not None:
            return load.model_copy(update={"rate_per_s": start})
        return Load(rate=start, cores=cores)

    def document(self, load: Load | None) -> SearchDocument:
        """Return the search for the plan."""
        return {
            "vary": self.vary,
            "quantile": self.quantile,
            "pause_ns": self.pause_ns,
            "goal": self.goal().document(),
            "loads": self.loads(load).document(),
        }
