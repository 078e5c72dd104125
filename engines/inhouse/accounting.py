"""What the engine tells of its steps: totals since it started, and a record of each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engines.inhouse.runner import StepOutput
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.step import StepPlan
from harness.core.units import ns_to_s


@dataclass(slots=True)
class Totals:
    """Counts since the engine started. Padding counts in none of them, only in the time.

    `requests` are those that have had their last token.
    """

    steps: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0

    def add(self, plan: StepPlan, output: StepOutput, ended: int) -> None:
        """Count an executed step, with which `ended` requests have had their last token."""
        self.steps += 1
        self.requests += ended
        self.prompt_tokens += plan.prefill_tokens
        self.output_tokens += len(output.token_ids)
        self.prefill_ns += output.prefill_ns
        self.decode_ns += output.decode_ns


def gauges(totals: Totals, scheduler: Scheduler) -> Mapping[str, float]:
    """Prometheus sample names to values, of the totals and of what `scheduler` holds now."""
    return {
        "requests_running": scheduler.running,
        "requests_waiting": scheduler.waiting,
        "slots": scheduler.limits.slots,
        "slots_padded": len(scheduler.held) - scheduler.running,
        "kv_blocks_used": scheduler.kv_blocks_used,
        "kv_blocks_total": scheduler.limits.kv_blocks,
        "kv_share": scheduler.kv_blocks_used / scheduler.limits.kv_blocks,
        "steps_total": totals.steps,
        "requests_total": totals.requests,
        "prompt_tokens_total": totals.prompt_tokens,
        "output_tokens_total": totals.output_tokens,
        "prefill_seconds_total": ns_to_s(totals.prefill_ns),
        "decode_seconds_total": ns_to_s(totals.decode_ns),
    }
