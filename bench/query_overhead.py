"""Measures the CPU time that measuring a query adds in the engine's process, with an idle engine.

    python bench/query_overhead.py --seconds 0.3 1

It includes reading processor time, device bytes and connections, and encoding the answer as JSON,
but not the start of process and engine, which precedes the query.
"""

import argparse
import time

from loadstone.engines import worker
from loadstone.engines.engine import Row, Tables
from loadstone.engines.messages import RunQuery
from loadstone.engines.traffic import Route

ANSWER: list[Row] = [("A name", 12345, 678.9)] * 100


class Waiting:
    """An engine that answers after a while without using CPU time."""

    def __init__(self, seconds: float, *, has_processes: bool) -> None:
        self.has_processes = has_processes
        self._seconds = seconds

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        return ""

    def load(self, tables: Tables, source: str) -> None:
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        time.sleep(self._seconds)
        return ANSWER

    def beside(self) -> "Waiting":
        return self

    def account(self) -> None:
        pass

    def close(self) -> None:
        pass


def main() -> None:
    """Print a line for each kind of target and length of a query."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.3, 1.0])
    parser.add_argument("--repeat", type=int, default=10)
    asked = parser.parse_args()
    task = RunQuery(query="", is_kept=True)
    print("target     engine's processes  query s  CPU ms  share of the query")
    for name, route in (("directory", Route()), ("bucket", Route(endpoint="http://127.0.0.1:9"))):
        for has_processes in (False, True):
            for seconds in asked.seconds:
                engine = Waiting(seconds, has_processes=has_processes)
                worker._run(engine, task, route)
                before = time.process_time_ns()
                for _ in range(asked.repeat):
                    worker._run(engine, task, route)
                cpu_ms = (time.process_time_ns() - before) / asked.repeat / 1e6
                processes = "several" if has_processes else "one"
                print(
                    f"{name:<9}  {processes:<18}  {seconds:>7g}  {cpu_ms:>6.2f}  "
                    f"{cpu_ms / 1000 / seconds:>18.2%}"
                )


if __name__ == "__main__":
    main()
