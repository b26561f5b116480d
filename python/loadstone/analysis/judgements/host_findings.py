"""Findings on client hosts: lost, late or unequal ones, and uncertain clocks."""

from collections.abc import Iterator

from loadstone.analysis.instrument.headroom import (
    SHARE_MIN,
    START_ERROR_NS_MAX,
    behind,
    hosts_of,
    lost,
    start_error_ns,
)
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.run_view import RunView

CLOCK_BOUND_NS_MAX = 5_000_000


def find_lost_hosts(view: RunView) -> Iterator[Finding]:
    """Report the hosts that were lost, each with the reason."""
    trials = {name: lost(record) for name, record in view.measured.items() if lost(record)}
    if trials:
        words = [
            f"{host['name']} in trial {name} ({host['reason']})"
            for name, hosts in trials.items()
            for host in hosts
        ]
        more = f" and {len(words) - 3} more" if len(words) > 3 else ""
        yield Finding(
            "HOST_LOST",
            f"client hosts were lost: {'; '.join(words[:3])}{more}",
            cases=tuple(f"trial {name}" for name in trials),
        )


def find_started_apart(view: RunView) -> Iterator[Finding]:
    """Report the trials whose hosts did not begin together."""
    late = [
        (start_error_ns(host), host["name"], name)
        for name, record in view.measured.items()
        for host in hosts_of(record)
        if start_error_ns(host) > START_ERROR_NS_MAX
    ]
    if late:
        error_ns, host, name = max(late)
        yield Finding(
            "START_APART",
            f"host {host} began trial {name} {error_ns / 1e6:.1f} ms from the common"
            f" start; {len(late)} starts of a host were more than 5 ms off",
            evidence=(
                Evidence(
                    "start error", error_ns / 1e6,
                    START_ERROR_NS_MAX / 1e6, unit="ms",
                ),
            ),
            cases=tuple(dict.fromkeys(f"trial {trial}" for _, _, trial in late)),
        )  # fmt: skip


def find_uncertain_clocks(view: RunView) -> Iterator[Finding]:
    """Report the least certain clock of all hosts, if its bound is too wide."""
    bounds = [
        (int(host.get("clock_bound_ns") or 0), str(host["name"]), name)
        for name, record in view.measured.items()
        for host in hosts_of(record)
    ]
    bound_ns, host, trial = max(bounds, default=(0, "", ""))
    if bound_ns > CLOCK_BOUND_NS_MAX:
        yield Finding(
            "clocks",
            f"the clock of host {host} was known to {bound_ns / 1e6:.1f} ms only in"
            f" trial {trial}",
            evidence=(
                Evidence(
                    "bound of the clock's offset", bound_ns / 1e6,
                    CLOCK_BOUND_NS_MAX / 1e6, unit="ms",
                ),
            ),
            cases=(f"trial {trial}",),
        )  # fmt: skip


def find_set_clocks(view: RunView) -> Iterator[Finding]:
    """Report clocks that were set during a trial, with the largest step."""
    steps = [
        (host.get("clock_step_ns") or 0, str(host["name"]), name)
        for name, record in view.measured.items()
        for host in hosts_of(record)
        if host.get("clock_step_ns")
    ]
    if steps:
        step_ns, host, trial = max(steps, key=lambda step: abs(step[0]))
        yield Finding(
            "CLOCK_SET",
            f"the clock of host {host} was set by {step_ns / 1e9:+.3f} s during trial"
            f" {trial}; {len(steps)} times in all a host's clock was set during a trial",
            evidence=(Evidence("step", step_ns / 1e6, 0.0, unit="ms"),),
            cases=tuple(dict.fromkeys(f"trial {name}" for _, _, name in steps)),
        )


def find_unequal(view: RunView) -> Iterator[Finding]:
    """Report the host that did least of its share, and in how many trials."""
    shares = [
        (share, str(host["name"]), name)
        for name, record in view.measured.items()
        for host, share in behind(record)
    ]
    if shares:
        share, host, name = min(shares)
        trials = dict.fromkeys(f"trial {trial}" for _, _, trial in shares)
        yield Finding(
            "HOSTS_UNEQUAL",
            f"host {host} made {share:.0%} of an equal share of trial {name};"
            f" hosts were unequal in {len(trials)} of {len(view.measured)} trials",
            evidence=(Evidence("share", share, SHARE_MIN, unit=""),),
            cases=tuple(trials),
        )
