"""The scheduler: plan a step, let somebody execute it, commit what came of it.

Everything that changes state is here. Nothing here waits, logs, computes tokens or reads a clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engines.scheduling.blocks import BlockPool
from engines.scheduling.policies import Policy, QueueView
from engines.scheduling.sequence import Sequence, SequenceState
from engines.scheduling.step import Decode, Prefill, StepPlan, StepResult


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step. `pad_prompts`: a batch policy pads its prompts to the longest."""

    slots: int
    kv_blocks: int
    block_tokens: int = 16
    pad_prompts: bool = False


class Scheduler:
    """First come, first served, over `limits.slots` slots and one pool of KV blocks.

    A sequence owns blocks for its whole answer from its first step to its last (no eviction, so an
    admitted request always ends). One plan is open at a time: `plan` must be followed by `commit`.
    """

    def __init__(self, policy: Policy, limits: Limits) -> None:
        if limits.slots < 1:
            msg = f"slots is {limits.slots}; it must be at least 1"
            raise ValueError(msg)
        self.policy = policy
        self.limits = limits
        self.is_draining = False
        self._pool = BlockPool(limits.kv_blocks, limits.block_tokens)
        self._waiting: deque[Sequence] = deque()
        self._held: dict[int, Sequence] = {}
        self._steps = 0

    @property
    def waiting(self) -> int:
        """Sequences that have not started."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences that are producing tokens."""
        return sum(s.state is SequenceState.RUNNING for s in self._held.values())

    @property
    def held(self) -> tuple[Sequence, ...]:
        """The sequences that hold a slot, padding included, in order of admission."""
        return tuple(self._held.values())

    @property
    def kv_blocks_used(self) -> int:
        """KV blocks that sequences own."""
        return self._pool.used

    @property
    def has_work(self) -> bool:
        """True while anything waits or runs."""
        return bool(self._waiting) or bool(self.running)

    @property
    def most_tokens(self) -> int:
        """The longest sequence, prompt and answer, that can ever be admitted."""
        return self.limits.kv_blocks * self.limits.block_tokens

    def add(self, sequence: Sequence) -> None:
        """Put `sequence` at the end of the queue.

        Raises ValueError when it could never be admitted, or asks for nothing.
        """
        if sequence.prompt_tokens < 1 or sequence.max_tokens < 1:
            msg = f"prompt_tokens and max_tokens must be at least 1; got {sequence}"
            raise ValueError(msg)
        if sequence.tokens_at_end > self.most_tokens:
            msg = (
                f"prompt and answer need {sequence.tokens_at_end} tokens of KV cache, "
                f"the whole cache holds {self.most_tokens}"
            )
            raise ValueError(msg)
        self._waiting.append(sequence)

    def cancel(self, sequence_id: int) -> None:
        """End a sequence whose caller has gone; not between `plan` and `commit`.

        Unknown and ended ones are left alone.
        """
        for sequence in self._waiting:
            if sequence.id == sequence_id:
                self._waiting.remove(sequence)
                sequence.state = SequenceState.ENDED
                return
        held = self._held.get(sequence_id)
        if held is not None and held.state is SequenceState.RUNNING:
            self._end(held)
            self._release()

    def plan(self, now_ns: int) -> StepPlan | None:
        """The next step, or None when there is nothing to do until `wake_ns`, or an arrival."""
        decodes = tuple(self._decode(s) for s in self._held.values())
        admitted = self._admit(now_ns)
        if not admitted and not decodes:
            return None
        longest = max((s.prompt_tokens for s in admitted), default=0)
        pads = self.limits.pad_prompts and self.policy.holds_slots
        self._steps += 1
        return StepPlan(
            index=self._steps,
            prefills=tuple(
                Prefill(s.id, s.prompt_tokens, longest - s.prompt_tokens if pads else 0, s.blocks)
                for s in admitted
            ),
            decodes=decodes,
            slots=self.limits.slots,
            waiting=len(self._waiting),
            kv_blocks_used=self._pool.used,
            kv_blocks_total=self._pool.total,
        )

    def wake_ns(self, now_ns: int) -> int | None:
        """When to ask for a plan again though nothing arrives; None when only an arrival helps."""
        return self.policy.decision_ns(self._view(now_ns)) if self._waiting else None

    def commit(self, plan: StepPlan, result: StepResult) -> tuple[int, ...]:
        """Account for an executed `plan`; returns the ids of the sequences that have now ended."""
        produced = [p.sequence_id for p in plan.prefills]
        produced += [d.sequence_id for d in plan.decodes if not d.is_padding]
        ended = []
        for sequence_id in produced:
            sequence = self._held[sequence_id]
            sequence.generated += 1
            if sequence.generated == sequence.max_tokens or sequence_id in result.stopped:
                self._end(sequence)
                ended.append(sequence_id)
        self._release()
        return tuple(ended)

    def _admit(self, now_ns: int) -> list[Sequence]:
        admitted: list[Sequence] = []
        for _ in range(self.policy.admit_count(self._view(now_ns))):
            blocks = self._pool.take(self._waiting[0].tokens_at_end)
            if blocks is None:
                break  # the head waits for blocks; nobody overtakes it
            sequence = self._waiting.popleft()
            sequence.blocks = blocks
            sequence.state = SequenceState.RUNNING
            self._held[sequence.id] = sequence
            admitted.append(sequence)
        return admitted

    def _decode(self, sequence: Sequence) -> Decode:
        is_padding = sequence.state is SequenceState.PADDING
        # A padding row feeds its last stored token again, so that it costs time but no new block.
        position = sequence.prompt_tokens + sequence.generated - 1
        return Decode(
            sequence.id, position - 1 if is_padding else position, sequence.blocks, is_padding
        )

    def _end(self, sequence: Sequence) -> None:
        is_kept = self.policy.holds_slots
        sequence.state = SequenceState.PADDING if is_kept else SequenceState.ENDED

    def _release(self) -> None:
        """Free the slots and blocks of what has ended: at once, or when the whole batch has."""
        if self.policy.holds_slots and self.running:
            return
        for sequence in [s for s in self._held.values() if s.state is not SequenceState.RUNNING]:
            self._pool.give_back(sequence.blocks)
            sequence.blocks = ()
            sequence.state = SequenceState.ENDED
            del self._held[sequence.id]

    def _view(self, now_ns: int) -> QueueView:
        return QueueView(
            now_ns=now_ns,
            waiting=len(self._waiting),
            held=len(self._held),
            slots=self.limits.slots,
            oldest_arrived_ns=self._waiting[0].arrived_ns if self._waiting else None,
            is_draining=self.is_draining,
        )
