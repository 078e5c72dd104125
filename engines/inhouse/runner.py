"""Executes step plans: reads prompts, makes one token for each sequence, times both halves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from engines.inhouse.attention import Attend, decode_attention, prefill_attention
from engines.inhouse.kv_cache import KvCache
from engines.inhouse.model import LlamaModel
from engines.scheduling.step import Decode, Prefill, StepPlan, StepResult
from harness.core.clock import Clock

# Prompts are read in one ragged pass, so that short ones share a read of the weights. Beyond these
# many rows nothing more is shared, and the pass would only need more memory.
_PASS_ROWS = 2048


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step made: a token for each sequence that is not padding, and how long each half took.

    `result` is what the scheduler is told.
    """

    result: StepResult
    token_ids: Mapping[int, int]
    prefill_ns: int
    decode_ns: int


@dataclass(slots=True)
class _Stream:
    """The tokens of a sequence, prompt first, and whether an end token ends it."""

    token_ids: list[int]
    ignore_eos: bool = field(default=False)


class Runner:
    """Owns the model, the KV cache and the token ids; the scheduler owns everything else."""

    def __init__(self, model: LlamaModel, cache: KvCache, clock: Clock) -> None:
        self._model = model
        self._cache = cache
        self._clock = clock
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
            token_ids |= self._prefill(prefills)
        prefilled_ns = self._clock.now_ns()
        if plan.decodes:
            token_ids |= self._decode(plan.decodes)
        stopped = [s for s, token_id in token_ids.items() if self._accept(s, token_id)]
        return StepOutput(
            result=StepResult(frozenset(stopped)),
            token_ids=token_ids,
            prefill_ns=prefilled_ns - started_ns if plan.prefills else 0,
            decode_ns=self._clock.now_ns() - prefilled_ns if plan.decodes else 0,
        )

    def _prefill(self, prefills: Sequence[Prefill]) -> dict[int, int]:
        token_ids: list[int] = []
        positions: list[int] = []
        last_rows: list[int] = []
        for prefill in prefills:
            last_rows.append(len(token_ids) + prefill.tokens - 1)
            token_ids += self._streams[prefill.sequence_id].token_ids[: prefill.tokens]
            token_ids += [0] * prefill.padding_tokens
            positions += range(prefill.tokens + prefill.padding_tokens)
        attend = prefill_attention(self._cache, prefills, self._model.device)
        made = self._greedy(token_ids, positions, attend, last_rows)
        return {p.sequence_id: token_id for p, token_id in zip(prefills, made, strict=True)}

    def _decode(self, decodes: Sequence[Decode]) -> dict[int, int]:
        rows = sorted(decodes, key=lambda d: -d.position)
        token_ids = [self._streams[d.sequence_id].token_ids[d.position] for d in rows]
        positions = [d.position for d in rows]
        attend = decode_attention(self._cache, rows, self._model.dtype, self._model.device)
        made = self._greedy(token_ids, positions, attend, list(range(len(rows))))
        tokens = zip(rows, made, strict=True)
        return {d.sequence_id: token_id for d, token_id in tokens if not d.is_padding}

    def _greedy(
        self, token_ids: list[int], positions: list[int], attend: Attend, wanted: list[int]
    ) -> list[int]:
        device = self._model.device
        logits = self._model.logits(
            torch.tensor(token_ids, device=device),
            torch.tensor(positions, device=device),
            attend,
            torch.tensor(wanted, device=device),
        )
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        return chosen

    def _accept(self, sequence_id: int, token_id: int) -> bool:
        """Append a token to its sequence; True when it ends the answer."""
        stream = self._streams[sequence_id]
        stream.token_ids.append(token_id)
        return token_id in self._model.config.eos_ids and not stream.ignore_eos


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
