"""What is sent and when: requests, arrivals, and the workload that is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.core.phases import Phase
from harness.core.source import Source
from harness.core.stages import Stage
from harness.core.tally import Tally, Totals, json_bytes


class LoadKind(StrEnum):
    """How the moments of sending are decided."""

    BACKLOG = "backlog"
    CLOSED = "closed"
    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"
    MMPP = "mmpp"
    STAGES = "stages"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Load:
    """How hard the engine is pushed. A field is None, or empty, where it does not apply.

    `backlog`: every request is due at once. `closed`: at most `concurrency` requests in flight, the
    next one is sent when one ends. In all others requests are due at instants of their own,
    whatever the engine does: `poisson`, `constant` and `gamma` at `rate_rps` requests a second on
    average, with gaps whose coefficient of variation (standard deviation / mean) is 1, 0 and `cv`;
    `mmpp` at rates that jump, at random, from one of `phases` to the next, over and over; `stages`
    at rates that change as they say; `replay` as in a locked file whose load was `replayed`, at
    `speed` times the speed (2: in half the time).
    """

    kind: LoadKind
    concurrency: int | None = None
    rate_rps: float | None = None
    cv: float | None = None
    stages: tuple[Stage, ...] = ()
    speed: float | None = None
    replayed: str | None = None
    phases: tuple[Phase, ...] = ()

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
                rest = ""
            case LoadKind.CLOSED:
                rest = f"loop {self.concurrency or 'of unknown size'}"
            case LoadKind.MMPP | LoadKind.STAGES:
                rest = ", ".join(map(str, self.phases or self.stages))
            case LoadKind.REPLAY:
                return f"{self.replayed or 'locked schedule'} at {self.speed:g}x speed"
            case _:
                rest = f"{self.rate_rps:g}/s"
        if self.cv is not None:
            rest += f" cv {self.cv:g}"
        return f"{self.kind.value} {rest}".rstrip()


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to send, and how many tokens to ask for. Knows neither time nor engine.

    Requests of one `session` are the turns of one conversation, or steps of one agent; `turn`
    counts them from 0. `session` is None for a request that stands alone.
    """

    index: int
    label: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    session: str | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class After:
    """What a later turn waits for: the end of request `index`, and `delay_ns` of time after it.

    The delay is the time that a person thinks, or a tool takes.
    """

    index: int
    delay_ns: int

    def due_ns(self, least_ns: int, ended_ns: int) -> int:
        """When what waits is due if the other ended at `ended_ns`; not before `least_ns`."""
        return max(least_ns, ended_ns + self.delay_ns)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request and the moment it is due, in ns from the start of the run.

    With `after` it is due at `due_ns` at the earliest, and not before `after` allows it. The
    request waited for has a lower index, and a session.
    """

    due_ns: int
    request: Request
    after: After | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A recipe that always yields the same arrivals.

    `repeat_mix` is None when the mix is sent as often as the stages of the load need. Two workloads
    of one `shape_digest` ask for the same work (lengths, order, load); two of one `digest` send the
    same bytes at the same due times. `source` is the file that it was read from, None of a
    specification. `arrivals` are held in memory, or read from a file one by one.
    """

    name: str
    seed: int
    repeat_mix: int | None
    load: Load
    arrivals: Sequence[Arrival]
    source: Source | None = field(default=None, compare=False)
    _totals: Totals | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def totals(self) -> Totals:
        """What all arrivals come to; counted when it is first asked for, and then kept."""
        totals = self._totals
        if totals is None:
            totals = tally_of(self.load).count(self.arrivals)
            self.remember(totals)
        return totals

    def remember(self, totals: Totals) -> None:
        """Keep `totals`, which were counted while the arrivals were made."""
        object.__setattr__(self, "_totals", totals)  # the same as before, only known sooner

    @property
    def digest(self) -> str:
        """sha256 of every prompt, length and due time that will be sent, in order."""
        return self.totals.digest

    @property
    def shape_digest(self) -> str:
        """sha256 of the lengths in order, and of the load: the work, without seed and content.

        In stages the seed decides how many requests there are, so only which lengths there are is
        the work: otherwise two seeds of one load could not be compared.
        """
        return self.totals.shape_digest

    @property
    def prompt_tokens(self) -> int:
        """Sum of the prompt lengths, in tokens."""
        return self.totals.prompt_tokens

    @property
    def output_tokens(self) -> int:
        """Sum of the answer lengths that are asked for, in tokens."""
        return self.totals.output_tokens

    @property
    def title(self) -> str:
        """The workload in the words used beside a ratio, such as `eight-agents x4 backlog`."""
        return title_of(self.name, self.repeat_mix, self.load)


def tally_of(load: Load, encoded: Callable[[object], bytes] = json_bytes) -> Tally:
    """Counts the arrivals of a workload with that load; `encoded` is as Tally says."""
    return Tally(str(load), encoded, is_open_ended=load.kind is LoadKind.STAGES)


def title_of(name: str, repeat_mix: int | None, load: Load) -> str:
    """A workload in words: its name, how often the mix is sent, and the load."""
    return f"{name} {load}" if repeat_mix is None else f"{name} x{repeat_mix} {load}"
