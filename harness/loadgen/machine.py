"""Facts about this machine, for the manifest."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from harness.core.manifest import MachineFacts


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
