"""Requests between arrival and last token, seen by those who wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.serving.generation import GeneratedToken, GenerationRequest, RequestRefused
from engines.serving.in_flight import InFlight, Ticket
from engines.serving.request_limits import RequestLimits
from harness.core.clock import VirtualClock

REQUEST = GenerationRequest((1, 2, 3), 5, ignore_eos=True)


class Desk:
    """The requests in flight, and what an engine is told of them."""

    def __init__(self) -> None:
        self.in_flight = InFlight(RequestLimits(20, None, 10), VirtualClock())
        self.begun: list[Ticket] = []
        self.left: list[Ticket] = []

    def answer(self, request: GenerationRequest = REQUEST) -> Any:
        return self.in_flight.answer(request, self.begun.append, self.left.append)

    def deliver(self, token_id: int, reason: str | None = None) -> None:
        self.in_flight.deliver(self.begun[-1], GeneratedToken(token_id, reason))


async def begin(desk: Desk) -> Any:
    """An answer that has begun, and waits for its first token."""
    task = asyncio.create_task(collect(desk.answer()))
    await asyncio.sleep(0)
    return task


async def collect(answer: Any) -> list[int]:
    return [token.token_id async for token in answer]


def test_tokens_come_in_order_and_the_last_one_ends_the_answer() -> None:
    async def use() -> None:
        desk = Desk()
        task = await begin(desk)
        for token_id in (7, 8):
            desk.deliver(token_id)
        desk.deliver(9, "length")

        assert await task == [7, 8, 9]
        assert desk.left == []
        assert desk.in_flight.totals() == {
            "requests_total": 1,
            "prompt_tokens_total": 3,
            "output_tokens_total": 3,
        }

    asyncio.run(use())


def test_whoever_goes_early_is_reported_once_and_gets_and_counts_no_more() -> None:
    async def use() -> None:
        desk = Desk()
        answer = desk.answer()
        first = asyncio.create_task(anext(answer))
        await asyncio.sleep(0)
        desk.deliver(7)
        assert (await first).token_id == 7
        await answer.aclose()
        desk.deliver(8)

        assert desk.left == desk.begun
        assert desk.begun[0].is_over
        assert desk.in_flight.totals()["output_tokens_total"] == 1
        assert desk.in_flight.totals()["requests_total"] == 0

    asyncio.run(use())


def test_a_failure_ends_all_that_wait_and_all_that_come_with_the_first_reason() -> None:
    async def use() -> None:
        desk = Desk()
        tasks = [await begin(desk), await begin(desk)]
        desk.in_flight.fail("out of memory")
        desk.in_flight.fail("stopped")
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert [str(outcome) for outcome in outcomes] == ["out of memory"] * 2
        with pytest.raises(RuntimeError, match="out of memory"):
            await collect(desk.answer())
        assert len(desk.begun) == 2

    asyncio.run(use())


def test_a_request_that_can_never_be_served_is_refused_before_it_begins() -> None:
    async def use() -> None:
        desk = Desk()
        with pytest.raises(RequestRefused, match=r"3 prompt tokens and max_tokens 18 .* 20 tokens"):
            await collect(desk.answer(GenerationRequest((1, 2, 3), 18, ignore_eos=True)))

        assert desk.begun == []

    asyncio.run(use())
