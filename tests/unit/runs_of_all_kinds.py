"""Runs of all kinds, for tests that every output shows the same numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadstone import importers
from loadstone.campaign.search import Goal, Loads, Measure, Observation, SearchTrial, next_step
from loadstone.campaign.search_step import read_step, step_document
from loadstone.formats.imported import Hints, Imported
from loadstone.importers.run_folder import write_run
from loadstone.results.record import ACTION_SCHEMA
from tests.unit.synthetic_run import SECOND_NS, Folder, histogram, trial, trial_rows, write_rounds
from tests.unit.synthetic_run import write_sweep as write_load_sweep

DATA = Path(__file__).parent.parent / "data" / "importers"
DAY_NS = 86_400 * SECOND_NS
SECONDS = 4

Write = Callable[[Path], Path]


def closed(folder: Folder, *targets: str, **others: Any) -> Path:
    campaign = {"name": "truth", "targets": {name: {} for name in targets or ("one",)}}
    return Path(folder.close(campaign=campaign, campaign_file="", **others))


def blocks(count: int, *targets: str, spoil: Callable[[Folder, Any, int], bool] | None = None):
    """A run of so many blocks of each target; `spoil` may write a trial in its own way."""

    def write(path: Path) -> Path:
        folder, number = Folder(path, "truth", SECONDS), 0
        for block in range(1, count + 1):
            for place, target in enumerate(targets or ("one",)):
                number += 1
                document = trial(number, target, "get", block=block, clients=4)
                if spoil is None or not spoil(folder, document, block):
                    folder.add(document, (200 + 100 * place) + 7 * (block * 5 % 6))
        return closed(folder, *(targets or ("one",)))

    return write


def labelled(label: str) -> Callable[[Folder, Any, int], bool]:
    def spoil(folder: Folder, document: Any, block: int) -> bool:
        folder.write(document, trial_rows(document, 200 + block, SECONDS), labels=(label,))
        return True

    return spoil


def failing(folder: Folder, document: Any, block: int) -> bool:
    folder.add(document, 200, failed_per_s=20, kind="http_500")
    return True


def empty_third(folder: Folder, document: Any, block: int) -> bool:
    if block != 3:
        return False
    rows = trial_rows(document, 200, SECONDS)
    folder.write(document, [row | {"outcome": "http_500", "objects": 0} for row in rows])
    return True


def lacking(folder: Folder, document: Any, block: int) -> bool:
    if (document["case"]["target"], block) != ("other", 4):
        return False
    folder.skip(document)
    return True


def write_days(path: Path) -> Path:
    folder = Folder(path, "truth", SECONDS)
    begun_ns = folder.now_ns
    for number in range(1, 10):
        day, hour = divmod(number - 1, 3)
        folder.now_ns = begun_ns + day * DAY_NS + hour * 3600 * SECOND_NS
        folder.add(trial(number, "one", "put", block=number), 100 + 20 * day + hour)
    return closed(folder)


def write_iterations(path: Path) -> Path:
    folder = Folder(path, "truth", SECONDS)
    for block in range(1, 7):
        folder.add(trial(block, "one", "get", block=block, iterations=3), 150 + block)
    return closed(folder)


def write_matrix(path: Path) -> Path:
    folder, number = Folder(path, "truth", 1), 0
    for size in (4096, 65536, 2**20):
        for threads in (1, 2, 4, 8, 12, 16, 24, 32, 64, 100, 150, 200):
            number += 1
            document = trial(number, "one", "get", clients=threads, size=size)
            folder.add(document, 9000 + 13 * number)
    return closed(folder)


def write_mix(path: Path) -> Path:
    folder = Folder(path, "truth", SECONDS)
    for block in range(1, 7):
        document = trial(block, "one", "get", block=block)
        document["phase"] = "mixed"
        document["mix"] = [{"operation": "get", "weight": 3.0}, {"operation": "put", "weight": 1.0}]
        rows = trial_rows(document, 300 + block, SECONDS)
        rows += [row | {"operation": "put", "first_byte": None} for row in rows]
        folder.write(document, rows)
    return closed(folder)


def write_hosts(path: Path) -> Path:
    folder = Folder(path, "truth", SECONDS)
    for block in range(1, 7):
        document = trial(block, "one", "get", block=block)
        rows = trial_rows(document, 300 + block, SECONDS)
        rows += [row | {"agent": "client-2"} for row in rows]
        hosts = [
            {"name": name, "state": "finished", "requests": len(rows), "failed": 0, "reason": None}
            for name in ("client-1", "client-2")
        ]
        folder.write(document, rows, changes={"hosts": hosts})
    return closed(folder)


def write_script(path: Path) -> Path:
    """Users of two targets do two actions; each action is of two requests."""
    folder, number = Folder(path, "truth", SECONDS), 0
    (path / "actions").mkdir()
    for block in range(1, 7):
        for target, rate in (("one", 40), ("other", 60)):
            number += 1
            document = trial(number, target, "get", block=block, clients=4)
            document["script"] = {"requests": {"path": "x", "sha256": "0"}, "actions": 100}
            rows = trial_rows(document, 2 * (rate + block), SECONDS)
            folder.write(document, rows)
            actions = []
            for name, share in (("READ", 2), ("WRITE", 1)):
                for second in range(SECONDS):
                    count = share * (rate + block) // 3
                    times = histogram(10**7, count, second)
                    row = dict.fromkeys(ACTION_SCHEMA.names)
                    row |= {
                        "agent": "client-1", "stage": "measure", "iteration": 1, "action": name,
                        "outcome": "ok", "second": second, "requests": count, "objects": 2 * count,
                        "bytes": 4096 * count, "response": times, "service": times,
                        "began_ns": 0, "ended_ns": SECONDS * SECOND_NS,
                    }  # fmt: skip
                    actions.append(row)
            table = pa.table(ACTION_SCHEMA.of_rows(actions))
            pq.write_table(table, path / "actions" / f"{document['id']}.parquet")
    return closed(folder, "one", "other")


SLOWNESS = {"Q01": 1.0, "Q06": 0.2, "Q13": 3.0}
QUERIES_OWN = {"engine": "duckdb", "cache": "warm", "threads": 2, "scale": 1.0}


def write_queries(path: Path) -> Path:
    """Three queries on two targets, six times each; one answer of Q13 is wrong."""
    folder, number = Folder(path, "truth", 1), 0
    for block in range(1, 7):
        for place, target in enumerate(("one", "other")):
            for query, slowness in SLOWNESS.items():
                number += 1
                time_ns = int(slowness * (1 + place) * (1 + 0.03 * (block * 5 % 6)) * SECOND_NS)
                of_query = QUERIES_OWN | {"query": query, "streams": None}
                document = of_queries(number, target, "query", block, {"query": query}, of_query)
                is_wrong = (target, query, block) == ("other", "Q13", 2)
                row = query_row("query", "wrong_answer" if is_wrong else "ok", time_ns)
                measured = {"query": query, "time_ns": time_ns, "cpu_ns": time_ns, "cores": 2}
                more = measured | {"read_bytes": 1000, "received_bytes": 0, "compared_with": "x"}
                folder.write(document, [row], changes=during(time_ns) | {"query": more})
    return closed(folder, "one", "other")


def write_streams(path: Path) -> Path:
    """Three queries in two streams beside each other, three times."""
    folder = Folder(path, "truth", 1)
    for block in range(1, 4):
        orders = [list(SLOWNESS), list(reversed(SLOWNESS))]
        of_streams = QUERIES_OWN | {"query": None, "streams": orders}
        document = of_queries(block, "one", "streams", block, {"streams": 2}, of_streams)
        queries, rows, whole_ns = [], [], 0
        for stream, order in enumerate(orders, 1):
            start_ns = 0
            for query in order:
                time_ns = int(SLOWNESS[query] * (1 + block / 10) * SECOND_NS)
                times = {"start_ns": start_ns, "end_ns": start_ns + time_ns}
                queries.append({"stream": stream, "query": query, "outcome": "ok", **times})
                start_ns += time_ns
                rows.append(query_row("streams", "ok", time_ns, start_ns // SECOND_NS))
            whole_ns = max(whole_ns, start_ns)
        more = {"streams": {"queries": queries, "time_ns": whole_ns, "cpu_ns": whole_ns}}
        folder.write(document, rows, changes=during(whole_ns) | more)
    return closed(folder)


def of_queries(
    number: int, target: str, phase: str, block: int, named: dict[str, Any], queries: dict[str, Any]
) -> Any:
    document = trial(number, target, phase, block=block)
    for key in ("mix", "dataset", "options", "keys", "load"):
        del document[key]
    document["case"]["parameters"] = named
    return document | {"kind": "queries", "queries": queries}


def query_row(operation: str, outcome: str, time_ns: int, second: int = 0) -> dict[str, Any]:
    times = histogram(time_ns, 1, 1)
    return {
        "agent": "local", "stage": "measure", "iteration": 1, "operation": operation,
        "outcome": outcome, "second": second, "requests": 1, "objects": 0, "bytes": 0,
        "response": times, "service": times, "first_byte": None, "lag": None,
    }  # fmt: skip


def during(time_ns: int) -> dict[str, Any]:
    times = {"start_ns": 0, "measure_start_ns": 0, "measure_end_ns": time_ns, "end_ns": time_ns}
    return {"iterations": [{"iteration": 1, "first_done_ns": time_ns, **times}]}


def write_search(path: Path) -> Path:
    """A search for the threads that keep p99 below 20 ms, which 32 threads do."""
    folder = Folder(path, "truth", 1)
    goal = Goal(latency_ns_max=20_000_000, trial_s=4, coarse_trial_s=2, time_max_s=3600)
    loads = Loads(start=8, low=8, high=64, is_whole=True)
    document = trial(1, "one", "get", clients=8)
    document["case"]["parameters"] = {"size": 4096}
    search = {
        "vary": "threads",
        "quantile": "p99",
        "goal": goal.document(),
        "loads": loads.document(),
    }
    document |= {"search": search, "ticket_base": 0, "warm_up_ns": SECOND_NS}
    trials: list[SearchTrial] = []
    while isinstance(step := next_step(goal, trials, loads), Measure):
        made = step_document(document, step, len(trials) + 1)
        folder.seconds = round(step.duration_s)
        is_fast = step.load <= 32
        rate = int(step.load * (200 if is_fast else 20)) + len(trials) % 3
        rows = trial_rows(made, rate, folder.seconds)
        folder.write(made, rows)
        observation = Observation(latency_ns=1e7 if is_fast else 1e8, errors=0.0, achieved=1.0)
        trials.append(read_step(document, made, observation))
    folder.plan = [document]
    return closed(folder)


def imported(form: str, *names: str) -> Write:
    def write(path: Path) -> Path:
        run = importers.find(form).read([DATA / name for name in names], Hints())
        assert isinstance(run, Imported)
        write_run(run, path)
        return path

    return write


def write_sweep(path: Path) -> Path:
    return write_load_sweep(path, seconds=SECONDS)


RUNS: dict[str, Write] = {
    "one trial": blocks(1),
    "two trials": blocks(2),
    "four trials": blocks(4),
    "six trials": blocks(6),
    "two targets": blocks(6, "one", "other"),
    "a block lacks": blocks(6, "one", "other", spoil=lacking),
    "bound": blocks(2, spoil=labelled("HOST_LOST")),
    "void by the client": blocks(2, spoil=labelled("STALLED")),
    "void by failures": blocks(6, spoil=failing),
    "an empty trial": blocks(6, spoil=empty_third),
    "interrupted": blocks(6, spoil=labelled("INTERRUPTED")),
    "rounds": lambda path: write_rounds(path, seconds=SECONDS),
    "iterations": write_iterations,
    "days": write_days,
    "sweep": write_sweep,
    "matrix": write_matrix,
    "mix": write_mix,
    "hosts": write_hosts,
    "script": write_script,
    "queries": write_queries,
    "streams": write_streams,
    "search": write_search,
    "warp": imported("warp", "warp-get.csv.zst"),
    "nectar": imported("nectar", "bench-put.csv", "bench-put.stdout.txt"),
}
