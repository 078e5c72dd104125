"""Executes step plans: reads prompts, makes one token for each sequence, times both halves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engines.inhouse.forward import Forward
from engines.inhouse.work import size_of, work_of
from engines.scheduling.step import Decode, Prefill, StepPlan, StepResult
from engines.step_log import StepWork
from harness.core.clock import Clock

# Prompts are read in one ragged pass, so that short ones share a read of the weights. Beyond these
# many rows nothing more is shared, and the pass would only need more memory.
_PASS_ROWS = 2048


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step made: a token for each sequence that has a next one, and how long each half took.

    `result` is what the scheduler is told; `work` what the step had to do at least.
    """

    result: StepResult
    token_ids: Mapping[int, int]
    prefill_ns: int
    decode_ns: int
    work: StepWork | None = None


@dataclass(slots=True)
class _Stream:
    """The tokens of a sequence, prompt first, and whether an end token ends it."""

    token_ids: list[int]
    ignore_eos: bool = field(default=False)


class Runner:
    """Owns the token ids and has `forward` compute; the scheduler owns everything else."""

    def __init__(self, forward: Forward, clock: Clock) -> None:
        self._forward = forward
        self._clock = clock
        self._size = size_of(forward.config)
        self._streams: dict[int, _Stream] = {}

    @property
    def sequence_ids(self) -> tuple[int, ...]:
        """The sequences whose tokens are kept."""
        return tuple(self._streams)

    def add(
        self, sequence_id: int, prompt_token_ids: Sequence[int], *, ignore_eos: bool = False
    ) -> None:
        """Keep the prompt of a sequence until a plan asks for it."""
        self._streams[sequence_id] = _Stream(list(prompt_token_ids), ignore_eos)

    def forget(self, sequence_id: int) -> None:
        """Drop the tokens of a sequence that no plan will name again."""
        self._streams.pop(sequence_id, None)

    def execute(self, plan: StepPlan) -> StepOutput:
        """Do what `plan` says. Sequences that were never added raise KeyError."""
        started_ns = self._clock.now_ns()
        token_ids: dict[int, int] = {}
        for prefills in _passes(plan.prefills):
            token_ids |= self._read(prefills)
        read_ns = self._clock.now_ns()
        if plan.decodes:
            token_ids |= self._decode(plan.decodes)
        ended_ns = self._clock.now_ns()
        stopped = [s for s, token_id in token_ids.items() if self._accept(s, token_id)]
        return StepOutput(
            result=StepResult(frozenset(stopped)),
            token_ids=token_ids,
            prefill_ns=read_ns - started_ns if plan.prefills else 0,
            decode_ns=ended_ns - read_ns if plan.decodes else 0,
            work=work_of(plan, self._size, self._forward.number_bytes),
        )

    def _read(self, prefills: Sequence[Prefill]) -> dict[int, int]:
        """Chunks of prompts; after a preemption, of the answer so far as well."""
        own = [self._streams[p.sequence_id].token_ids for p in prefills]
        chunks = [ids[p.first : p.first + p.tokens] for p, ids in zip(prefills, own, strict=True)]
        made = self._forward.read(prefills, chunks)
        last = [p.sequence_id for p in prefills if p.is_last]
        return dict(zip(last, made, strict=True))

    def _decode(self, decodes: Sequence[Decode]) -> dict[int, int]:
        fed = [self._streams[d.sequence_id].token_ids[d.position] for d in decodes]
        tokens = zip(decodes, self._forward.decode(decodes, fed), strict=True)
        return {d.sequence_id: token_id for d, token_id in tokens if not d.is_padding}

    def _accept(self, sequence_id: int, token_id: int) -> bool:
        """Append a token to its sequence; True when it ends the answer."""
        stream = self._streams[sequence_id]
        stream.token_ids.append(token_id)
        return token_id in self._forward.config.eos_ids and not stream.ignore_eos


def _passes(prefills: Sequence[Prefill]) -> Iterator[list[Prefill]]:
    """`prefills` in order, cut so that each pass has few rows, or is a single prompt."""
    batch: list[Prefill] = []
    rows = 0
    for prefill in prefills:
        own_rows = prefill.tokens + prefill.padding_tokens
        if batch and rows + own_rows > _PASS_ROWS:
            yield batch
            batch, rows = [], 0
        batch.append(prefill)
        rows += own_rows
    if batch:
        yield batch
