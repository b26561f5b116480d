"""Known bottlenecks, injected on two hosts made of namespaces: the verdict names them."""

import pytest

from tests.rig.bottleneck import BOTTLENECKS
from tests.rig.experiment import inject
from tests.rig.machine import lacks
from tests.rig.matrix import is_blamed, is_right

pytestmark = pytest.mark.real

# Those that show in two seconds on a machine with other work on it too; `make rig` injects all.
SECONDS = 2.0
STOLEN_MAX = 0.02
SUBSET = ("client-quota", "client-card", "client-ports", "store-slow-down")


@pytest.mark.parametrize("name", SUBSET)
def test_an_injected_bottleneck_is_named(name: str) -> None:
    reason = lacks()
    if reason is not None:
        pytest.skip(reason)
    for seconds in (SECONDS, 3 * SECONDS, 3 * SECONDS):
        outcome = inject(BOTTLENECKS[name], seconds=seconds)
        if is_right(outcome) or outcome.stolen <= STOLEN_MAX:
            # Where much was stolen, the processors that were are the bottleneck, not the injected.
            break
    assert not is_blamed(outcome), outcome
    assert is_right(outcome), outcome
