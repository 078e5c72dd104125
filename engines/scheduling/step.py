"""What one iteration does: the plan that the scheduler makes, and the result that comes back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prefill:
    """Read `tokens` tokens of a sequence, from position `first` on; `blocks` have room for them.

    A whole prompt, or a chunk of it; after a preemption, the answer so far as well. With the last
    chunk (`is_last`) the next token of the answer is produced. `padding_tokens` more are computed
    and thrown away, because the batch is padded to its longest prompt; only a last chunk has any.
    """

    sequence_id: int
    first: int
    tokens: int
    padding_tokens: int
    blocks: tuple[int, ...]
    is_last: bool = True

    @property
    def context_tokens(self) -> int:
        """Tokens that are attended to, summed over the rows; padding rows stand behind them."""
        rows = self.tokens + self.padding_tokens
        return rows * self.first + rows * (rows + 1) // 2


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
class KvUse:
    """How the KV cache stands while a step is executed.

    Of the `used` blocks' room, `tokens_stored` hold keys and values once the step is done;
    `tokens_unfilled` are the free rest of blocks that hold some (internal fragmentation);
    `tokens_over_reserved` lie in blocks that hold none yet. `stranded` counts free blocks which are
    enough for the head of the queue but do not stand in one run (external fragmentation; only where
    sequences need contiguous room). `cached` free blocks still hold a prefix that may be asked for.
    """

    used: int
    total: int
    tokens_stored: int
    tokens_unfilled: int
    tokens_over_reserved: int
    stranded: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One iteration: `prefills` read prompts, `decodes` produce the next token of the others.

    `preempted` names the sequences that lost their blocks to this step and wait again.
    `prefix_hit_tokens` were found in the cache by those admitted now and are not read.
    """

    index: int
    prefills: tuple[Prefill, ...]
    decodes: tuple[Decode, ...]
    slots: int
    waiting: int
    kv: KvUse
    preempted: tuple[int, ...] = ()
    prefix_hit_tokens: int = 0

    @property
    def producing(self) -> tuple[int, ...]:
        """The sequences that this step gives a token, prefills first."""
        reading = [p.sequence_id for p in self.prefills if p.is_last]
        return (*reading, *(d.sequence_id for d in self.decodes if not d.is_padding))

    @property
    def running(self) -> int:
        """Slots at work for some answer in this step, reading or decoding."""
        return len(self.prefills) + self.decoding

    @property
    def decoding(self) -> int:
        """Slots that decode, padding apart."""
        return sum(not d.is_padding for d in self.decodes)

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

    @property
    def prefill_context_tokens(self) -> int:
        """Tokens that rows of prompts attend to, summed over these rows."""
        return sum(p.context_tokens for p in self.prefills)

    @property
    def decode_context_tokens(self) -> int:
        """Tokens that decoding rows attend to, padding rows included."""
        return sum(d.position + 1 for d in self.decodes)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What executing a plan says to the scheduler: the sequences that met an end token."""

    stopped: frozenset[int] = frozenset()
