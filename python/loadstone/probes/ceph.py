"""The state of a Ceph cluster, from its own command: health, fill, redundancy, devices.

Missing answers are absent.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadstone.documents.mistake import adapter_of
from loadstone.documents.target_state import ClusterState
from loadstone.probes.ceph_answers import (
    Answers,
    Latencies,
    LatencyList,
    Osds,
    Pool,
    PoolRule,
    Profile,
    Status,
    Usage,
    Versions,
    read_answers,
)

QUESTIONS: Mapping[str, Sequence[str]] = {
    "status": ("status",),
    "usage": ("df",),
    "osds": ("osd", "df"),
    "latencies": ("osd", "perf"),
    "map": ("osd", "dump"),
    "rules": ("osd", "crush", "rule", "dump"),
    "versions": ("versions",),
}
"""The arguments of the command for each answer."""

MOVING = ("recover", "backfill", "degraded", "remapped", "misplaced", "peering", "undersized")
"""Words in the states of placement groups that move data."""

POOL_SETTINGS = ("size", "min_size", "pg_num", "crush_rule", "erasure_code_profile", "flags_names")


def digest(answer: Mapping[str, object], pools: Iterable[str]) -> ClusterState:
    """Return the relevant facts in a cluster's answers, for some `pools` or all.

    Raises ValueError if an answer is not Ceph's.
    """
    answers = read_answers(answer)
    status = answers.get("status") or {}
    facts = {
        "fsid": status.get("fsid"),
        "health": (status.get("health") or {}).get("status"),
        "checks": _checks(status),
        "groups": _groups(status),
        **_moving(status),
        **_usage(answers.get("usage") or {}),
        **_osds(answers.get("osds") or {}),
        "latency_ms": _latencies(answers.get("latencies") or {}),
        "versions": _versions(answers.get("versions") or {}),
        "pools": _pools(answers, set(pools)),
    }
    return adapter_of(ClusterState).validate_python(
        {key: value for key, value in facts.items() if value not in (None, {}, [])}
    )


def is_moving(facts: ClusterState) -> bool:
    """Tell whether the cluster was moving or repairing data."""
    states = " ".join(facts.get("groups") or ())
    counts = (facts.get("objects_misplaced"), facts.get("objects_degraded"))
    return any(counts) or any(word in states for word in MOVING)


def _checks(status: Status) -> dict[str, str]:
    checks = (status.get("health") or {}).get("checks") or {}
    return {
        name: str((check.get("summary") or {}).get("message", "")) for name, check in checks.items()
    }


def _groups(status: Status) -> dict[str, int]:
    states = (status.get("pgmap") or {}).get("pgs_by_state") or ()
    return {str(state["state_name"]): int(state["count"]) for state in states}


def _moving(status: Status) -> dict[str, Any]:
    groups = status.get("pgmap") or {}
    return {
        "objects_misplaced": groups.get("misplaced_objects"),
        "objects_degraded": groups.get("degraded_objects"),
        "recovery_bytes_per_s": groups.get("recovering_bytes_per_sec"),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    stats = usage.get("stats") or {}
    total, used = stats.get("total_bytes"), stats.get("total_used_raw_bytes")
    return {
        "total_bytes": total,
        "used_bytes": used,
        "fill": used / total if total and used is not None else None,
        "fill_by_class": {
            name: usage_of_class.get("total_used_raw_ratio")
            for name, usage_of_class in (usage.get("stats_by_class") or {}).items()
        },
    }


def _osds(osds: Osds) -> dict[str, Any]:
    nodes = osds.get("nodes") or ()
    classes: dict[str, int] = {}
    for node in nodes:
        name = str(node.get("device_class") or "none")
        classes[name] = classes.get(name, 0) + 1
    fills = [float(node["utilization"]) / 100 for node in nodes if "utilization" in node]
    return {
        "osds": {
            str(node["id"]): {
                "class": node.get("device_class"),
                "status": node.get("status"),
                "fill": float(node["utilization"]) / 100 if "utilization" in node else None,
                "groups": node.get("pgs"),
            }
            for node in nodes
        },
        "classes": classes,
        "osds_up": sum(node.get("status") == "up" for node in nodes) if nodes else None,
        "fill_of_fullest_osd": max(fills, default=None),
    }


def _latencies(latencies: Latencies) -> dict[str, Any]:
    listed: LatencyList = latencies.get("osdstats") or latencies
    infos = listed.get("osd_perf_infos") or ()
    return {
        str(info["id"]): {
            "commit": (info.get("perf_stats") or {}).get("commit_latency_ms"),
            "apply": (info.get("perf_stats") or {}).get("apply_latency_ms"),
        }
        for info in infos
    }


def _versions(versions: Versions) -> dict[str, int]:
    return {str(name): int(count) for name, count in (versions.get("overall") or {}).items()}


def _pools(answers: Answers, names: set[str]) -> dict[str, Any]:
    osd_map = answers.get("map") or {}
    profiles = osd_map.get("erasure_code_profiles") or {}
    classes = {rule.get("rule_id"): _class_of(rule) for rule in answers.get("rules") or ()}
    usage = {
        pool["name"]: pool.get("stats") for pool in (answers.get("usage") or {}).get("pools") or ()
    }
    pools: dict[str, Any] = {}
    for pool in osd_map.get("pools") or ():
        name = str(pool["pool_name"])
        if names and name not in names:
            continue
        settings: Mapping[str, object] = pool
        facts = {key: settings[key] for key in POOL_SETTINGS if settings.get(key) not in (None, "")}
        options = pool.get("options") or {}
        profile = profiles.get(pool.get("erasure_code_profile") or "") or {}
        stats = usage.get(name) or {}
        facts |= {
            "class": classes.get(pool.get("crush_rule")),
            "redundancy": _redundancy(pool, profile),
            "compression": options.get("compression_mode"),
            "objects": stats.get("objects"),
            "stored_bytes": stats.get("stored"),
            "fill": stats.get("percent_used"),
        }
        pools[name] = {key: value for key, value in facts.items() if value is not None}
    return pools


def _redundancy(pool: Pool, profile: Profile) -> str | None:
    if profile.get("k") and pool.get("erasure_code_profile"):
        return f"{profile['k']}+{profile.get('m', '?')}"
    return f"{pool['size']} copies" if pool.get("size", 0) > 1 else "1 copy"


def _class_of(rule: PoolRule) -> str | None:
    """Return the device class of a rule, which is part of the root's name."""
    for step in rule.get("steps") or ():
        name = step.get("item_name") or ""
        if step.get("op") == "take" and "~" in name:
            return name.partition("~")[2]
    return None
