"""Is this machine fit to measure on: its cores, what else they do, memory, files, a compiler.

Everything is read from /proc and /sys, so it takes no time. What cannot be read is left out.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.burn_in import STEADY, UNSTEADY, spread
from harness.core.fitness import Finding, Fitness, finding, graded
from harness.core.manifest import MachineFacts
from harness.loadgen.receiver import receive_library

GIB = 2**30
OTHERS_WARN, OTHERS_UNFIT = 0.05, 0.25
STEAL_WARN, STEAL_UNFIT = 0.01, 0.10
MEMORY_WARN_GIB, MEMORY_UNFIT_GIB = 4.0, 1.5
FILES_WARN, FILES_UNFIT = 4096, 256
# What reading prompts and decoding use where it is there, best first.
CPU_FEATURES = ("amx_bf16", "amx_int8", "avx512_bf16", "avx512f", "avx2", "bf16", "i8mm", "sve")
_FAST_BF16 = {"amx_bf16", "avx512_bf16", "bf16"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where the system tells of itself."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds that all CPUs spent at work, stolen by the host, and in all; `ours` of this process.

    Only differences between two readings mean anything.
    """

    work_s: float
    stolen_s: float
    all_s: float
    ours_s: float


def cpu_times(places: Places = Places()) -> CpuTimes | None:
    """The present reading; None where /proc/stat cannot be read."""
    try:
        line = (places.proc / "stat").read_text(encoding="utf-8").splitlines()[0]
        user, nice, system, idle, wait, irq, soft, steal = map(int, line.split()[1:9])
    except (OSError, ValueError, IndexError):
        return None
    ticks_s = os.sysconf("SC_CLK_TCK")
    work = user + nice + system + irq + soft
    ours = resource.getrusage(resource.RUSAGE_SELF)
    return CpuTimes(
        work_s=work / ticks_s,
        stolen_s=steal / ticks_s,
        all_s=(work + idle + wait + steal) / ticks_s,
        ours_s=ours.ru_utime + ours.ru_stime,
    )


def machine_findings(
    machine: MachineFacts,
    before: CpuTimes | None,
    after: CpuTimes | None,
    places: Places = Places(),
) -> tuple[Finding, ...]:
    """What was found of `machine`, whose burn-in was timed between the two readings."""
    return (
        _cores(machine, places),
        *_load(before, after, places),
        *_steadiness(machine),
        *_memory(places),
        *_features(places),
        _compiler(),
        _files(),
    )


def quota_cores(places: Places) -> float | None:
    """How many cores' time this process's control group may use; None when it is not bounded."""
    found = []
    for version, folder in _groups(places, "cpu"):
        try:
            if version == 2:
                quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
            else:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                quota, period = ((folder / n).read_text(encoding="utf-8").strip() for n in names)
            if quota not in {"max", "-1"}:
                found.append(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return min(found, default=None)


def free_bytes(places: Places = Places()) -> int | None:
    """Memory that can be had without swapping, within the limit of our control group."""
    try:
        text = (places.proc / "meminfo").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    bounds = [int(match[1]) * 1024] if match else []
    for version, folder in _groups(places, "memory"):
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        try:
            bounds.append(int((folder / name).read_text(encoding="utf-8")))
        except (OSError, ValueError):  # `max` is no bound
            continue
    return min(bounds, default=None)


def _groups(places: Places, controller: str) -> Iterator[tuple[int, Path]]:
    """The version and the folder of each control group that bounds us, ours first."""
    try:
        lines = (places.proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, names, path = line.split(":", 2)
        if number != "0" and controller not in names.split(","):
            continue
        root = places.cgroup if number == "0" else places.cgroup / names
        group = root / path.strip("/")
        # In a container our path may be that outside of it: then only the root is there.
        folders = (group, *(f for f in group.parents if f.is_relative_to(root)))
        yield from ((2 if number == "0" else 1, folder) for folder in folders)


def _cores(machine: MachineFacts, places: Places) -> Finding:
    quota, there = quota_cores(places), os.cpu_count() or machine.cores
    seen = f"{machine.cores} of {there} for us"
    if quota is not None and quota < machine.cores:
        remedy = f"--threads {max(int(quota), 1)}, or raise the quota: beyond it we are stopped"
        return Finding("cores", f"{seen}, a quota of {quota:g}", Fitness.WARN, remedy)
    if machine.cores == 1:
        remedy = "take a machine with two: here engine and client wait for each other"
        return Finding("cores", seen, Fitness.WARN, remedy)
    return Finding("cores", seen)


def _load(before: CpuTimes | None, after: CpuTimes | None, places: Places) -> Iterator[Finding]:
    if before is None or after is None or after.all_s <= before.all_s:
        return
    whole_s = after.all_s - before.all_s
    others_s = (after.work_s - before.work_s) - (after.ours_s - before.ours_s)
    others, stolen = max(others_s, 0) / whole_s, (after.stolen_s - before.stolen_s) / whole_s
    seen = f"{others:.1%} of all cores' time{_load_average(places)}"
    yield finding(
        "other programs", seen, graded(others, OTHERS_WARN, OTHERS_UNFIT), "end them, and repeat"
    )
    remedy = "the host gives our cores to others: take a machine of your own, or another hour"
    yield finding("steal", f"{stolen:.1%}", graded(stolen, STEAL_WARN, STEAL_UNFIT), remedy)


def _load_average(places: Places) -> str:
    try:
        minute = (places.proc / "loadavg").read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError):
        return ""
    return f" during this check, load average {minute}"


def _steadiness(machine: MachineFacts) -> Iterator[Finding]:
    if machine.burn_in_s is None:
        return
    found = spread(machine.burn_in_s)
    remedy = "see what else runs, or fix the clock of the CPU"
    seen = f"equal work took equal time within {found:.1%}"
    yield finding("steadiness", seen, graded(found, STEADY, UNSTEADY), remedy)


def _memory(places: Places) -> Iterator[Finding]:
    if (free := free_bytes(places)) is not None:
        fitness = graded(-free / GIB, -MEMORY_WARN_GIB, -MEMORY_UNFIT_GIB)
        remedy = "end other programs; a small model and its KV cache take about 1.5 GiB"
        yield finding("free memory", f"{free / GIB:.1f} GiB", fitness, remedy)


def _features(places: Places) -> Iterator[Finding]:
    try:
        text = (places.proc / "cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = set(match[1].split()) if match else set()
    seen = ", ".join(name for name in CPU_FEATURES if name in flags) or "none that matter"
    if flags & _FAST_BF16:
        yield Finding("CPU features", seen)
    else:
        remedy = "no bfloat16 products here, they are emulated: try --dtype float32"
        yield Finding("CPU features", seen, Fitness.WARN, remedy)


def _compiler() -> Finding:
    if receive_library() is not None:
        return Finding("C compiler", "works")
    turned_off = os.environ.get("BATCHMARK_COMPILE") == "0"
    seen = "turned off by BATCHMARK_COMPILE=0" if turned_off else "none that works"
    remedy = (
        "install gcc, or name a compiler in CC: without one the client takes about twice the "
        "processor time, and the in-house engine computes with torch alone, more slowly"
    )
    return Finding("C compiler", seen, Fitness.WARN, remedy)


def _files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Finding("open files", "no limit")
    remedy = "ulimit -n 65536; every request in flight takes one"
    fitness = graded(-hard, -FILES_WARN, -FILES_UNFIT)
    return finding("open files", f"{hard:,} at most", fitness, remedy)
