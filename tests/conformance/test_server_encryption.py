"""Encryption by the store: its own key, or one that goes with each request for an object."""

from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.test_stored_checksums import with_settings
from tests.conformance.trials import Dataset

# By S3 alone.
pytestmark = needs("view", "create_upload")


@pytest.mark.parametrize("whose", ["store", "customer"])
def test_a_key_for_the_store_goes_with_requests_for_objects(
    place: Place, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setenv("CONFORMANCE_CUSTOMER_KEY", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
    settings: dict[str, Any] = {"server_encryption": whose}
    if whose == "customer":
        settings |= {"customer_key": {"env": "CONFORMANCE_CUSTOMER_KEY"}}
        settings |= {"customer_key_over_http": True}
    changes = with_settings(place, **settings)
    try:
        written = trials.prepare(place, dataset, **changes)
    except _loadgen.TargetError as refused:
        # The embedded store, which encrypts nothing, names the header that it was asked by.
        if "x-amz-server-side-encryption" not in str(refused):
            pytest.skip(f"this store refuses it: {refused}")
        return
    if written.outcomes() != {"ok": dataset.objects}:
        trials.clean_up(place, dataset)
        pytest.skip(f"this store refuses it: {written.summary['error_examples']}")
    for operation in ("get", "head", "copy", "post"):
        result = trials.run(trials.document(place, dataset, operation, **changes))
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    trials.clean_up(place, dataset, **changes)
