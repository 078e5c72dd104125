"""What is sent and when: requests, arrivals, and the workload that is made of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.core.stages import Stage


class LoadKind(StrEnum):
    """How the moments of sending are decided."""

    BACKLOG = "backlog"
    CLOSED = "closed"
    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"
    STAGES = "stages"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Load:
    """How hard the engine is pushed. A field is None, or empty, where it does not apply.

    `backlog`: every request is due at once. `closed`: at most `concurrency` requests in flight, the
    next one is sent when one ends. In all others requests are due at instants of their own,
    whatever the engine does: `poisson`, `constant` and `gamma` at `rate_rps` requests a second on
    average, with gaps whose coefficient of variation (standard deviation / mean) is 1, 0 and `cv`;
    `stages` at rates that change; `replay` as in a locked file whose load was `replayed`, at
    `speed` times the speed (2: in half the time).
    """

    kind: LoadKind
    concurrency: int | None = None
    rate_rps: float | None = None
    cv: float | None = None
    stages: tuple[Stage, ...] = ()
    speed: float | None = None
    replayed: str | None = None

    @property
    def is_open_loop(self) -> bool:
        """True when latency counts from the instant that a request was due."""
        return self.kind is not LoadKind.CLOSED

    @property
    def is_timed(self) -> bool:
        """True when due instants are spread over time, so that rates are taken over that window."""
        return self.kind not in {LoadKind.BACKLOG, LoadKind.CLOSED}

    def __str__(self) -> str:
        """The load in the words used beside a ratio, such as `backlog` or `poisson 2/s`."""
        match self.kind:
            case LoadKind.BACKLOG:
                return "backlog"
            case LoadKind.CLOSED:
                return f"closed loop {self.concurrency or 'of unknown size'}"
            case LoadKind.GAMMA:
                return f"gamma {self.rate_rps:g}/s cv {self.cv:g}"
            case LoadKind.STAGES:
                return f"stages {', '.join(map(str, self.stages))}"
            case LoadKind.REPLAY:
                return f"{self.replayed or 'locked schedule'} at {self.speed:g}x speed"
            case _:
                return f"{self.kind.value} {self.rate_rps:g}/s"


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

    `repeat_mix` is None when the mix is sent as often as the stages of the load need. Two workloads
    of one `shape_digest` ask for the same work (lengths, order, load); two of one `digest` send the
    same bytes at the same due times.
    """

    name: str
    seed: int
    repeat_mix: int | None
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
        """sha256 of the lengths in order, and of the load: the work, without seed and content.

        In stages the seed decides how many requests there are, so only which lengths there are is
        the work: otherwise two seeds of one load could not be compared.
        """
        lengths = [(len(a.request.prompt_token_ids), a.request.max_tokens) for a in self.arrivals]
        if self.load.kind is LoadKind.STAGES:
            lengths = sorted(set(lengths))
        return _sha256([str(self.load), lengths])

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
        return title_of(self.name, self.repeat_mix, self.load)


def title_of(name: str, repeat_mix: int | None, load: Load) -> str:
    """A workload in words: its name, how often the mix is sent, and the load."""
    return f"{name} {load}" if repeat_mix is None else f"{name} x{repeat_mix} {load}"


def _sha256(value: Sequence[object]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
