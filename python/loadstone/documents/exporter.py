"""The scraper's task, typed: one JSON document for each probe of exporters."""

from typing_extensions import TypedDict


class ExporterDocument(TypedDict):
    """Exporters' URLs, wanted metrics, and the interval; `bearer_token` is its value or file."""

    name: str
    urls: tuple[str, ...]
    metrics: tuple[str, ...]
    every_ns: int
    timeout_ns: int
    answer_max_bytes: int
    series_max: int
    bearer_token: dict[str, str] | None
    ca_file: str | None
