"""V19 and V21: the GPUs at full clock and ours alone, the CPU at one pace. Every verdict of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.engine import EngineSample, EngineSpec
from harness.core.units import ms_to_ns

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
GOOD = {
    "utilisation_share": 0.95,
    "clock_mhz": 1950.0,
    "clock_max_mhz": 1980.0,
    "throttle_bits": 0.0,
    "foreign_utilisation_share": 0.0,
}


def check(summary: Summary, check_id: str) -> Check:
    return next(check for check in summary.checks if check.id == check_id)


def gpu_check(build: Any, *readings: dict[str, float], gpus: tuple[str, ...] = ("H200",)) -> Check:
    """V19 of a run of a second with these readings of GPU 0, each 100 ms from its start."""
    samples = tuple(
        EngineSample(ms_to_ns(100 * i), gpu={f"0.{name}": v for name, v in reading.items()})
        for i, reading in enumerate(readings)
    )
    return check_of(build, samples, gpus)


def check_of(build: Any, samples: tuple[EngineSample, ...], gpus: tuple[str, ...]) -> Check:
    machine = replace(build.manifest().machine, gpus=gpus)
    run = build.run([build.record(0, (10, 1000))], machine=machine)
    return check(summarize(replace(run, samples=samples)), "V19")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PASS),
        ({"throttle_bits": float(0x1 | 0x2 | 0x10 | 0x100)}, PASS),  # idle, or as somebody asked
        ({"throttle_bits": float(0x4)}, WARN),
        ({"throttle_bits": float(0x40 | 0x1)}, WARN),
        ({"clock_mhz": 1900.0}, PASS),
        ({"clock_mhz": 1870.0}, WARN),
        ({"clock_mhz": 1690.0}, WARN),
        ({"clock_mhz": 1680.0}, INVALID),
        ({"clock_mhz": 1200.0, "throttle_bits": float(0x4 | 0x2)}, WARN),  # the card's own limit
        ({"clock_mhz": 1200.0, "throttle_bits": float(0x4 | 0x20)}, INVALID),
        ({"clock_mhz": 345.0, "utilisation_share": 0.1}, PASS),  # it rests
        ({"foreign_utilisation_share": 0.05}, WARN),
        ({"foreign_utilisation_share": 0.06}, INVALID),
    ],
)
def test_v19_a_gpu_that_was_held_back_or_shared_is_told(
    build: Any, changes: dict[str, float], expected: CheckVerdict
) -> None:
    assert gpu_check(build, *[GOOD | changes] * 10).verdict is expected


def test_v19_says_what_was_seen_of_each_gpu_and_the_worst_decides(build: Any) -> None:
    slow = {"clock_mhz": 1485.0, "clock_max_mhz": 1980.0, "throttle_bits": float(0x4 | 0x20)}
    both = {f"0.{name}": v for name, v in GOOD.items()} | {f"1.{n}": v for n, v in slow.items()}
    samples = tuple(EngineSample(i, gpu=both) for i in range(4))
    found = check_of(build, samples, ("H200", "H200"))
    assert found.value == (
        "GPU 0: throttled in 0% of 4 readings, clock 1.5% below its maximum, 0.0% load of other "
        "processes; GPU 1: throttled in 100% of 4 readings (power cap, software thermal slowdown), "
        "clock 25.0% below its maximum, load of other processes not read"
    )
    assert found.verdict is INVALID


@pytest.mark.parametrize(("slow", "expected"), [(1, PASS), (2, INVALID)])
def test_v19_a_tenth_of_the_busy_readings_must_be_slow(
    build: Any, slow: int, expected: CheckVerdict
) -> None:
    readings = [GOOD] * (11 - slow) + [GOOD | {"clock_mhz": 1000.0}] * slow
    assert gpu_check(build, *readings).verdict is expected


def test_v19_a_gpu_rests_before_the_run_and_after_it(build: Any) -> None:
    resting = {"0.clock_mhz": 345.0, "0.clock_max_mhz": 1980.0, "0.throttle_bits": 64.0}
    outside = tuple(EngineSample(ms_to_ns(ms), gpu=resting) for ms in (-20, 1001))
    during = EngineSample(ms_to_ns(500), gpu={f"0.{name}": v for name, v in GOOD.items()})
    assert check_of(build, (outside[0], during, outside[1]), ("H200",)).verdict is PASS
    assert check_of(build, outside, ("H200",)).verdict is SKIPPED


def test_v19_without_readings_says_why(build: Any) -> None:
    assert gpu_check(build, gpus=()).value == "this machine has no GPU"
    assert gpu_check(build).value == "no reading of a GPU was recorded"
    assert gpu_check(build, {}).verdict is SKIPPED


def test_v19_of_readings_that_say_nothing_of_it_passes_nothing(build: Any) -> None:
    found = gpu_check(build, {"power_w": 300.0})
    assert found.verdict is SKIPPED
    assert "throttling not read" in found.value


def burn_in(build: Any, timings: tuple[float, ...] | None, **changes: Any) -> Check:
    machine = replace(build.manifest().machine, burn_in_s=timings, **changes.pop("facts", {}))
    return check(build.summary([build.record(0)], machine=machine, **changes), "V21")


@pytest.mark.parametrize(
    ("slowest_kept", "expected"),
    [(0.0200, PASS), (0.0209, PASS), (0.0211, WARN), (0.0219, WARN), (0.0221, INVALID)],
)
def test_v21_the_best_five_of_seven_timings_are_held_together(
    build: Any, slowest_kept: float, expected: CheckVerdict
) -> None:
    found = burn_in(build, (0.02, 0.9, 0.02, slowest_kept, 0.02, 0.9, 0.02))
    assert found.verdict is expected
    assert ("RUNNER_UNFIT" in found.value) == (expected is INVALID)


def test_v21_says_how_far_apart_they_are(build: Any) -> None:
    found = burn_in(build, (0.02, 0.03, 0.02, 0.021, 0.02, 0.04, 0.02))
    assert found.value == "best 5 of 7 timings within 5.0%"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clock": "virtual"}, "does not apply"),
        ({"facts": {"gpus": ("H200",)}}, "the engine may compute elsewhere"),
        ({"engine": EngineSpec("vllm", "v", "m", attach_url="http://h")}, "the engine may compute"),
    ],
)
def test_v21_matters_where_the_engine_computes_on_this_cpu(
    build: Any, changes: dict[str, Any], reason: str
) -> None:
    found = burn_in(build, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), **changes)
    assert found.verdict is SKIPPED
    assert found.value.startswith(reason)


@pytest.mark.parametrize("timings", [None, (), (0.02,) * 4])
def test_v21_without_timings_says_so(build: Any, timings: tuple[float, ...] | None) -> None:
    found = burn_in(build, timings)
    assert (found.verdict, found.value) == (SKIPPED, "no burn-in was timed")
