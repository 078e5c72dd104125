"""Was the machine itself fit: its GPUs at full clock and our own, its CPU at one speed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.analyzer.estimators import percentile
from harness.analyzer.frame import RunFrame
from harness.analyzer.grading import graded, is_virtual, skipped, worst
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.burn_in import KEPT, STEADY, UNSTEADY, spread
from harness.core.engine import EngineSample
from harness.core.manifest import RunManifest

CLOCK_WARN, CLOCK_INVALID = 0.05, 0.15
FOREIGN_INVALID = 0.05
BUSY_FROM = 0.5

# NVML's reasons for a lower clock. Those for being idle, and those that somebody asked for, are no
# throttling: 0x1, 0x2, 0x10 and 0x100.
POWER_CAP = 0x4
THROTTLES: Mapping[int, str] = {
    POWER_CAP: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}

Reading = Mapping[str, float]


def check_gpus(frame: RunFrame) -> Check:
    """V19: each GPU kept its clock while it was busy, and worked for nobody else.

    The clock is that which a busy GPU fell below in a tenth of its readings. A power cap is the
    card's own limit, in every run of it, so it only warns. The load of other processes is a mean.
    Of several GPUs the worst decides.
    """
    title = "GPU undisturbed"
    limit = "throttled or clock 5 % low or foreign load WARN; 15 % low or 5 % foreign load INVALID"
    readings = gpu_readings(frame)
    if not readings:
        has_none = not frame.manifest.machine.gpus
        reason = "this machine has no GPU" if has_none else "no reading of a GPU was recorded"
        return skipped("V19", title, limit, reason)
    by_index = sorted(readings.items(), key=lambda item: (len(item[0]), item[0]))
    found = {gpu: _judge(of_gpu) for gpu, of_gpu in by_index}
    said = "; ".join(f"GPU {gpu}: {value}" for gpu, (value, _) in found.items())
    return Check("V19", title, said, limit, worst(*(verdict for _, verdict in found.values())))


def gpu_readings(frame: RunFrame) -> dict[str, list[Reading]]:
    """The readings of each GPU by its index, from the run's start to the end of its last request.

    Before and after, a GPU rests, and its clock with it.
    """
    end_ns = int(frame.records.numbers["closed_ns"].max(initial=0))
    by_gpu: dict[str, list[Reading]] = {}
    for sample in frame.samples:
        if 0 <= sample.at_ns <= end_ns:
            for gpu, reading in _by_gpu(sample).items():
                by_gpu.setdefault(gpu, []).append(reading)
    return by_gpu


def _by_gpu(sample: EngineSample) -> dict[str, Reading]:
    found: dict[str, dict[str, float]] = {}
    for key, value in sample.gpu.items():
        gpu, _, name = key.partition(".")
        found.setdefault(gpu, {})[name] = value
    return dict(found)


def _judge(readings: Sequence[Reading]) -> tuple[str, CheckVerdict]:
    said, verdicts = zip(*(part(readings) for part in (_throttled, _clock, _foreign)), strict=True)
    return ", ".join(said), worst(*verdicts)


def _throttled(readings: Sequence[Reading]) -> tuple[str, CheckVerdict]:
    known = [_reasons(r) for r in readings if "throttle_bits" in r]
    if not known:
        return "throttling not read", CheckVerdict.SKIPPED
    share = sum(bits > 0 for bits in known) / len(known)
    names = [name for bit, name in THROTTLES.items() if any(bits & bit for bits in known)]
    why = f" ({', '.join(names)})" if names else ""
    return f"throttled in {share:.0%} of {len(known)} readings{why}", graded(share, 0.0, math.inf)


def _clock(readings: Sequence[Reading]) -> tuple[str, CheckVerdict]:
    busy = [
        r
        for r in readings
        if r.get("utilisation_share", 1.0) >= BUSY_FROM
        and "clock_mhz" in r
        and r.get("clock_max_mhz", 0.0) > 0
    ]
    if not busy:
        return "no clock read while busy", CheckVerdict.SKIPPED
    low = [1 - r["clock_mhz"] / r["clock_max_mhz"] for r in busy]
    judged = [
        min(share, CLOCK_INVALID) if _reasons(r) == POWER_CAP else share
        for share, r in zip(low, busy, strict=True)
    ]
    verdict = graded(percentile(judged, 90), CLOCK_WARN, CLOCK_INVALID)
    return f"clock {percentile(low, 90):.1%} below its maximum", verdict


def _reasons(reading: Reading) -> int:
    """The bits of `reading` that are throttling."""
    return int(reading.get("throttle_bits", 0.0)) & sum(THROTTLES)


def _foreign(readings: Sequence[Reading]) -> tuple[str, CheckVerdict]:
    key = "foreign_utilisation_share"
    known = [r[key] for r in readings if key in r]
    if not known:
        return "load of other processes not read", CheckVerdict.SKIPPED
    share = sum(known) / len(known)
    return f"{share:.1%} load of other processes", graded(share, 0.0, FOREIGN_INVALID)


def check_burn_in(manifest: RunManifest) -> Check:
    """V21: just before the run, this machine's CPU did the same work in the same time.

    It matters where the engine computes on that CPU.
    """
    title, limit = "runner steady", "spread of the best 5 timings 5 % WARN, 10 % RUNNER_UNFIT"
    timings_s = manifest.machine.burn_in_s
    if is_virtual(manifest):
        return skipped("V21", title, limit)
    if manifest.machine.gpus or manifest.engine.attach_url is not None:
        reason = "the engine may compute elsewhere than on this machine's CPU"
        return skipped("V21", title, limit, reason)
    if timings_s is None or len(timings_s) < KEPT:
        return skipped("V21", title, limit, "no burn-in was timed")
    found = spread(timings_s)
    verdict = graded(found, STEADY, UNSTEADY)
    value = f"best {KEPT} of {len(timings_s)} timings within {found:.1%}"
    if verdict is CheckVerdict.INVALID:
        value += ": RUNNER_UNFIT"
    return Check("V21", title, value, limit, verdict)
