"""Probes of the target during the load: metrics exporters, and a Ceph cluster."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake, mistake_of
from loadstone.campaign.schema.target import http_url, secret_reference
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    Names,
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    PositiveSize,
    Section,
    Words,
)
from loadstone.errors import InputError, shown


def _read_urls(value: Any) -> Any:
    return [url for text in value for url in units.expand_hosts(str(text))]


def _read_token(value: Any) -> Any:
    return None if value is None else secret_reference(value)


class PrometheusProbe(Section):
    """Exporters whose metrics are read at an interval."""

    urls: Annotated[tuple[str, ...], BeforeValidator(_read_urls), OneOrMany()] = Field(
        min_length=1, description="URLs of the metrics: http://osd{1...4}:9100/metrics."
    )
    metrics: Names = Field(
        min_length=1, description="Names of metrics to keep, with * for anything: ceph_osd_op_*."
    )
    name: str = Field(
        default="prometheus", pattern=NAME_PATTERN, description="The probe's name in results."
    )
    every_ns: PositiveDuration = Field(
        default=5_000_000_000, alias="every", description="Interval between two readings."
    )
    timeout_ns: PositiveDuration | None = Field(
        default=None,
        alias="timeout",
        description="Time limit of one reading; default: the interval.",
    )
    answer_max_bytes: PositiveSize = Field(
        default=32 << 20, alias="answer_max", description="Longest answer that is read."
    )
    series_max: PositiveCount = Field(
        default=2000, description="Maximum number of series kept of one reading."
    )
    bearer_token: Annotated[dict[str, str] | None, BeforeValidator(_read_token)] = Field(
        default=None, description="Bearer token for the exporter: {env: NAME} or {file: PATH}."
    )
    ca_file: str | None = Field(
        default=None, description="A PEM file to trust instead of this host's authorities."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        for index, url in enumerate(self.urls):
            try:
                http_url(url)
            except InputError as error:
                yield mistake_of(("urls", index), error)
        if self.timeout_ns is not None and self.timeout_ns > self.every_ns:
            allowed = "at most every, so that readings do not overlap"
            yield KeyMistake(("timeout",), "more than every", allowed)


class CephProbe(Section):
    """A Ceph cluster, queried before and after each trial with the ceph command."""

    targets: Names = Field(
        default=(), description="Targets that this cluster serves; default: all."
    )
    pools: Names = Field(
        default=(),
        description="Pools whose settings are kept; default: that of a rados target, or all.",
    )
    conf: str | None = Field(
        default=None, description="The configuration file; default: that of a rados target."
    )
    keyring: str | None = Field(default=None, description="The keyring.")
    user: str | None = Field(
        default=None, description="The Ceph user, with its type: client.admin."
    )
    via: Words = Field(
        default=(), description="Words before each command, to run it elsewhere: [ssh, root@mon1]."
    )
    timeout_ns: PositiveDuration = Field(
        default=15_000_000_000, alias="timeout", description="Time limit of one command."
    )


class TargetProbes(Section):
    """Everything that is watched at the targets."""

    prometheus: Annotated[tuple[PrometheusProbe, ...], OneOrMany()] = Field(
        default=(), description="Exporters of metrics in Prometheus' text format."
    )
    ceph: Annotated[tuple[CephProbe, ...], OneOrMany(flag=(True, [{}]))] = Field(
        default=(), description="Ceph clusters; true for that of the environment."
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        names = [probe.name for probe in self.prometheus]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield KeyMistake(("prometheus", index, "name"), shown(name), "names that differ")
