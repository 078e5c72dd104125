"""The requests that an engine works on, as those see it who wait for their tokens.

For use on the event loop alone; what another thread makes is handed over with call_soon_threadsafe.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from engines.serving.request_limits import RequestLimits
from harness.core.clock import Clock
from harness.core.engine import EngineFacts


@dataclass(frozen=True, slots=True)
class Served:
    """What stays the same while an engine runs: its tokenizer, what it is, what it can serve."""

    codec: TextCodec
    facts: EngineFacts
    limits: RequestLimits


@dataclass(slots=True, eq=False)
class Ticket:
    """A request in the engine, by its `number`. `is_over` once nobody waits for more tokens."""

    number: int
    request: GenerationRequest
    arrived_ns: int
    made: int = 0
    is_over: bool = False
    inbox: asyncio.Queue[GeneratedToken | RuntimeError] = field(default_factory=asyncio.Queue)


class InFlight:
    """All requests from their arrival to their last token, and the totals of what they got."""

    def __init__(self, limits: RequestLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._numbers = count(1)
        self._tickets: set[Ticket] = set()
        self._failure: str | None = None
        self._requests = self._prompt_tokens = self._output_tokens = 0

    async def answer(
        self,
        request: GenerationRequest,
        begin: Callable[[Ticket], None],
        leave: Callable[[Ticket], None],
    ) -> AsyncGenerator[GeneratedToken, None]:
        """The tokens of `request` as they are delivered, from when `begin` has put it to work.

        `leave` is told when its caller goes before the last token. Raises RequestRefused when the
        request can never be served, RuntimeError when the engine has failed, and what `begin`
        raises.
        """
        self._limits.check(request)
        if self._failure is not None:
            raise RuntimeError(self._failure)
        ticket = Ticket(next(self._numbers), request, self._clock.now_ns())
        begin(ticket)
        self._tickets.add(ticket)
        try:
            while not ticket.is_over:
                token = await ticket.inbox.get()
                if isinstance(token, RuntimeError):
                    raise token
                ticket.is_over = token.finish_reason is not None
                yield token
        finally:
            self._tickets.discard(ticket)
            if not ticket.is_over:
                ticket.is_over = True
                leave(ticket)

    def deliver(self, ticket: Ticket, token: GeneratedToken) -> None:
        """Hand over one token; it is dropped when nobody waits for it any more."""
        if ticket not in self._tickets:
            return
        if not ticket.made:
            self._prompt_tokens += len(ticket.request.prompt_token_ids)
        ticket.made += 1
        self._output_tokens += 1
        self._requests += token.finish_reason is not None
        ticket.inbox.put_nowait(token)

    def fail(self, reason: str) -> None:
        """Fail every request in flight, and all that come; the first reason given stays."""
        self._failure = self._failure or reason
        for ticket in self._tickets:
            ticket.inbox.put_nowait(RuntimeError(self._failure))

    def totals(self) -> Mapping[str, float]:
        """Counters by their Prometheus names: answered requests, and the tokens delivered."""
        return {
            "requests_total": self._requests,
            "prompt_tokens_total": self._prompt_tokens,
            "output_tokens_total": self._output_tokens,
        }
