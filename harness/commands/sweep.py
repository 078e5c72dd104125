"""`batchmark sweep`: latency against throughput, at one load after another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field

from harness import console
from harness.analyzer.grading import SHORTEST_WINDOW_S
from harness.commands.judging import attempt_of
from harness.commands.measuring import Bench, Turn, measure, repeating
from harness.commands.points import begin, bench_at, context_of_mix, open_bench, run_name
from harness.core.clock import utc_now
from harness.core.errors import ExitCode
from harness.core.jsonable import to_json
from harness.core.load_flags import parse_load
from harness.core.load_points import (
    Points,
    SweepFlags,
    load_at,
    name_of,
    parse_points,
    requests_at,
    require_window,
)
from harness.core.manifest import RunManifest
from harness.core.rundir import write_json
from harness.gate import sweep_table
from harness.gate.attempt import Attempt
from harness.gate.sweep import (
    Sweep,
    cautions_of,
    point_of,
    tails_of,
    with_choices,
    with_cuts,
)
from harness.loadgen.interruption import Interruption
from reports.filling import write_page
from reports.sweep_page import render_sweep

SWEEP = "sweep.json"
PAGE = "sweep.html"


@dataclass(frozen=True, slots=True)
class _Stop:
    """One engine at one load: its place in the sweep, and how it is measured."""

    place: int
    level: float
    bench: Bench
    turn: Turn


@dataclass(slots=True)
class _Course:
    """A sweep on its way: where it stops, and what it left behind there."""

    flags: SweepFlags
    points: Points
    bench: Bench
    window_s: float
    attempts: dict[str, Attempt] = field(default_factory=dict)

    def stops(self) -> Iterator[_Stop]:
        """Every run, its loads rising; engines change places from load to load.

        All engines are sent the same bytes at a load, and others at the next.
        """
        engines = self.bench.plan.engines
        for place, level in enumerate(self.points.levels):
            load = load_at(self.flags.run.load, self.points.axis, level)
            requests = requests_at(self.points.axis, level, self.window_s)
            bench = bench_at(self.bench, load, requests)
            for spec in engines if place % 2 == 0 else reversed(engines):
                name = f"{spec.name}-{run_name(self.points.axis, level)}"
                yield _Stop(place, level, bench, Turn(place, spec, bench.plan.folder / name))


def sweep(flags: SweepFlags, command: tuple[str, ...], version: str, *, as_json: bool) -> ExitCode:
    """Measure every engine at every load, then say which loads are worth choosing.

    With `as_json` the sweep alone goes to standard output, and all else to standard error.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        course = _open(flags, command, version)
        interruption = Interruption()
        interruption.run(_measure_all(course, interruption))
        found = _judge(course)
    folder = course.bench.plan.folder
    if as_json:
        console.print_line(json.dumps(to_json(found), indent=2, allow_nan=False))
    if interruption.exit_code is not None:
        console.print_error(f"interrupted; what was measured is in {folder}")
        return interruption.exit_code
    if faulty := sweep_table.not_counted(found):
        console.print_error(f"INVALID: {faulty}; see why above")
        return ExitCode.INVALID
    return ExitCode.OK


def _open(flags: SweepFlags, command: tuple[str, ...], version: str) -> _Course:
    """What will be measured, checked, said, and begun."""
    points = parse_points(flags)
    window_s = require_window(flags, points.axis, SHORTEST_WINDOW_S)
    loads = [load_at(flags.run.load, points.axis, level) for level in points.levels]
    for load in loads:
        parse_load(load)
    bench = open_bench(flags.run, loads[0], command, version)
    for level, load in zip(points.levels, loads, strict=True):
        bench_at(bench, load, requests_at(points.axis, level, window_s))
    names = ", ".join(spec.name for spec in bench.plan.engines)
    levels = ", ".join(name_of(points.axis, level) for level in points.levels)
    begin(bench, f"{names} at {levels}")
    return _Course(flags, points, bench, window_s)


async def _measure_all(course: _Course, interruption: Interruption) -> None:
    """Run every engine at every load.

    A run that fails takes no other one with it, unless its engine could not be started.
    """
    broken: set[str] = set()
    for stop in course.stops():
        if interruption.exit_code is not None:
            return
        if stop.turn.spec.name in broken:
            continue
        attempt = attempt_of(stop.turn, await measure(stop.bench, stop.turn))
        course.attempts[attempt.run] = attempt
        if attempt.summary is None or not attempt.summary.manifest.counts.sent:
            broken.add(stop.turn.spec.name)


def _judge(course: _Course) -> Sweep:
    """What was measured, in numbers; printed, and kept as JSON and as a page."""
    plan = course.bench.plan
    stops = list(course.stops())
    names_of_runs = [stop.turn.folder.name for stop in stops]
    runs = [course.attempts.get(name, Attempt(name)) for name in names_of_runs]
    cut = with_cuts([(stop.level, run) for stop, run in zip(stops, runs, strict=True)])
    found = [
        point_of(stop.turn.spec.name, stop.level, plan.seed + stop.place, run)
        for stop, run in zip(stops, cut, strict=True)
    ]
    names = [spec.name for spec in plan.engines]
    found.sort(key=lambda point: (point.level, names.index(point.engine)))
    tails = tails_of(found)
    manifests = _manifests(course)
    result = Sweep(
        axis=course.points.axis,
        context=context_of_mix(manifests[0]) if manifests else plan.workload,
        engines=tuple(names),
        tails=tails,
        points=with_choices(found, tails),
        command=repeating(course.bench.command, plan.seed, is_locked=False),
        tool_version=course.bench.version,
        created_utc=utc_now().isoformat(timespec="seconds"),
        cautions=cautions_of(cut),
    )
    write_json(plan.folder / SWEEP, result)
    write_page(plan.folder / PAGE, render_sweep(result, manifests))
    _print(result)
    console.print_line(f"report: {plan.folder / PAGE}")
    return result


def _manifests(course: _Course) -> list[RunManifest]:
    """One of each engine that was measured: of its first run that counts, if there is any."""
    chosen: dict[str, Attempt] = {}
    for attempt in course.attempts.values():
        if attempt.folder is None:
            continue
        name = attempt.folder.manifest.engine.name
        if name not in chosen or (chosen[name].counted is None and attempt.counted is not None):
            chosen[name] = attempt
    return [attempt.folder.manifest for attempt in chosen.values() if attempt.folder is not None]


def _print(found: Sweep) -> None:
    console.print_line(sweep_table.title_of(found))
    console.draw(sweep_table.point_table(found))
    console.print_line(sweep_table.reading(found))
    console.print_cautions(found.cautions)
    for line in sweep_table.highlights(found):
        console.print_line(line)
