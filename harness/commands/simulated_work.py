"""What is simulated: a mix, a trace or a locked schedule, as lengths and instants alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from engines.simulator.simulate import SimulatedRequest
from harness.commands.sendables import Asked, Mix, Traced
from harness.commands.work import open_sendable, tell_source
from harness.core.errors import UsageError
from harness.core.load_flags import mix_repeats, names_load, parse_load, require_work
from harness.core.simulate_flags import SimulateFlags
from harness.core.units import NS_PER_MS
from harness.core.workload import After, Arrival, Load, LoadKind, Workload
from workloads.catalog import mix_instants_ns
from workloads.schedule_file import read_schedule
from workloads.shape import Shape
from workloads.spec import shapes

# A measured engine is behind HTTP, which takes about so long a request. So its first step begins
# with the first request of a backlog, and those after it join the second step.
_HTTP_NS = NS_PER_MS


@dataclass(frozen=True, slots=True)
class SimulatedWork:
    """The requests in order of arrival, what they are called, and the load that they come at.

    `repeat_mix` is None where the load decides how many there are, or a file does.
    """

    name: str
    repeat_mix: int | None
    load: Load
    requests: tuple[SimulatedRequest, ...]

    @property
    def has_sessions(self) -> bool:
        """True when a request waits for another."""
        return any(request.after is not None for request in self.requests)

    @property
    def title(self) -> str:
        """Such as `eight-agents x4 poisson 2/s`; a mix that is sent at once needs no load."""
        repeats = "" if self.repeat_mix is None else f" x{self.repeat_mix}"
        at_once = self.repeat_mix is not None and self.load.kind is LoadKind.BACKLOG
        return f"{self.name}{repeats}" if at_once else f"{self.name}{repeats} {self.load}"


def open_simulated(flags: SimulateFlags) -> SimulatedWork:
    """What the flags ask for. Prints where requests were read from, if from a file.

    Raises UsageError as `run` does for the same words, and where there is nothing to simulate.
    """
    load, seed = parse_load(flags.load), flags.seed or 0
    require_work(flags.workload, flags.load, flags.seed)
    if flags.load.schedule is not None:
        locked = read_schedule(flags.load.schedule, load.speed or 1.0, flags.workload)
        tell_source(locked)
        requests = tuple(map(_of_arrival, locked.arrivals))
        return SimulatedWork(locked.name, locked.repeat_mix, locked.load, requests)
    named = load if names_load(flags.load) else None
    asked = Asked(named, mix_repeats(flags.load), flags.source)
    sendable, asked = open_sendable(flags.workload or "", asked)
    if isinstance(sendable, Traced):
        return _traced(sendable, asked, seed)
    if not isinstance(sendable, Mix):
        msg = f"{flags.workload} is no mix and no trace, so there is nothing to simulate"
        raise UsageError(msg)
    spec = sendable.spec
    instants = mix_instants_ns(spec, load, asked.repeat_mix, seed)
    return SimulatedWork(
        spec.name, asked.repeat_mix, load, tuple(_of_shapes(shapes(spec, instants)))
    )


def at_once(work: SimulatedWork) -> SimulatedWork:
    """The same requests, all due at the start."""
    return replace(work, requests=tuple(replace(r, due_ns=0) for r in work.requests))


def as_over_http(work: SimulatedWork) -> tuple[SimulatedRequest, ...]:
    """The requests, those of a load without times one after another, as HTTP lets them in."""
    if work.load.is_timed:
        return work.requests
    places = count()
    return tuple(
        replace(r, due_ns=next(places) * _HTTP_NS) if r.after is None else r for r in work.requests
    )


def _traced(sendable: Traced, asked: Asked, seed: int) -> SimulatedWork:
    """The rows of a trace; only texts have to be made into tokens for their lengths to be known."""
    opened = sendable.opened(asked, seed)
    if opened.has_text:
        requests = tuple(map(_of_arrival, sendable.arrivals(opened, asked, seed)))
    else:
        requests = tuple(_of_shapes(opened.shapes, asked.source.output_tokens))
    tell_source(Workload(sendable.name, seed, None, opened.load, (), opened.source()))
    if not requests:
        msg = f"nothing of {sendable.path.name} is left to simulate; keep more of it with --thin"
        raise UsageError(msg)
    return SimulatedWork(sendable.name, None, opened.load, requests)


def _of_arrival(arrival: Arrival) -> SimulatedRequest:
    request = arrival.request
    lengths = (len(request.prompt_token_ids), request.max_tokens)
    return SimulatedRequest(request.label, *lengths, arrival.due_ns, after=arrival.after)


def _of_shapes(
    rows: Iterable[Shape], output_tokens: int | None = None
) -> Iterator[SimulatedRequest]:
    """A request for each row; `output_tokens` where it does not say how long its answer is."""
    last: dict[str | None, int] = {}
    for index, shape in enumerate(rows):
        after = After(last[shape.session], shape.delay_ns) if shape.turn else None
        last[shape.session] = index
        asked = output_tokens if shape.output_tokens is None else shape.output_tokens
        if shape.prompt_tokens is None or asked is None:
            msg = f"request {index} does not say how many tokens it asks for; give --output-tokens"
            raise UsageError(msg)
        yield SimulatedRequest(
            shape.label, shape.prompt_tokens, asked, shape.due_ns or 0, after=after
        )
