"""One static batch as one call of Hugging Face's `generate`, watched step by step.

Prompts are padded on the left to the longest. `generate` runs until the longest answer has ended; a
request that ends before stays in the batch, is computed, and what it would say is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import StoppingCriteriaList

from engines.serving.generation import GeneratedToken
from engines.serving.in_flight import Ticket
from harness.core.clock import Clock

# Masked out in front of a prompt, and not looked at behind an answer.
_PAD_ID = 0


@dataclass(frozen=True, slots=True)
class BatchStep:
    """What one step of `generate` made: a token for each request that is not over.

    `padded` rows were computed for nobody. The first step reads the prompts, `prompt_tokens` in all
    and `padding_tokens` in front of them; in later steps both are 0.
    """

    started_ns: int
    duration_ns: int
    tokens: Mapping[Ticket, GeneratedToken]
    padded: int
    prompt_tokens: int
    padding_tokens: int


class StaticBatch:
    """The requests that one call of `generate` answers; `end_ids` end those that heed them.

    `on_step` is told of every step, on the thread that generates.
    """

    def __init__(
        self,
        tickets: Sequence[Ticket],
        end_ids: frozenset[int],
        on_step: Callable[[BatchStep], None],
        clock: Clock,
    ) -> None:
        self._tickets = tickets
        self._end_ids = end_ids
        self._on_step = on_step
        self._clock = clock
        self._live = dict(enumerate(tickets))
        self._steps = 0
        self._started_ns = 0
        self._is_stopped = threading.Event()

    @property
    def running(self) -> int:
        """Requests whose answers have not ended."""
        return len(self._live)

    @property
    def padded(self) -> int:
        """Requests whose answers have, and which are computed all the same."""
        return len(self._tickets) - len(self._live)

    def run(self, model: Any) -> None:
        """Answer the batch with `model`; returns when its last answer has ended."""
        prompts = [ticket.request.prompt_token_ids for ticket in self._tickets]
        shape = len(prompts), max(map(len, prompts))
        token_ids, mask = torch.full(shape, _PAD_ID), torch.zeros(shape, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            token_ids[row, -len(prompt) :] = torch.tensor(prompt)
            mask[row, -len(prompt) :] = 1
        self._started_ns = self._clock.now_ns()
        model.generate(
            input_ids=token_ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=max(ticket.request.max_tokens for ticket in self._tickets),
            do_sample=False,
            # As a keyword; in a GenerationConfig a None is replaced by the model's own end tokens.
            eos_token_id=None,
            pad_token_id=_PAD_ID,
            use_cache=True,
            stopping_criteria=StoppingCriteriaList([self]),
        )

    def stop(self) -> None:
        """End the batch after the step in progress; from any thread."""
        self._is_stopped.set()

    def __call__(self, token_ids: torch.Tensor, _scores: object, **_: object) -> torch.Tensor:
        """Called by `generate` after each step with all ids, [rows, positions]: whether to end."""
        made: list[int] = token_ids[:, -1].tolist()
        now_ns = self._clock.now_ns()
        self._steps += 1
        self._live = {row: ticket for row, ticket in self._live.items() if not ticket.is_over}
        tokens = {ticket: self._token(ticket, made[row]) for row, ticket in self._live.items()}
        self._live = {
            row: ticket
            for row, ticket in self._live.items()
            if tokens[ticket].finish_reason is None
        }
        self._on_step(self._step(tokens, now_ns))
        self._started_ns = now_ns
        is_over = not self._live or self._is_stopped.is_set()
        return torch.full((len(made),), is_over, dtype=torch.bool, device=token_ids.device)

    def _token(self, ticket: Ticket, token_id: int) -> GeneratedToken:
        request = ticket.request
        if token_id in self._end_ids and not request.ignore_eos:
            return GeneratedToken(token_id, "stop")
        # All rows started together: each has made a token in every step.
        return GeneratedToken(token_id, "length" if self._steps == request.max_tokens else None)

    def _step(self, tokens: Mapping[Ticket, GeneratedToken], now_ns: int) -> BatchStep:
        lengths = [len(ticket.request.prompt_token_ids) for ticket in self._tickets]
        prompt_tokens = sum(lengths) if self._steps == 1 else 0
        read_tokens = max(lengths) * len(lengths) if self._steps == 1 else 0
        return BatchStep(
            started_ns=self._started_ns,
            duration_ns=now_ns - self._started_ns,
            tokens=tokens,
            padded=len(lengths) - len(tokens),
            prompt_tokens=prompt_tokens,
            padding_tokens=read_tokens - prompt_tokens,
        )
