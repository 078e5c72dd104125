"""What a step costs in virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from engines.scheduling.step import StepPlan


@dataclass(frozen=True, slots=True)
class CostModel:
    """A fixed time per step, and a stall for each prompt token that is read in it.

    While a prompt is read nobody else advances ("stalling prefill"): its cost adds to the step.
    """

    step_fixed_ns: int
    prefill_token_ns: int = 0

    def prefill_ns(self, plan: StepPlan) -> int:
        """The part of the step that goes to reading prompts, padding of prompts included."""
        return self.prefill_token_ns * (plan.prefill_tokens + plan.prefill_padding_tokens)

    def step_ns(self, plan: StepPlan) -> int:
        """The duration of the step."""
        return self.step_fixed_ns + self.prefill_ns(plan)
