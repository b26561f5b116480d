"""Finds the files and devices that a fio job would write to, so that the job can be refused."""

import configparser
from collections.abc import Mapping
from pathlib import Path

from loadstone.errors import InputError

READS = frozenset({"read", "randread"})
"""Read-only values of fio's `rw`. Any other value, known or not, counts as writing."""

DO_MORE = {
    "unlink": "it deletes the files of the job",
    "unlink_each_loop": "it deletes the files of the job",
    "exec_prerun": "it runs a command; a hook does that, and is recorded",
    "exec_postrun": "it runs a command; a hook does that, and is recorded",
}
"""Options that do more than read and write; a job with one of them is refused."""


READ_AND_WRITE = frozenset((
    "ba", "blockalign", "blocksize", "blocksize_range", "bs", "bsrange", "bssplit",
    "buffered", "direct", "directory", "end_fsync", "fdatasync", "file_service_type",
    "filename", "filesize", "fsync", "fsync_on_close", "group_reporting", "hipri",
    "invalidate", "io_limit", "io_size", "iodepth", "iodepth_batch", "iodepth_batch_complete",
    "iodepth_batch_complete_max", "iodepth_batch_complete_min", "iodepth_batch_submit",
    "iodepth_low", "ioengine", "latency_percentile", "latency_run", "latency_target",
    "latency_window", "lockmem", "loops", "name", "nonvectored", "norandommap", "nrfiles",
    "number_ios", "numjobs", "offset", "offset_align", "offset_increment",
    "percentage_random", "percentage_sequential", "ramp_time", "randrepeat", "randseed",
    "random_distribution", "random_generator", "rate", "rate_cycle", "rate_iops",
    "rate_iops_min", "rate_min", "rate_process", "readwrite", "registerfiles", "runtime",
    "rw", "rw_sequencer", "rwmixread", "rwmixwrite", "size", "softrandommap", "sqthread_poll",
    "startdelay", "stonewall", "sync", "thinktime", "thinktime_blocks", "thinktime_spin",
    "thread", "time_based", "unified_rw_reporting", "fixedbufs", "nowait",
))  # fmt: skip
"""Options that a campaign may set, by their full names, because fio also accepts abbreviations."""

ENGINES = frozenset(
    ("io_uring", "libaio", "mmap", "null", "posixaio", "psync", "pvsync", "pvsync2", "sync",
     "vsync")
)  # fmt: skip
"""I/O engines built into fio; it would load any other one from a library."""


def unknown_options(options: Mapping[str, str | int | float]) -> dict[str, str]:
    """Return the options that are not known to only read and write, each with the reason."""
    elsewhere = "loadstone cannot tell that it only reads and writes; a job_file may hold it"
    reasons = {
        name: elsewhere for name in options if name not in READ_AND_WRITE and name not in DO_MORE
    }
    if str(options.get("ioengine", "sync")) not in ENGINES:
        reasons["ioengine"] = f"allowed: {', '.join(sorted(ENGINES))}"
    return reasons


def refused_options(options: Mapping[str, str | int | float]) -> dict[str, str]:
    """Return the options that do more than to read and write, each with what it does."""
    off = ("0", "False", "false")
    return {name: DO_MORE[name] for name in DO_MORE if str(options.get(name, "0")) not in off}


def writes_of_options(options: Mapping[str, str | int | float]) -> list[str]:
    """Return the files and devices that a job with these options writes to."""
    # fio accepts both names and uses the last one, so both values are checked.
    kinds = [str(options[name]) for name in ("rw", "readwrite") if name in options]
    # rw=read:8 means 8 I/Os between two jumps.
    if all(kind.partition(":")[0] in READS for kind in kinds):
        return []
    names = [name for name in str(options.get("filename", "")).split(":") if name]
    folders = [name for name in str(options.get("directory", "")).split(":") if name]
    if not names:
        return folders
    return [str(Path(folder) / name) for folder in folders or [""] for name in names]


def writes_of_job_file(path: Path) -> list[str]:
    """Return the files and devices that the jobs of a file write to.

    A file with an include is refused, because the included file is not parsed.
    """
    reader = configparser.ConfigParser(
        allow_no_value=True, strict=False, delimiters=("=",), interpolation=None,
        comment_prefixes=("#", ";"), default_section="global",
    )  # fmt: skip
    try:
        text = path.read_text(encoding="utf-8")
        reader.read_string(text, source=str(path))
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f'cannot read the job file "{path}": {reason}') from error
    if any(line.split()[:1] == ["include"] for line in text.splitlines()):
        raise InputError(
            f'job file "{path}" includes another file',
            "put all jobs into one file, so that loadstone can check what they write to",
        )
    for job in reader.sections():
        for name, reason in refused_options(reader[job]).items():
            raise InputError(
                f'job file "{path}": option "{name}" of job "{job}" is refused: {reason}',
                "leave it out",
            )
    writes = [name for job in reader.sections() for name in writes_of_options(reader[job])]
    return list(dict.fromkeys(writes))
