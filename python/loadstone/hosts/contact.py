"""Checks whether each host reaches a target with its credentials: one read from each endpoint.

It requests an object that need not exist. "Not found" proves that the target was reached and
accepted the credentials.
"""

import json
import queue
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone.campaign.drivers import facts_of, read_drivers
from loadstone.documents.outcomes import UNREACHED
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TargetDocument, TrialDocument
from loadstone.errors import HostError
from loadstone.hosts import messages, secrets
from loadstone.hosts.carrier import Carrier
from loadstone.hosts.clock import Clock
from loadstone.hosts.division import signed_by

TIMEOUT_S = 10.0
"""How long a host waits for the target's answer."""

REST_S = 5.0
"""Additional time for the answer of the host itself."""

TELL_S = 3.0
LOOK_S = 0.1
ENDPOINTS_MAX = 64

CLOCK_APART_S = 5.0
"""A larger clock difference is mentioned with a target's refusal: S3 allows 900 s."""

DENIED = frozenset({"auth", "denied", "http_400", "http_401", "http_403"})

UNREACHED_HINT = "is the target's address reached from there: route, firewall, name service?"
DENIED_HINT = "are the credentials there the target's, and is the clock there right?"

# others' words: S3's, to a request whose signature is right.
PERMISSION_ONLY = ("AccessDenied",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a host cannot use a target, with a hint; `is_unreached` if no answer came."""

    text: str
    hint: str | None
    is_unreached: bool


def contact_document(target: TargetDocument, run: str, bucket_prefix: str) -> TrialDocument:
    """Return a trial that reads one object through each endpoint, and changes nothing."""
    operations = read_drivers()[target["driver"]].operations
    names = facts_of(target["driver"]).address.settings
    settings: Mapping[str, Any] = target.get("settings") or {}
    endpoints = next((settings[name] for name in names if settings.get(name)), None)
    clients = min(len(endpoints), ENDPOINTS_MAX) if isinstance(endpoints, list) else 1
    return {
        "format": 1, "kind": "operations", "id": "contact", "run": run, "seed": 1,
        "phase": "contact", "round": 1, "block": 1, "measured": False,
        "case": {"target": target["name"], "workload": "contact", "parameters": {}},
        "target": target,
        "dataset": {
            "bucket_prefix": bucket_prefix, "buckets": 1, "objects": clients,
            "object_prefix": "loadstone-contact-", "size": {"kind": "fixed", "bytes": 4096},
            "compressible": 0.0, "duplicate": 0.0, "encryption": None, "path_encryption": None,
            "version": 1,
        },
        "mix": [{"operation": "get" if "get" in operations else "read", "weight": 1.0}],
        "options": {"range_bytes": None if "get" in operations else 4096, "range_count": 1,
                    "part_bytes": None, "part_concurrency": 1, "page_keys": 1000, "prefix": None,
                    "delimiter": None, "bulk_keys": 1000},
        "load": {"kind": "closed", "clients": clients}, "rate_limit_per_s": None,
        "keys": {"order": "sequential", "theta": None},
        "stop": {"requests": clients, "duration_ns": None},
        "warm_up_ns": 0, "cool_down_ns": 0, "iterations": 1, "connections": "keep_alive",
        "timeout_ns": int(TIMEOUT_S * 1e9), "on_error": {"action": "continue", "limit": None},
        "verify": 0.0, "allow_foreign": False,
        "ownership": {"adopt": [], "runs": [], "written": []}, "ticket_base": 0, "cores": 1,
        "log_requests": False,
    }  # fmt: skip


class Contact:
    """One contact of several hosts with a target."""

    def __init__(
        self,
        carrier: Carrier,
        document: TrialDocument,
        attempt: int,
        *,
        sends_secrets: bool,
        profiles: Collection[str] = (),
    ) -> None:
        """`attempt` is a number that no trial has; raise HostError if a secret to send is
        absent.
        """
        self.clocks: Mapping[str, Clock] = {}
        self._carrier = carrier
        self._document = document
        self._attempt = attempt
        self._profiles = profiles
        self._secrets = secrets.read(document) if sends_secrets else None
        self._awaited: set[str] = set()
        self._obstacles: dict[str, Obstacle] = {}

    def obstacles(
        self,
        hosts: Iterable[str],
        tell: Callable[[str], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> Mapping[str, Obstacle]:
        """Let all hosts read at once, and return the obstacles by host name.

        `tell` gets a line if some take long. It ends after at most `TIMEOUT_S` plus `REST_S`, or
        when `is_over` returns True: hosts that have not answered then have no obstacle.
        """
        self._awaited = set(hosts)
        self.clocks = self._carrier.read_clocks(self._awaited)
        for host in self._awaited - self.clocks.keys():
            self._end(host, "its clock could not be read", None, is_unreached=False)
        for host in self._awaited:
            document = signed_by(self._document, host, self._profiles)
            trial = json.dumps({**document, "agent": host})
            asked = messages.Trial(trial=trial, attempt=self._attempt, secrets=self._secrets)
            self._carrier.ask((host,), asked)
        began = time.monotonic()
        is_told = False
        while self._awaited:
            waited_s = time.monotonic() - began
            if waited_s > TIMEOUT_S + REST_S:
                break
            if waited_s > TELL_S and not is_told:
                is_told = True
                tell(f"waiting for {', '.join(sorted(self._awaited))} to reach target "
                     f"{self._document['target']['name']}")  # fmt: skip
            if is_over():
                self._carrier.ask(self._awaited, messages.StopLoad())
                return self._obstacles
            self._handle()
        for host in tuple(self._awaited):
            self._carrier.ask((host,), messages.StopLoad())
            self._end(host, f"no answer within {TIMEOUT_S + REST_S:g} s", None, is_unreached=True)
        return self._obstacles

    def _handle(self) -> None:
        try:
            received = self._carrier.inbox.get(timeout=LOOK_S)
        except queue.Empty:
            return
        host = received.host
        if host not in self._awaited:
            return
        if received.name == "gone":
            self._end(host, "its agent ended, or the connection to it broke", None,
                      is_unreached=False)  # fmt: skip
            return
        if messages.attempt_of(received.body) != self._attempt:
            return
        try:
            message = messages.read(received.name, received.body)
        except ValueError as error:
            self._end(host, f"its agent sent an invalid message: {error}", None, is_unreached=False)
            return
        match message:
            case messages.Ready():
                at_ns = self._carrier.clock.unix_ns() + self.clocks[host].offset_ns
                self._carrier.ask((host,), messages.Go(at_unix_ns=at_ns))
            case messages.Failed():
                hint = message.hint
                if message.kind == "secret-absent" and self._secrets is None:
                    hint = messages.with_send_hint(hint)
                is_unreached = message.kind == "unreachable"
                self._end(host, message.error, hint, is_unreached=is_unreached)
            case messages.End():
                self._judge(host, message.summary)

    def _judge(self, host: str, summary: Summary) -> None:
        for kind, text in (summary.get("error_examples") or {}).items():
            is_denied = kind in DENIED and not str(text).startswith(PERMISSION_ONLY)
            if kind in UNREACHED or is_denied:
                words = f"{kind}: {text}" if text else kind
                hint = UNREACHED_HINT if kind in UNREACHED else DENIED_HINT
                self._end(host, words + self._clock_words(host), hint,
                          is_unreached=kind in UNREACHED)  # fmt: skip
                return
        self._awaited.discard(host)

    def _clock_words(self, host: str) -> str:
        apart_s = self.clocks[host].offset_ns / 1e9
        if abs(apart_s) < CLOCK_APART_S:
            return ""
        side = "ahead of" if apart_s > 0 else "behind"
        return f"; its clock is {abs(apart_s):,.0f} s {side} this machine's"

    def _end(self, host: str, text: str, hint: str | None, *, is_unreached: bool) -> None:
        self._awaited.discard(host)
        self._obstacles[host] = Obstacle(text=text, hint=hint, is_unreached=is_unreached)


NAMED_MAX = 8


def some_of(names: Sequence[str]) -> str:
    """Return names for a sentence, only the first ones if there are many."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def refusal(ended: Mapping[str, str]) -> HostError:
    """Return the error that lists every host whose agent has exited, and hints without
    duplicates.
    """
    lines, hints = [], []
    for host, why in sorted(ended.items()):
        message, _, hint = why.partition("\nhint: ")
        is_named = re.search(rf"\bhost {re.escape(host)}(?![\w.-])", message)
        lines.append(message if is_named else f"host {host}: {message}")
        if hint and hint not in hints:
            hints.append(hint)
    more = len(lines) - NAMED_MAX
    if more > 0:
        lines = [*lines[:NAMED_MAX], f"and {more} more hosts"]
    return HostError("\n".join(lines), "; ".join(hints[:2]) or None)
