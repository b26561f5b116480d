"""Every kind of trial is shown to the load generator before anything runs."""

import json
from typing import Any

import pytest

from loadstone.execution import executors, operations
from tests.unit.test_plan import planned


def test_sizes_that_differ_are_all_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(
        "dataset: {objects: 10}\nload: {threads: 1}\n"
        "phases: [{op: multipart_put, name: m, part_size: 5MiB}, get]\nblocks: 3\n"
        "sweep: {size: [16MiB, 32MiB, 1GiB]}\n"
    )
    sizes: list[tuple[Any, Any]] = []

    def look(text: str) -> None:
        document = json.loads(text)
        if document["phase"] == "m":
            sizes.append((document["dataset"]["size"]["bytes"], document["options"]["part_bytes"]))

    monkeypatch.setattr(operations._loadgen, "check", look)
    executors.check_documents(plan)
    assert sorted(set(sizes)) == [(size << 20, 5 << 20) for size in (16, 32, 1024)]
    # Blocks repeat them.
    assert len(sizes) == len(set(sizes))
