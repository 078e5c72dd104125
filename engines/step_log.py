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


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step has to do at least: bytes to read from memory, and operations to compute."""

    read_bytes: int
    flops: int


def step_record(plan: StepPlan, times: StepTimes, work: StepWork | None = None) -> StepRecord:
    """What an executed `plan` held, when it ran, and how long each part took."""
    return StepRecord(
        index=plan.index,
        started_ns=times.started_ns,
        duration_ns=times.duration_ns,
        slots=plan.slots,
        running=plan.running,
        padded=plan.padded,
        waiting=plan.waiting,
        kv_blocks_used=plan.kv.used,
        kv_blocks_total=plan.kv.total,
        prefill_sequences=len(plan.prefills),
        prefill_tokens=plan.prefill_tokens,
        prefill_padding_tokens=plan.prefill_padding_tokens,
        decode_tokens=plan.decoding,
        prefill_ns=times.prefill_ns,
        decode_ns=times.decode_ns,
        prefill_context_tokens=plan.prefill_context_tokens,
        decode_context_tokens=plan.decode_context_tokens,
        outside_ns=times.duration_ns - times.prefill_ns - times.decode_ns,
        kv_tokens_stored=plan.kv.tokens_stored,
        kv_tokens_unfilled=plan.kv.tokens_unfilled,
        kv_tokens_over_reserved=plan.kv.tokens_over_reserved,
        kv_blocks_stranded=plan.kv.stranded,
        preempted=len(plan.preempted),
        prefix_hit_tokens=plan.prefix_hit_tokens,
        read_bytes=None if work is None else work.read_bytes,
        flops=None if work is None else work.flops,
    )
