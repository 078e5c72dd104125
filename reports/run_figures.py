"""The figures of a report on runs: which there are, and what each is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analyzer.frame import RunFrame, frame_of
from harness.analyzer.summary import Summary
from harness.core.rundir import RunFolder
from reports.bars import TimeParts, throughput, time_split
from reports.ecdf import Samples, distribution
from reports.figures import Figure, engine_colours
from reports.server_timeline import server_timeline, sides_of
from reports.slots import Slots, slots_over_time

_TIMES = {
    "ttft_s": "Time to first token",
    "tpot_s": "Time per output token",
    "e2e_s": "Time to last token",
}


def run_figures(folders: Sequence[RunFolder], summaries: Sequence[Summary]) -> list[Figure]:
    """What the page shows of the runs in `folders`; `summaries` are theirs, in the same order."""
    engines = engines_of(summaries)
    colours = engine_colours(engines)
    frames = [frame_of(folder) for folder in folders]
    rates = [
        (engine, summary.value("output_tok_s"))
        for engine, summary in zip(engines, summaries, strict=True)
    ]
    return [
        throughput("rate", "Output rate", rates, colours),
        time_split("time-split", "Time inside the steps", _time_parts(summaries), colours),
        *distributions(engines, frames).values(),
        timeline_figure(engines, frames),
        slot_figure(engines, frames),
    ]


def engines_of(summaries: Sequence[Summary]) -> list[str]:
    """The name of each run's engine."""
    return [summary.manifest.engine.name for summary in summaries]


def distributions(engines: Sequence[str], frames: Sequence[RunFrame]) -> dict[str, Figure]:
    """How each latency is distributed, by the column of the requests that it is."""
    colours = engine_colours(engines)
    return {
        column: distribution(
            column.removesuffix("_s"),
            title,
            [
                Samples(engine, frame.requests[column].to_numpy(dtype=float))
                for engine, frame in zip(engines, frames, strict=True)
            ],
            colours,
        )
        for column, title in _TIMES.items()
    }


def timeline_figure(engines: Sequence[str], frames: Sequence[RunFrame]) -> Figure:
    """Requests in flight and KV use over time, of the first run of each engine."""
    sides = [sides_of(engine, frame) for engine, frame in _first_runs(engines, frames).items()]
    title = "Requests in flight and waiting, and KV use"
    return server_timeline("server", title, sides, engine_colours(engines))


def slot_figure(engines: Sequence[str], frames: Sequence[RunFrame]) -> Figure:
    """What the slots did, of the first run of each engine."""
    runs = [Slots(engine, frame.steps) for engine, frame in _first_runs(engines, frames).items()]
    return slots_over_time("slots", "Slots over time", runs, engine_colours(engines))


def _time_parts(summaries: Sequence[Summary]) -> list[TimeParts]:
    """The time split of each engine's first run that has one."""
    first: dict[str, TimeParts] = {}
    for summary in summaries:
        engine, steps = summary.manifest.engine.name, summary.steps
        if steps is not None and engine not in first:
            first[engine] = TimeParts(engine, steps.prefill_s, steps.decode_s, steps.other_s)
    return list(first.values())


def _first_runs(engines: Sequence[str], frames: Sequence[RunFrame]) -> dict[str, RunFrame]:
    """The first run of each engine: repeats look alike over time, and each needs a row."""
    first: dict[str, RunFrame] = {}
    for engine, of_run in zip(engines, frames, strict=True):
        first.setdefault(engine, of_run)
    return first
