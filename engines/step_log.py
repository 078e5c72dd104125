"""The log line of a step, the same for an engine that executed it and for a simulation of it."""

from __future__ import annotations

from dataclasses import dataclass

from engines.scheduling.step import StepPlan
from harness.core.record import StepRecord


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When a step started and how long it took, in ns, with the parts that were timed apart."""

    started_ns: int
    duration_ns: int
    prefill_ns: int
    decode_ns: int


def step_record(plan: StepPlan, times: StepTimes) -> StepRecord:
    """What an executed `plan` held, when it ran, and how long each part took."""
    return StepRecord(
        index=plan.index,
        started_ns=times.started_ns,
        duration_ns=times.duration_ns,
        slots=plan.slots,
        running=plan.running,
        padded=plan.padded,
        waiting=plan.waiting,
        kv_blocks_used=plan.kv_blocks_used,
        kv_blocks_total=plan.kv_blocks_total,
        prefill_sequences=len(plan.prefills),
        prefill_tokens=plan.prefill_tokens,
        prefill_padding_tokens=plan.prefill_padding_tokens,
        decode_tokens=plan.running - len(plan.prefills),
        prefill_ns=times.prefill_ns,
        decode_ns=times.decode_ns,
    )
