"""What is sent and when: requests, arrivals, and the workload that is made of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class LoadKind(StrEnum):
    """How the moments of sending are decided."""

    BACKLOG = "backlog"
    CLOSED = "closed"
    POISSON = "poisson"


@dataclass(frozen=True, slots=True)
class Load:
    """How hard the engine is pushed.

    `backlog`: every request is due at once. `closed`: at most `concurrency` requests in flight, the
    next one is sent when one ends. `poisson`: due times are a Poisson process of `rate_rps`
    requests a second, whatever the engine does.
    """

    kind: LoadKind
    concurrency: int | None = None
    rate_rps: float | None = None

    @property
    def is_open_loop(self) -> bool:
        """True when latency counts from the instant that a request was due."""
        return self.kind is not LoadKind.CLOSED

    def __str__(self) -> str:
        """The load in the words used beside a ratio, such as `backlog` or `poisson 2/s`."""
        if self.kind is LoadKind.CLOSED:
            return f"closed loop {self.concurrency}"
        return f"poisson {self.rate_rps:g}/s" if self.kind is LoadKind.POISSON else "backlog"


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to send, and how many tokens to ask for. Knows neither time nor engine."""

    index: int
    label: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request and the moment it is due, in ns from the start of the run."""

    due_ns: int
    request: Request


@dataclass(frozen=True, slots=True)
class Workload:
    """A recipe that always yields the same arrivals.

    Two workloads of one `shape_digest` ask for the same work (lengths, order, load); two of one
    `digest` send the same bytes at the same due times.
    """

    name: str
    seed: int
    repeat_mix: int
    load: Load
    arrivals: tuple[Arrival, ...]

    @property
    def digest(self) -> str:
        """sha256 of every prompt, length and due time that will be sent, in order."""
        rows = [
            [a.due_ns, a.request.max_tokens, list(a.request.prompt_token_ids)]
            for a in self.arrivals
        ]
        return _sha256([str(self.load), rows])

    @property
    def shape_digest(self) -> str:
        """sha256 of the lengths in order, and of the load: the work, without seed and content."""
        rows = [[len(a.request.prompt_token_ids), a.request.max_tokens] for a in self.arrivals]
        return _sha256([str(self.load), rows])

    @property
    def prompt_tokens(self) -> int:
        """Sum of the prompt lengths, in tokens."""
        return sum(len(a.request.prompt_token_ids) for a in self.arrivals)

    @property
    def output_tokens(self) -> int:
        """Sum of the answer lengths that are asked for, in tokens."""
        return sum(a.request.max_tokens for a in self.arrivals)

    @property
    def title(self) -> str:
        """The workload in the words used beside a ratio, such as `eight-agents x4 backlog`."""
        return f"{self.name} x{self.repeat_mix} {self.load}"


def _sha256(value: Sequence[object]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
