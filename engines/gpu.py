"""What each GPU of this machine says of itself, through NVIDIA's management library.

Keys are `0.utilisation_share`: the GPU's index, and what was read. What cannot be read is left out.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from harness.core.clock import Clock
from harness.core.engine import EngineSample


def _throttle_bits(nvml: Any, gpu: Any) -> float:
    # Its name before driver 535.
    if not hasattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons"):
        return float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))
    return float(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))


_READINGS: Mapping[str, Callable[[Any, Any], float]] = {
    "utilisation_share": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    "memory_used_bytes": lambda nvml, gpu: float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    "clock_mhz": lambda nvml, gpu: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
    "clock_max_mhz": lambda nvml, gpu: float(
        nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)
    ),
    "power_w": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "throttle_bits": _throttle_bits,
}


class Gpus:
    """The GPUs that `nvml`, the module pynvml, finds; none when it is None or does not start."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        handles = _tried(_handles, nvml) or ()
        self._gpus = {i: gpu for i, gpu in enumerate(handles) if gpu is not None}
        self._used_until = dict.fromkeys(self._gpus, 0)

    def readings(self, process_group: int | None) -> Mapping[str, float]:
        """Every value that can be read now. Never raises.

        `process_group` is the engine's, None when it is not known, as in a container: only with it
        can the load of other processes be told from the engine's.
        """
        found: dict[str, float] = {}
        for index, gpu in self._gpus.items():
            values = {name: _tried(read, self._nvml, gpu) for name, read in _READINGS.items()}
            if process_group is not None:
                values["foreign_utilisation_share"] = _tried(
                    self._foreign_share, index, process_group
                )
            found |= {f"{index}.{name}": v for name, v in values.items() if v is not None}
        return found

    def _foreign_share(self, index: int, process_group: int) -> float | None:
        """The share of the GPU's time that went to processes which are not the engine's.

        None unless one of the engine's is there: in a container the library may give the numbers
        that processes have outside of it, and then nobody can be told from anybody.
        """
        nvml, gpu = self._nvml, self._gpus[index]
        pids = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)}
        foreign = {pid for pid in pids if not _is_of_group(pid, process_group)}
        if foreign == pids:
            return None
        if not foreign:
            return 0.0
        latest: dict[int, tuple[int, int]] = {}
        for use in nvml.nvmlDeviceGetProcessUtilization(gpu, self._used_until[index]):
            latest[use.pid] = max(latest.get(use.pid, (0, 0)), (use.timeStamp, use.smUtil))
            self._used_until[index] = max(self._used_until[index], use.timeStamp)
        return min(sum(latest.get(pid, (0, 0))[1] for pid in foreign) / 100, 1.0)


def _handles(nvml: Any) -> list[Any]:
    """A handle of each GPU by index, None of one that cannot be had."""
    nvml.nvmlInit()
    return [_tried(nvml.nvmlDeviceGetHandleByIndex, i) for i in range(nvml.nvmlDeviceGetCount())]


@cache
def open_gpus() -> Gpus:
    """The GPUs of this machine; none without a GPU, a driver, or the package nvidia-ml-py."""
    return Gpus(_tried(importlib.import_module, "pynvml"))


async def with_gpus(
    sample: EngineSample | None, gpus: Gpus, process_group: int | None, clock: Clock
) -> EngineSample | None:
    """`sample` with readings of the GPUs; a sample of these alone when there was none."""
    found = await asyncio.to_thread(gpus.readings, process_group)
    if not found:
        return sample
    return replace(sample or EngineSample(clock.now_ns()), gpu=found)


def _is_of_group(pid: int, group: int) -> bool:
    """True when `pid` is of process group `group`, or of a session that its leader began."""
    try:
        return group in (os.getpgid(pid), os.getsid(pid))
    except OSError:
        return False


def _tried(read: Callable[..., Any], *values: Any) -> Any:
    """What `read` returns, None when it fails: no reading may end a run."""
    try:
        return read(*values)
    except Exception:  # noqa: BLE001 - the library raises its own kinds, and may be half there
        return None
