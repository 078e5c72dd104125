"""What one iteration does: the plan that the scheduler makes, and the result that comes back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prefill:
    """Read a whole prompt of `tokens` tokens and produce the first token of its answer.

    `padding_tokens` more are computed and thrown away, because the batch is padded to its longest
    prompt. `blocks` have room for the prompt and the whole answer.
    """

    sequence_id: int
    tokens: int
    padding_tokens: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decode:
    """Feed the last token, which stands at `position`, and produce the next one.

    `is_padding`: the answer has ended, the row is computed all the same and its token thrown away.
    """

    sequence_id: int
    position: int
    blocks: tuple[int, ...]
    is_padding: bool = False


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One iteration: `prefills` for the sequences admitted now, `decodes` for the others."""

    index: int
    prefills: tuple[Prefill, ...]
    decodes: tuple[Decode, ...]
    slots: int
    waiting: int
    kv_blocks_used: int
    kv_blocks_total: int

    @property
    def running(self) -> int:
        """Slots that produce a token of some answer in this step."""
        return len(self.prefills) + sum(not d.is_padding for d in self.decodes)

    @property
    def padded(self) -> int:
        """Slots held by answers that have ended."""
        return sum(d.is_padding for d in self.decodes)

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens read in this step, padding apart."""
        return sum(p.tokens for p in self.prefills)

    @property
    def prefill_padding_tokens(self) -> int:
        """Tokens computed in this step only because prompts are padded to the longest."""
        return sum(p.padding_tokens for p in self.prefills)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What executing a plan says to the scheduler: the sequences that met an end token."""

    stopped: frozenset[int] = frozenset()
