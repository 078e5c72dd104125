"""Facts about this machine, for the manifest, and how steady it is just now."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from harness.core.burn_in import STEADY, TIMINGS, spread
from harness.core.clock import Clock
from harness.core.manifest import MachineFacts
from harness.core.units import ns_to_s

# About 20 ms of plain Python.
BURN_IN_STEPS = 120_000
# On two cores that others share, one round in four was disturbed, and all of one burn-in in forty.
BURN_IN_ROUNDS = 5


def machine_facts() -> MachineFacts:
    """What this machine is, as far as it decides speed. Cores are those we may run on."""
    return MachineFacts(
        cpu_model=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        gpus=_gpus(),
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def with_burn_in(machine: MachineFacts, clock: Clock) -> MachineFacts:
    """`machine` with how long a fixed loop takes on it now, seven times over."""
    return replace(machine, burn_in_s=burn_in_s(clock))


def burn_in_s(clock: Clock, steps: int = BURN_IN_STEPS) -> tuple[float, ...]:
    """Seconds that a loop of `steps` took, seven times over: the first round that was steady.

    The question is whether the machine can keep a pace, not whether something ran on it for a
    moment, so there are up to five rounds; if none is steady, it is the steadiest.
    """
    rounds: list[tuple[float, ...]] = []
    while len(rounds) < BURN_IN_ROUNDS:
        rounds.append(tuple(_timing_s(clock, steps) for _ in range(TIMINGS)))
        if spread(rounds[-1]) <= STEADY:
            break
    return min(rounds, key=spread)


def _timing_s(clock: Clock, steps: int) -> float:
    started_ns, value = clock.now_ns(), 0
    for step in range(steps):
        value = (value * 1_103_515_245 + step) & 0x7FFF_FFFF
    return ns_to_s(clock.now_ns() - started_ns)


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return short_cpu_name(match.group(1)) if match else platform.machine()


def short_cpu_name(model: str) -> str:
    """The CPU's name without trademarks, core counts and filler, such as `AMD EPYC 9B14`."""
    name = re.sub(r"\((R|TM|r|tm)\)", "", model)
    name = re.sub(r"\b(CPU|Processor|\d+-Core)\b|@.*$", "", name)
    return re.sub(r"\s+", " ", name).strip()


def _gpus() -> tuple[str, ...]:
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return ()
    command = [nvidia_smi, "--query-gpu=name", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in result.stdout.splitlines() if line.strip())
