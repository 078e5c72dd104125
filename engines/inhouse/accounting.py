"""What the engine tells of its steps: how it stands, totals since it started, and step records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from engines.inhouse.runner import StepOutput
from engines.scheduling.limits import Limits
from engines.scheduling.scheduler import Scheduler
from engines.scheduling.step import KvUse, StepPlan
from engines.serving.generation import GeneratedToken
from engines.step_log import StepTimes, step_record
from harness.core.record import StepRecord
from harness.core.units import ns_to_s

_NO_KV = KvUse(used=0, total=0, tokens_stored=0, tokens_unfilled=0, tokens_over_reserved=0)


class Standing(NamedTuple):
    """How a scheduler stands between two steps. Of `held` slots, `running` are at work."""

    running: int
    held: int
    kv_blocks_used: int


def standing_of(scheduler: Scheduler) -> Standing:
    """How `scheduler` stands now; on the thread that it belongs to."""
    return Standing(scheduler.running, len(scheduler.held), scheduler.kv_blocks_used)


@dataclass(frozen=True, slots=True)
class DoneStep:
    """An executed step: what was planned, what came of it, which answers it ended, and when.

    It has started when the one before had ended, unless there was nothing to do in between.
    """

    plan: StepPlan
    output: StepOutput
    ended: frozenset[int]
    started_ns: int
    ended_ns: int

    def tokens(self) -> Iterator[tuple[int, GeneratedToken]]:
        """Each sequence that has got a token, and the token."""
        for sequence_id, token_id in self.output.token_ids.items():
            reason = None
            if sequence_id in self.ended:
                reason = "stop" if sequence_id in self.output.result.stopped else "length"
            yield sequence_id, GeneratedToken(token_id, reason)

    def record(self) -> StepRecord:
        """The line of the step log."""
        output, duration_ns = self.output, self.ended_ns - self.started_ns
        times = StepTimes(self.started_ns, duration_ns, output.prefill_ns, output.decode_ns)
        return step_record(self.plan, times, output.work)


@dataclass(slots=True)
class Totals:
    """Counts since the engine started. Padding counts in none of them, only in the time.

    `steps_saturated` had every slot at work. `prefill_tokens` were computed, those of answers that
    were preempted included; prompts found in the cache are not among them. `prefix_query_tokens`
    are those of all prompts that have begun, `prefix_hit_tokens` those of them found. `kv` is how
    the cache stood in the latest step.
    """

    steps: int = 0
    steps_saturated: int = 0
    prefill_tokens: int = 0
    preemptions: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    kv: KvUse = _NO_KV

    def add(self, step: DoneStep) -> None:
        """Count an executed step."""
        self.steps += 1
        self.steps_saturated += step.plan.running == step.plan.slots
        self.prefill_tokens += step.plan.prefill_tokens
        self.preemptions += len(step.plan.preempted)
        self.prefill_ns += step.output.prefill_ns
        self.decode_ns += step.output.decode_ns
        self.kv = step.plan.kv

    def gauges(self, standing: Standing, limits: Limits) -> Mapping[str, float]:
        """Prometheus sample names to values; of a prefix cache only where there is one."""
        kv = self.kv if standing.kv_blocks_used else _NO_KV
        prefixes = {
            "prefix_query_tokens_total": self.prefix_query_tokens,
            "prefix_hit_tokens_total": self.prefix_hit_tokens,
        }
        return {
            "requests_running": standing.running,
            "slots": limits.slots,
            "slots_padded": standing.held - standing.running,
            "kv_blocks_used": standing.kv_blocks_used,
            "kv_blocks_total": limits.kv_blocks,
            "kv_share": standing.kv_blocks_used / limits.kv_blocks,
            "kv_tokens_stored": kv.tokens_stored,
            "kv_tokens_unfilled": kv.tokens_unfilled,
            "kv_tokens_over_reserved": kv.tokens_over_reserved,
            "steps_total": self.steps,
            "steps_saturated_total": self.steps_saturated,
            "prefill_tokens_total": self.prefill_tokens,
            "preemptions_total": self.preemptions,
            "prefill_seconds_total": ns_to_s(self.prefill_ns),
            "decode_seconds_total": ns_to_s(self.decode_ns),
            **(prefixes if limits.prefix_cache else {}),
        }
