"""What the programs of nodes' probes printed, as they printed it: RUN/nodes/N001-write.txt.

N001 is the first probe, `write` what it did. A longer output than the limit loses its end, and says
so in its last line.
"""

from collections.abc import Mapping
from pathlib import Path

from loadstone.results.files import durable

NODES = "nodes"
OUTPUT_BYTES_MAX = 1 << 20
"""fio's own JSON has some 20 KiB, iperf3's 10 for each stream."""


class NodeOutputs:
    """Holds the outputs until there is a run folder, which comes after the probes."""

    def __init__(self) -> None:
        """Begin with none."""
        self._probes = 0
        self._kept: dict[str, bytes] = {}

    def take(self, printed: Mapping[str, str]) -> list[str]:
        """Take what one probe's programs printed, by step; return the files it will stand in."""
        if not printed:
            return []
        self._probes += 1
        names = []
        for step, text in printed.items():
            name = f"{NODES}/N{self._probes:03}-{step}.txt"
            self._kept[name] = _bounded(text.encode())
            names.append(name)
        return names

    def write(self, run: Path) -> None:
        """Write them into a run's folder; nothing where no program was started."""
        if not self._kept:
            return
        durable.make_folder_in(run, NODES)
        for name, content in self._kept.items():
            durable.write_file(run, name, content)


def _bounded(content: bytes) -> bytes:
    if len(content) <= OUTPUT_BYTES_MAX:
        return content
    said = f"\n(the first {OUTPUT_BYTES_MAX} of {len(content)} bytes)\n"
    return content[:OUTPUT_BYTES_MAX] + said.encode()
