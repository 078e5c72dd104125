"""From a trace to the requests that are sent: its rows in time, then their prompts, then what fits.

Everything passes one row at a time. What was lost is known when all have passed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, tee
from pathlib import Path
from typing import cast

from harness.core.errors import UsageError
from harness.core.source import LostRows, Source, SourceFlags
from harness.core.units import s_to_ns
from harness.core.workload import Arrival, Load, LoadKind
from workloads.arrivals import due_instants_ns, stage_instants_ns
from workloads.exact_text import Residue
from workloads.fitting import Oversize, fitted
from workloads.importers.formats import Trace, open_trace
from workloads.importers.row import TimeUnit
from workloads.materialise import PromptOptions, materialise
from workloads.replay import spread_ticks, thinned
from workloads.shape import Shape


@dataclass(frozen=True, slots=True)
class TracePlan:
    """A trace that is to be sent, and how. `load` None: at its own times, where it has them."""

    path: Path
    flags: SourceFlags
    load: Load | None
    seed: int


@dataclass(frozen=True, slots=True)
class OpenTrace:
    """A trace of which the first row was read. `load` is the one that it is sent at."""

    trace: Trace
    shapes: Iterator[Shape]
    load: Load
    has_text: bool
    residue: Residue = field(default_factory=Residue)

    def arrivals(
        self, options: PromptOptions, seed: int, room: tuple[int, Oversize] | None
    ) -> Iterator[Arrival]:
        """The requests, with their prompts; `room` is the context they must fit into, and how."""
        made = materialise(self.shapes, options, seed, self.residue)
        return made if room is None else fitted(made, *room, self.trace.losses)

    def source(self) -> Source:
        """What is to be said of the file; complete when all rows have been read."""
        trace = self.trace
        return Source(
            file=trace.path.name,
            sha256=trace.sha256,
            format=trace.format.name,
            is_guessed=trace.is_guessed,
            time=trace.time,
            licence=trace.format.licence,
            losses=tuple(
                LostRows(loss.kind.value, loss.reason, loss.rows, loss.first_row)
                for loss in trace.losses.counted()
            ),
            residue=str(self.residue) or None,
        )


def open_requests(plan: TracePlan) -> OpenTrace:
    """The requests of a trace, in the order and at the instants at which they are due.

    Raises UsageError when the file cannot be read or is of no known format, when flags do not go
    with it, and, while rows are read, where one is faulty or there are fewer than were asked for.
    """
    flags = plan.flags
    unit = cast("TimeUnit | None", flags.time_unit)
    trace = open_trace(plan.path, flags.format, unit, flags.draw_seed or 0)
    first = next(trace.shapes)
    shapes: Iterator[Shape] = chain([first], trace.shapes)
    has_times = first.due_ns is not None
    _require_times(flags, plan, has_times=has_times)
    if flags.draw_seed is not None and flags.thin is None and trace.format.drawn is None:
        msg = f"--draw-seed is {flags.draw_seed}, but nothing of {plan.path.name} is drawn"
        raise UsageError(f"{msg}; leave it out, or add --thin")
    if has_times and plan.load is None:
        shapes = _at_own_times(shapes, flags, plan.seed)
    if flags.requests is not None:
        shapes = _first(shapes, flags.requests, plan.path)
    if plan.load is not None:
        shapes = _due_by(plan.load, shapes, plan.seed)
    has_text = first.text is not None or bool(first.messages)
    load = plan.load or (_own_times(flags) if has_times else Load(LoadKind.BACKLOG))
    return OpenTrace(trace, shapes, load, has_text)


def _at_own_times(shapes: Iterable[Shape], flags: SourceFlags, seed: int) -> Iterator[Shape]:
    """`shapes` thinned, spread within ticks, and with all times scaled, as far as flags say."""
    if flags.thin is not None:
        rng = random.Random(f"{flags.draw_seed or 0}/thin")  # noqa: S311 - not secret
        shapes = thinned(shapes, flags.thin, rng)
    scale = flags.time_scale or 1.0
    shapes, same = tee(shapes)
    due_ns: Iterator[int] = (shape.due_ns or 0 for shape in same)
    if flags.spread is not None:
        rng = random.Random(f"{seed}/spread")  # noqa: S311 - reproducible, not secret
        due_ns = spread_ticks(due_ns, s_to_ns(flags.spread), rng)
    for shape, due in zip(shapes, due_ns, strict=True):
        delay_ns = round(shape.delay_ns * scale)
        yield replace(shape, due_ns=round(due * scale), delay_ns=delay_ns)


def _own_times(flags: SourceFlags) -> Load:
    said = ["own times"]
    said += [] if flags.spread is None else [f"spread over {flags.spread:g} s"]
    said += [] if flags.thin is None else [f"thinned to {flags.thin:g}"]
    return Load(LoadKind.REPLAY, speed=1 / (flags.time_scale or 1.0), replayed=", ".join(said))


def _require_times(flags: SourceFlags, plan: TracePlan, *, has_times: bool) -> None:
    """Raise UsageError where a flag is about the times of the trace, and these do not count."""
    given = [name for name in ("time_scale", "spread", "thin") if getattr(flags, name) is not None]
    if not given or (has_times and plan.load is None):
        return
    flag = f"--{given[0].replace('_', '-')}"
    why = "has no times" if not has_times else f"is sent as {plan.load}, not at its own times"
    msg = f"{flag} is {getattr(flags, given[0]):g}, but {plan.path.name} {why}; leave out {flag}"
    raise UsageError(msg)


def _first(shapes: Iterable[Shape], count: int, path: Path) -> Iterator[Shape]:
    """The first `count` of `shapes`. Raises UsageError when there are not so many."""
    number = 0
    for number, shape in enumerate(shapes, start=1):
        yield shape
        if number == count:
            return
    msg = f"--requests is {count}, but {path.name} has only {number} that can be sent"
    raise UsageError(f"{msg}; ask for no more: the same prompts again would be found in caches")


def _due_by(load: Load, shapes: Iterable[Shape], seed: int) -> Iterator[Shape]:
    """`shapes` due as `load` says, in their order: each session begins at an instant of the load.

    In stages only as many are taken as are due in them.
    """
    rows = list(shapes)
    begun = sum(shape.turn == 0 for shape in rows)
    rng = random.Random(f"{seed}/arrivals")  # noqa: S311 - reproducible, not secret
    if load.kind is LoadKind.STAGES:
        instants = stage_instants_ns(load.stages, rng)
        if len(instants) > begun:
            msg = f"--stages, {load}, asks for {len(instants)} requests; the trace has {begun}"
            raise UsageError(f"{msg}; make the stages shorter")
    else:
        instants = due_instants_ns(load, begun, rng)
    due = iter(instants)
    late: set[str] = set()  # sessions that would begin after the last instant
    for shape in rows:
        if shape.turn == 0:
            due_ns = next(due, None)
            if due_ns is not None:
                yield replace(shape, due_ns=due_ns)
            elif shape.session is not None:
                late.add(shape.session)
        elif cast("str", shape.session) not in late:
            yield replace(shape, due_ns=None)
