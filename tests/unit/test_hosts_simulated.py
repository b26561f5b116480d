"""The simulation of many agents feeds a real controller, and nothing of their rows is lost."""

from pathlib import Path

import hosts_simulated


def test_all_rows_of_agents_are_kept(tmp_path: Path) -> None:
    cost = hosts_simulated.feed(9, 2, tmp_path / "run")
    assert cost.agents == 9
    assert cost.cpu_s > 0
    # Twelve histograms at least.
    assert cost.message_bytes > 1000
