"""The scheduler: plan a step, let somebody execute it, commit what came of it.

Everything that moves a sequence from one state to another is here. Nothing here waits, logs,
computes tokens or reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from engines.scheduling.draft import Draft
from engines.scheduling.limits import Limits
from engines.scheduling.memory import Holding, make_memory
from engines.scheduling.policies import Policy, QueueView
from engines.scheduling.sequence import Sequence, SequenceState
from engines.scheduling.step import Decode, KvUse, Prefill, StepPlan, StepResult
from engines.scheduling.waiting import WaitingQueue

__all__ = ["Limits", "Scheduler"]

_RUNNING = (SequenceState.READING, SequenceState.DECODING)


class Scheduler:
    """First come, first served, over `limits.slots` slots and one KV cache.

    Who holds a slot arrived before everybody who waits. One plan is open at a time: `plan` must be
    followed by `commit`, and `add` and `cancel` come before or after both.
    """

    def __init__(self, policy: Policy, limits: Limits) -> None:
        self.policy = policy
        self.limits = limits
        self.is_draining = False
        # A batch policy promises too: a batch that loses a sequence would have to wait for it.
        is_promised = policy.holds_slots or limits.capacity == "guaranteed_no_evict"
        self._memory = make_memory(limits, is_promised=is_promised)
        self._queue = WaitingQueue()
        self._held: dict[int, Sequence] = {}
        self._steps = 0

    @property
    def waiting(self) -> int:
        """Sequences that have not started, and those that were preempted."""
        return len(self._queue)

    @property
    def waiting_tokens(self) -> int:
        """Prompt tokens of the sequences that wait."""
        return self._queue.prompt_tokens

    @property
    def running(self) -> int:
        """Sequences that hold a slot and whose answer has not ended."""
        return sum(s.state in _RUNNING for s in self._held.values())

    @property
    def held(self) -> tuple[Sequence, ...]:
        """The sequences that hold a slot, padding included, in order of admission."""
        return tuple(self._held.values())

    @property
    def kv_blocks_used(self) -> int:
        """KV blocks that sequences own."""
        return self._memory.used

    @property
    def kv_use(self) -> KvUse:
        """How the KV cache stands now."""
        return self._kv_use({})

    @property
    def has_work(self) -> bool:
        """True while anything waits or runs."""
        return bool(self._queue) or bool(self.running)

    @property
    def most_tokens(self) -> int:
        """The longest sequence, prompt and answer, that can ever be admitted."""
        return self.limits.most_tokens

    def add(self, sequence: Sequence) -> None:
        """Put `sequence` at the end of the queue.

        Raises ValueError when it could never be admitted, or does not make sense.
        """
        self.limits.check(sequence)
        self._queue.append(sequence)

    def cancel(self, sequence_id: int) -> None:
        """End a sequence whose caller has gone; not between `plan` and `commit`.

        Unknown and ended ones are left alone.
        """
        waiting = self._queue.remove(sequence_id)
        if waiting is not None:
            waiting.state = SequenceState.ENDED
            return
        held = self._held.get(sequence_id)
        if held is not None and held.state in _RUNNING:
            self._end(held)
            self._release()

    def plan(self, now_ns: int) -> StepPlan | None:
        """The next step, or None when there is nothing to do until `wake_ns`, or an arrival."""
        draft = Draft(self.limits)
        if self.limits.order == "decode_first":
            self._decode_all(draft)
        self._read_prompts(draft, now_ns)
        if self.limits.order == "prefill_first" and not draft.prefills:
            self._decode_all(draft)
        if draft.is_empty:
            return None
        self._steps += 1
        after = {p.sequence_id: p.first + p.tokens for p in draft.prefills}
        after |= {d.sequence_id: d.position + 1 for d in draft.decodes}
        return StepPlan(
            index=self._steps,
            prefills=tuple(draft.prefills),
            decodes=tuple(draft.decodes),
            slots=self.limits.slots,
            waiting=self.waiting,
            kv=self._kv_use(after),
            preempted=tuple(draft.preempted),
            prefix_hit_tokens=draft.prefix_hit_tokens,
        )

    def wake_ns(self, now_ns: int) -> int | None:
        """When to ask for a plan again though nothing arrives; None when only an arrival helps."""
        return self.policy.decision_ns(self._view(now_ns)) if self._queue else None

    def commit(self, plan: StepPlan, result: StepResult) -> tuple[int, ...]:
        """Account for an executed `plan`; returns the ids of the sequences that have now ended."""
        for prefill in plan.prefills:
            sequence = self._held[prefill.sequence_id]
            sequence.stored = prefill.first + prefill.tokens
            self._memory.keep_prefix(sequence, prefill.first)
            if prefill.is_last:
                sequence.state = SequenceState.DECODING
        for decode in plan.decodes:
            self._held[decode.sequence_id].stored = decode.position + 1
        ended = []
        for sequence_id in plan.producing:
            sequence = self._held[sequence_id]
            sequence.generated += 1
            if sequence.generated == sequence.max_tokens or sequence_id in result.stopped:
                self._end(sequence)
                ended.append(sequence_id)
        self._release()
        return tuple(ended)

    def _decode_all(self, draft: Draft) -> None:
        """A row for each answer that goes on, and for each that pads the batch, oldest first."""
        for sequence in self.held:
            if sequence.state is SequenceState.PADDING:
                # It feeds its last stored token again, which costs time but no new block.
                draft.decode(
                    Decode(sequence.id, sequence.stored - 1, sequence.blocks, is_padding=True)
                )
            elif sequence.state is SequenceState.DECODING:
                position = sequence.stored
                if self._grow(sequence, position + 1, draft):
                    draft.decode(Decode(sequence.id, position, sequence.blocks))

    def _read_prompts(self, draft: Draft, now_ns: int) -> None:
        """Go on with the prompts that were begun, then begin others."""
        is_batch = self.policy.holds_slots
        count = self.policy.admit_count(self._view(now_ns))
        if is_batch:  # it is formed at once, however many steps it takes to read
            while count and self._admit(draft):
                count -= 1
        for sequence in self.held:
            if sequence.state is SequenceState.READING and not self._read(sequence, draft):
                return
        while count and not is_batch and self._may_begin(draft):
            begun = self._admit(draft)
            if begun is None:
                return
            self._read(begun, draft)
            count -= 1

    def _may_begin(self, draft: Draft) -> bool:
        """True when the step has room for the head of the queue, and took nobody's blocks."""
        head = self._queue.head
        if head is None or draft.preempted:
            return False
        return draft.room(head.known - self._memory.hit_tokens(head))[0] > 0

    def _admit(self, draft: Draft) -> Sequence | None:
        """Give the head of the queue a slot; None when it waits for memory: nobody overtakes it."""
        head = self._queue.head
        if head is None or not self._memory.admit(head):
            return None
        self._queue.remove(head.id)
        head.state = SequenceState.READING
        self._held[head.id] = head
        draft.prefix_hit_tokens += head.stored
        return head

    def _read(self, sequence: Sequence, draft: Draft) -> bool:
        """Read what the budget allows of `sequence`; False when that is nothing."""
        unread = sequence.known - sequence.stored
        tokens, padding = draft.room(unread, self._padding(sequence))
        if not tokens or not self._grow(sequence, sequence.stored + tokens, draft):
            return False
        draft.read(
            Prefill(
                sequence_id=sequence.id,
                first=sequence.stored,
                tokens=tokens,
                padding_tokens=padding,
                blocks=sequence.blocks,
                is_last=tokens == unread,
            )
        )
        return True

    def _padding(self, sequence: Sequence) -> int:
        """What the prompt of `sequence` is padded by, to the longest of its batch."""
        if not (self.limits.pad_prompts and self.policy.holds_slots):
            return 0
        return max(s.prompt_tokens for s in self._held.values()) - sequence.prompt_tokens

    def _grow(self, sequence: Sequence, tokens: int, draft: Draft) -> bool:
        """Room for `tokens` tokens of `sequence`, at the cost of the youngest; False when it is it.

        The oldest always gets room: the whole cache is enough for any one sequence.
        """
        while not self._memory.grow(sequence, tokens):
            youngest = next(reversed(self._held.values()))
            self._preempt(youngest, draft)
            if youngest is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence, draft: Draft) -> None:
        """Take blocks and slot from `sequence`, which keeps its answer and is read again later."""
        del self._held[sequence.id]
        self._memory.give_back(sequence)
        sequence.state = SequenceState.WAITING
        sequence.preemptions += 1
        self._queue.put_back(sequence)
        draft.preempted.append(sequence.id)

    def _end(self, sequence: Sequence) -> None:
        """An answer is over. One that never began has no row that could pad the batch."""
        is_kept = self.policy.holds_slots and sequence.state is SequenceState.DECODING
        sequence.state = SequenceState.PADDING if is_kept else SequenceState.ENDED

    def _release(self) -> None:
        """Free slots and blocks of what has ended, and of padding once the whole batch is over."""
        is_over = not self.running
        for sequence in self.held:
            if sequence.state is SequenceState.ENDED or is_over:
                self._memory.give_back(sequence)
                sequence.state = SequenceState.ENDED
                del self._held[sequence.id]

    def _kv_use(self, stored_after: Mapping[int, int]) -> KvUse:
        """How the cache stands once sequences hold `stored_after` tokens; the others as now."""
        holdings = (
            Holding(len(s.blocks), stored_after.get(s.id, s.stored)) for s in self._held.values()
        )
        return self._memory.use(holdings, self._queue.head)

    def _view(self, now_ns: int) -> QueueView:
        head = self._queue.head
        return QueueView(
            now_ns=now_ns,
            waiting=self.waiting,
            held=len(self._held),
            slots=self.limits.slots,
            oldest_arrived_ns=head.arrived_ns if head else None,
            is_draining=self.is_draining,
        )
