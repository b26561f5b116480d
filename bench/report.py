"""Measures the CPU time and memory of reports against the number of trials, which should be linear.

The runs are synthetic, with the seconds and probes of a real one; no load is made.

    python bench/report.py [--trials 100,400,1600] [--seconds 2] [--forms json,csv,terminal,html]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.unit.synthetic_run import Folder, trial

TARGETS = ("one", "other")
THREADS = (1, 2, 4, 8, 16, 32, 64, 128, 250, 500)
CASES = len(TARGETS) * len(THREADS)


def write_run(path: Path, trials: int, seconds: int) -> Path:
    """Write a run of two targets at ten loads, with the blocks needed for this many trials."""
    folder = Folder(path, "many", seconds)
    for number in range(trials):
        block, case = divmod(number, CASES)
        document = trial(
            number + 1,
            TARGETS[case % 2],
            "get",
            clients=THREADS[case // 2],
            block=block + 1,
        )
        folder.add(document, 500 + number * 37 % 211)
    campaign = {"name": "many", "targets": {name: {} for name in TARGETS}}
    return Path(folder.close(campaign=campaign, campaign_file=""))


def cost(run: Path, form: str, output: Path) -> tuple[float, float]:
    """Return the CPU seconds and the peak MiB of one report, made by a separate process."""
    program = [sys.executable, "-m", "loadstone", "report", str(run), "-f", form, "-o", str(output)]
    child = os.posix_spawn(sys.executable, program, os.environ)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(
            f"error: {' '.join(program)} ended with {os.waitstatus_to_exitcode(status)}"
        )
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Measure every format at every number of trials."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", default="100,400,1600")
    parser.add_argument("--seconds", type=int, default=2, help="of each trial")
    parser.add_argument("--forms", default="json,csv,terminal,html")
    asked = parser.parse_args()
    print(f"{'report':<10}{'trials':>8}{'CPU s':>8}{'ms a trial':>12}{'MiB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for trials in map(int, asked.trials.split(",")):
            run = write_run(Path(folder) / f"run-{trials}", trials, asked.seconds)
            for form in asked.forms.split(","):
                cpu_s, mebibytes = cost(run, form, Path(folder) / "report")
                each_ms = 1000 * cpu_s / trials
                print(f"{form:<10}{trials:>8}{cpu_s:>8.1f}{each_ms:>12.1f}{mebibytes:>6.0f}")


if __name__ == "__main__":
    main()
