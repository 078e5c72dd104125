"""Requests made to fit into an engine's context: the longer ones left out, or cut, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from harness.core.workload import After, Arrival
from workloads.importers.losses import Losses

Oversize = Literal["drop", "clamp"]


def fitted(
    arrivals: Iterable[Arrival], context_tokens: int, oversize: Oversize, losses: Losses
) -> Iterator[Arrival]:
    """`arrivals` whose prompt and answer have `context_tokens` together at most, numbered anew.

    `clamp` keeps the beginning of a prompt that is too long; where the answer alone leaves no room
    for one, the request is dropped all the same. `drop` leaves it out. The later turns of a session
    go with a turn that is dropped: they would wait for what is never sent. Each request that is not
    as it was counts in `losses`, by its number, from 1.
    """
    reason = f"over the context of {context_tokens} tokens, by number of request"
    numbers: dict[int, int] = {}  # of requests that a later turn may wait for
    ended: set[str] = set()
    kept = 0
    for arrival in arrivals:
        request = arrival.request
        row, room = request.index + 1, context_tokens - request.max_tokens
        ids = request.prompt_token_ids
        if request.session in ended:
            losses.drop("a later turn of a session that was dropped, by number of request", row)
            continue
        if len(ids) > room and (oversize == "drop" or room < 1):
            losses.drop(reason, row)
            if request.session is not None:
                ended.add(request.session)
            continue
        if len(ids) > room:
            losses.clamp(reason, row)
        if request.session is not None:
            numbers[request.index] = kept
        after = arrival.after
        yield replace(
            arrival,
            request=replace(request, index=kept, prompt_token_ids=ids[:room]),
            after=after and After(numbers.pop(after.index), after.delay_ns),
        )
        kept += 1
