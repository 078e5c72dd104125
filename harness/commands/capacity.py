"""`batchmark capacity`: the highest load at which an engine still keeps to its objectives."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field

from harness import console
from harness.commands.judging import attempt_of
from harness.commands.measuring import Bench, Stopped, Turn, measure, repeating
from harness.commands.points import begin, bench_at, context_of_mix, open_bench, run_name
from harness.core.clock import utc_now
from harness.core.errors import ExitCode, UsageError
from harness.core.flag import require_positive
from harness.core.jsonable import to_json
from harness.core.load_points import (
    Axis,
    CapacityFlags,
    load_at,
    name_of,
    requests_at,
    require_window,
)
from harness.core.manifest import RunManifest
from harness.core.objectives import Objective, parse_objectives
from harness.core.rundir import write_json
from harness.gate import capacity_table
from harness.gate.attempt import Attempt, cautions_of_runs
from harness.gate.capacity import Probe, Search, bracket, next_probe
from harness.gate.probing import Capacity, ProbeResult, judge_probe, why_ended
from harness.loadgen.interruption import Interruption
from reports.capacity_page import render_capacity
from reports.filling import write_page

CAPACITY = "capacity.json"
PAGE = "capacity.html"
WINDOW_S = 60.0
# What a percentile of few requests says is too coarse, however wide its interval is.
FEWEST_REQUESTS = 100
PRECISION_LEAST, PRECISION_MOST = 0.01, 1.0


@dataclass(slots=True)
class _Course:
    """A search on its way: what is asked, and what came of each probe."""

    flags: CapacityFlags
    axis: Axis
    objectives: tuple[Objective, ...]
    search: Search
    window_s: float
    bench: Bench
    attempts: list[Attempt] = field(default_factory=list)
    results: list[ProbeResult] = field(default_factory=list)
    stopped: Stopped | None = None


def capacity(
    flags: CapacityFlags, command: tuple[str, ...], version: str, *, as_json: bool
) -> ExitCode:
    """Probe one load after another until the highest that keeps to the objectives is bracketed.

    With `as_json` the result alone goes to standard output, and all else to standard error.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        course = _open(flags, command, version)
        interruption = Interruption()
        interruption.run(_search(course, interruption))
        found = _keep(course)
        write_page(course.bench.plan.folder / PAGE, render_capacity(found, _manifests(course)))
        _print(found)
        console.print_line(f"report: {course.bench.plan.folder / PAGE}")
    if as_json:
        console.print_line(json.dumps(to_json(found), indent=2, allow_nan=False))
    if interruption.exit_code is not None:
        folder = course.bench.plan.folder
        console.print_error(f"interrupted; what was measured is in {folder}")
        return interruption.exit_code
    if course.stopped is not None:
        console.print_error(course.stopped.reason)
        return course.stopped.exit_code
    return ExitCode.OK if found.is_answered else ExitCode.INCONCLUSIVE


def _open(flags: CapacityFlags, command: tuple[str, ...], version: str) -> _Course:
    """What will be searched for, checked, said, and begun."""
    axis = Axis.CONCURRENCY if flags.is_closed else Axis.RATE
    objectives = parse_objectives(flags.slos, flags.share)
    search = _search_of(flags)
    window_s = require_window(flags, axis, WINDOW_S)
    first = load_at(flags.run.load, axis, search.start)
    bench = open_bench(flags.run, first, command, version)
    bench_at(bench, first, FEWEST_REQUESTS)  # which a short trace has not
    if len(bench.plan.engines) > 1:
        names = ", ".join(spec.name for spec in bench.plan.engines)
        msg = f"there are {len(bench.plan.engines)} engines, {names}; search for one at a time"
        raise UsageError(msg)
    asked = ", ".join(objective.title for objective in objectives)
    begin(bench, f"the highest {axis.value} of {bench.plan.engines[0].name} with {asked}")
    return _Course(flags, axis, objectives, search, window_s, bench)


def _search_of(flags: CapacityFlags) -> Search:
    """How to search. Raises UsageError naming the flag whose value is wrong."""
    start = 1.0 if flags.first is None else flags.first
    require_positive("--from", start)
    require_positive("--tries", flags.tries)
    if flags.last is not None:
        require_positive("--to", flags.last)
        if flags.last < start:
            msg = f"--to is {flags.last:g}; it must not be below --from, {start:g}"
            raise UsageError(msg)
    if not PRECISION_LEAST <= flags.precision <= PRECISION_MOST:
        msg = f"--precision is {flags.precision:g}; it must be from {PRECISION_LEAST:g} (1 %) to"
        raise UsageError(f"{msg} {PRECISION_MOST:g}")
    for flag, level in (("--from", start), ("--to", flags.last)):
        if flags.is_closed and level is not None and not level.is_integer():
            msg = f"{flag} is {level:g}; with --closed it is a whole number of requests in flight"
            raise UsageError(msg)
    return Search(
        start=start,
        most=flags.last,
        precision=flags.precision,
        is_whole=flags.is_closed,
        tries=flags.tries,
    )


async def _search(course: _Course, interruption: Interruption) -> None:
    """Probe until the search has ended, is interrupted, or the engine cannot be started."""
    while True:
        probe = next_probe([result.tried for result in course.results], course.search)
        if probe is None:
            return
        try:
            turn, bench = _turn(course, probe)
        except UsageError as error:  # a trace has no more requests than it has
            course.stopped = Stopped(str(error), error.exit_code)
            return
        stopped = await measure(bench, turn)
        if interruption.exit_code is not None:
            return
        attempt = attempt_of(turn, stopped)
        if attempt.summary is None or not attempt.summary.manifest.counts.sent:
            course.stopped = stopped
            return
        course.attempts.append(attempt)
        seed = bench.plan.seed + turn.repeat
        course.results.append(judge_probe(probe, seed, attempt, course.objectives))
        _keep(course)
        result = course.results[-1]
        console.print_line(f"{name_of(course.axis, result.level)}: {result.answer.value}")


def _turn(course: _Course, probe: Probe) -> tuple[Turn, Bench]:
    """The run that a probe is: long enough for every objective, twice as long at each attempt."""
    needed = max(
        FEWEST_REQUESTS,
        requests_at(course.axis, probe.level, course.window_s),
        *(objective.requests_needed for objective in course.objectives),
    )
    load = load_at(course.flags.run.load, course.axis, probe.level)
    bench = bench_at(course.bench, load, needed * 2**probe.attempt)
    number = len(course.results)
    name = f"{number + 1:02}-{run_name(course.axis, probe.level)}"
    return Turn(number, bench.plan.engines[0], bench.plan.folder / name), bench


def _keep(course: _Course) -> Capacity:
    """What is known now, written to the folder, whole."""
    bench, plan = course.bench, course.bench.plan
    tried = [result.tried for result in course.results]
    manifests = _manifests(course)
    found = Capacity(
        axis=course.axis,
        engine=plan.engines[0].name,
        context=context_of_mix(manifests[0]) if manifests else plan.workload,
        objectives=tuple(objective.title for objective in course.objectives),
        search=course.search,
        bracket=bracket(tried, course.search),
        ended=why_ended(tried, course.search),
        probes=tuple(course.results),
        command=repeating(bench.command, plan.seed, is_locked=False),
        tool_version=bench.version,
        created_utc=utc_now().isoformat(timespec="seconds"),
        cautions=cautions_of_runs(course.attempts),
    )
    write_json(plan.folder / CAPACITY, found)
    return found


def _manifests(course: _Course) -> list[RunManifest]:
    return [attempt.folder.manifest for attempt in course.attempts if attempt.folder is not None]


def _print(found: Capacity) -> None:
    console.draw(capacity_table.probe_table(found))
    console.print_line(capacity_table.READING)
    console.print_cautions(found.cautions)
    console.print_line(capacity_table.answer_of(found))
