"""Readings of GPUs, from a library that is written here."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from engines.gpu import Gpus, open_gpus, with_gpus
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSample

OURS = os.getpgrp()
NOBODY = 2**22 + 1  # above the largest number that Linux gives a process


class NvmlError(Exception):
    pass


class Nvml:
    """The library's functions as far as they are used, over one GPU for each of `gpus`.

    A GPU is a mapping of what it answers; what is missing there is not supported.
    """

    NVML_CLOCK_SM = 1

    def __init__(self, *gpus: dict[str, Any] | None) -> None:
        self._gpus = gpus

    def nvmlInit(self) -> None:  # noqa: N802
        return None

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        gpu = self._gpus[index]
        if gpu is None:
            raise NvmlError("lost")
        return gpu

    def nvmlDeviceGetUtilizationRates(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=_of(gpu, "percent"), memory=0)

    def nvmlDeviceGetMemoryInfo(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(used=_of(gpu, "bytes"))

    def nvmlDeviceGetClockInfo(self, gpu: dict[str, Any], clock: int) -> int:  # noqa: N802
        return _of(gpu, "mhz") if clock == self.NVML_CLOCK_SM else 0

    def nvmlDeviceGetMaxClockInfo(self, gpu: dict[str, Any], clock: int) -> int:  # noqa: N802
        return _of(gpu, "max_mhz") if clock == self.NVML_CLOCK_SM else 0

    def nvmlDeviceGetPowerUsage(self, gpu: dict[str, Any]) -> int:  # noqa: N802
        return _of(gpu, "milliwatts")

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: dict[str, Any]) -> int:  # noqa: N802
        return _of(gpu, "bits")

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: dict[str, Any]) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in _of(gpu, "pids")]

    def nvmlDeviceGetProcessUtilization(self, gpu: dict[str, Any], since: int) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent)
            for pid, at, percent in _of(gpu, "uses")
            if at > since
        ]


def _of(gpu: dict[str, Any], name: str) -> Any:
    if name not in gpu:
        raise NvmlError("not supported")
    return gpu[name]


WHOLE = {
    "percent": 87,
    "bytes": 2**30,
    "mhz": 1500,
    "max_mhz": 1980,
    "milliwatts": 412_500,
    "bits": 0x4,
    "pids": [os.getpid()],
}


def test_every_value_has_a_name_with_its_gpu() -> None:
    assert Gpus(Nvml(WHOLE, {"percent": 0})).readings(OURS) == {
        "0.utilisation_share": 0.87,
        "0.memory_used_bytes": 2**30,
        "0.clock_mhz": 1500.0,
        "0.clock_max_mhz": 1980.0,
        "0.power_w": 412.5,
        "0.throttle_bits": 4.0,
        "0.foreign_utilisation_share": 0.0,
        "1.utilisation_share": 0.0,
    }


def test_a_gpu_that_is_lost_does_not_move_the_others() -> None:
    assert set(Gpus(Nvml(None, {"percent": 50})).readings(None)) == {"1.utilisation_share"}


def test_a_driver_before_535_calls_the_reasons_otherwise() -> None:
    class Old(Nvml):
        def __getattribute__(self, name: str) -> Any:
            if name == "nvmlDeviceGetCurrentClocksEventReasons":
                raise AttributeError(name)
            return super().__getattribute__(name)

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: dict[str, Any]) -> int:  # noqa: N802
            return _of(gpu, "bits")

    assert Gpus(Old({"bits": 0x40})).readings(None) == {"0.throttle_bits": 64.0}


@pytest.fixture(scope="module")
def engine() -> Iterator[int]:
    """A process with a session of its own, as an engine's server is; its number is its group's."""
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, start_new_session=True, stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("pids", "uses", "expected"),
    [
        (["engine"], [], 0.0),
        (["engine", "other"], [("other", 5, 30), ("engine", 5, 60)], 0.3),
        (["engine", "other"], [("other", 5, 30), ("other", 9, 10)], 0.1),  # the latest counts
        (["engine", "other", "gone"], [("other", 5, 80), ("gone", 5, 70)], 1.0),
        (["engine", "other"], [], 0.0),
        (["other"], [("other", 5, 30)], None),  # the engine is not seen: nobody can be told
        ([], [], None),
    ],
)
def test_the_load_of_others_is_that_outside_the_engines_group(
    engine: int, pids: list[str], uses: list[tuple[str, int, int]], expected: float | None
) -> None:
    numbers = {"engine": engine, "other": os.getpid(), "gone": NOBODY}
    gpu = {
        "pids": [numbers[name] for name in pids],
        "uses": [(numbers[name], at, percent) for name, at, percent in uses],
    }
    gpus = Gpus(Nvml(gpu))
    assert gpus.readings(engine).get("0.foreign_utilisation_share") == expected
    assert gpus.readings(None) == {}  # whose load it is cannot be told


def test_a_use_counts_once_not_for_as_long_as_the_library_remembers_it(engine: int) -> None:
    gpus = Gpus(Nvml({"pids": [engine, NOBODY], "uses": [(NOBODY, 5, 30)]}))
    shares = [gpus.readings(engine)["0.foreign_utilisation_share"] for _ in range(2)]
    assert shares == [0.3, 0.0]


def test_a_library_that_cannot_tell_processes_leaves_that_value_out() -> None:
    found = Gpus(Nvml({"percent": 10, "pids": [os.getpid(), 1]})).readings(OURS)
    assert found == {"0.utilisation_share": 0.1}


class Broken:
    def nvmlInit(self) -> None:  # noqa: N802
        raise NvmlError("driver not loaded")


@pytest.mark.parametrize("nvml", [None, Broken(), object(), Nvml()])
def test_without_a_gpu_a_driver_or_the_package_there_is_nothing_to_read(nvml: Any) -> None:
    assert Gpus(nvml).readings(OURS) == {}


def test_opening_the_gpus_of_any_machine_never_fails() -> None:
    assert open_gpus() is open_gpus()
    assert all(key[0].isdigit() for key in open_gpus().readings(None))


def test_readings_are_added_to_a_sample_or_stand_alone() -> None:
    async def run(sample: EngineSample | None, gpus: Gpus) -> EngineSample | None:
        return await with_gpus(sample, gpus, None, VirtualClock(7))

    one = Gpus(Nvml({"percent": 50}))
    readings = {"0.utilisation_share": 0.5}
    said = EngineSample(3, running=1.0)
    assert asyncio.run(run(said, one)) == EngineSample(3, running=1.0, gpu=readings)
    assert asyncio.run(run(None, one)) == EngineSample(7, gpu=readings)
    assert asyncio.run(run(said, Gpus(None))) is said
    assert asyncio.run(run(None, Gpus(None))) is None
