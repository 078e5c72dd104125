"""What a step costs in virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from engines.scheduling.step import StepPlan


@dataclass(frozen=True, slots=True)
class CostModel:
    """A time for each thing that a step does, in ns; counts of the plan decide, and nothing else.

    `step_fixed_ns` is spent in every step, whatever it does. A step that reads prompts makes one
    prefill pass: a fixed time, and one for each token it computes, padding included, and for each
    token that these attend to. A step that decodes makes one decode pass: a fixed time, and one for
    each row, padding included, and for each token that rows attend to. The passes come one after
    the other, so while a prompt is read nobody else advances ("stalling prefill").
    """

    step_fixed_ns: float
    prefill_token_ns: float = 0
    prefill_pass_ns: float = 0
    prefill_context_token_ns: float = 0
    decode_pass_ns: float = 0
    decode_row_ns: float = 0
    decode_context_token_ns: float = 0

    def prefill_ns(self, plan: StepPlan) -> int:
        """The part of the step that goes to reading prompts, padding of prompts included."""
        if not plan.prefills:
            return 0
        return round(
            self.prefill_pass_ns
            + self.prefill_token_ns * (plan.prefill_tokens + plan.prefill_padding_tokens)
            + self.prefill_context_token_ns * plan.prefill_context_tokens
        )

    def decode_ns(self, plan: StepPlan) -> int:
        """The part of the step that goes to decoding, padding rows included."""
        if not plan.decodes:
            return 0
        return round(
            self.decode_pass_ns
            + self.decode_row_ns * len(plan.decodes)
            + self.decode_context_token_ns * plan.decode_context_tokens
        )

    def step_ns(self, plan: StepPlan) -> int:
        """The duration of the step."""
        return round(self.step_fixed_ns) + self.prefill_ns(plan) + self.decode_ns(plan)
