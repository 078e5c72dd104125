"""What a workload comes to, counted one request at a time: tokens, digests, distinct prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.core.workload import Arrival

_encoder = json.JSONEncoder(separators=(",", ":"))


def json_bytes(value: object) -> bytes:
    """`value` as JSON without spaces."""
    return _encoder.encode(value).encode()


@dataclass(frozen=True, slots=True)
class Totals:
    """All that is to be sent, in figures.

    `longest_tokens` is the most that one request needs, prompt and answer together; 0 without
    requests. `digest` is the sha256 of every prompt, length and due time in order, and of what
    later turns wait for; `shape_digest` that of the lengths, and of the delays before later
    turns. Both are also of the load.
    """

    requests: int
    prompt_tokens: int
    output_tokens: int
    longest_tokens: int
    distinct_prompts: int
    digest: str
    shape_digest: str


class Tally:
    """Counts requests in their order. `load` is the load in words.

    `encoded` makes of nested lists of whole numbers what `json_bytes` does, perhaps quicker.
    Where the seed decides how many requests there are (`is_open_ended`), two seeds of one load
    would never have the same lengths in order: then only which lengths there are is the shape.
    """

    def __init__(
        self, load: str, encoded: Callable[[object], bytes] = json_bytes, *, is_open_ended: bool
    ) -> None:
        self._content = _ListDigest(load, encoded)
        self._shape = _ListDigest(load, encoded)
        self._is_open_ended = is_open_ended
        self._shapes: set[tuple[int, ...]] = set()
        # Hashes and not the prompts: two of a million are taken for one once in 10^7 workloads.
        self._prompts: set[int] = set()
        self._requests = self._prompt_tokens = self._output_tokens = self._longest = 0

    def add(self, arrival: Arrival) -> None:
        """Count one request."""
        token_ids, max_tokens = arrival.request.prompt_token_ids, arrival.request.max_tokens
        shape: tuple[int, ...] = (len(token_ids), max_tokens)
        row: list[object] = [arrival.due_ns, max_tokens, token_ids]
        if arrival.after is not None:
            shape += (arrival.after.delay_ns,)
            row += (arrival.after.index, arrival.after.delay_ns)
        self._content.add(row)
        if self._is_open_ended:
            self._shapes.add(shape)
        else:
            self._shape.add(shape)
        self._prompts.add(hash(token_ids))
        self._requests += 1
        self._prompt_tokens += len(token_ids)
        self._output_tokens += max_tokens
        self._longest = max(self._longest, len(token_ids) + max_tokens)

    def count(self, arrivals: Iterable[Arrival]) -> Totals:
        """Count all of `arrivals`, and no more after them."""
        for arrival in arrivals:
            self.add(arrival)
        return self.totals()

    def totals(self) -> Totals:
        """What was counted. To be asked once, when all are in."""
        for shape in sorted(self._shapes):
            self._shape.add(shape)
        return Totals(
            requests=self._requests,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            longest_tokens=self._longest,
            distinct_prompts=len(self._prompts),
            digest=self._content.ended(),
            shape_digest=self._shape.ended(),
        )


class _ListDigest:
    """The sha256 of the JSON text `[load, [row, row, ...]]`, which is never held as a whole."""

    def __init__(self, load: str, encoded: Callable[[object], bytes]) -> None:
        self._sha256 = hashlib.sha256(b"[%b,[" % json_bytes(load))
        self._encoded = encoded
        self._separator = b""

    def add(self, row: object) -> None:
        self._sha256.update(self._separator + self._encoded(row))
        self._separator = b","

    def ended(self) -> str:
        self._sha256.update(b"]]")
        return self._sha256.hexdigest()
