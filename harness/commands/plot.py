"""`batchmark plot`: one figure of runs, as a file of its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import console
from harness.analyzer.frame import frame_of
from harness.analyzer.summary import Summary, Validity
from harness.commands.ablate import ABLATION
from harness.commands.judging import read_reported
from harness.commands.kept import read_kept
from harness.commands.out_file import require_free, write_out
from harness.commands.sweep import SWEEP
from harness.core.errors import ExitCode, UsageError
from harness.core.plot_flags import Kind, PlotFlags
from harness.gate import ablation_table, sweep_table
from harness.gate.ablation import Ablation
from harness.gate.comparison import context_of
from harness.gate.sweep import LATENCIES, Sweep
from reports.curve import curves, curves_of_runs
from reports.figures import Figure
from reports.page import ReportedRun
from reports.run_figures import distributions, engines_of, slot_figure, timeline_figure
from reports.turns import turn_figures
from reports.waterfall import waterfall_of

Paths = tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The figures that a kind has, by what --metric calls them, and what they are of."""

    figures: Mapping[str, Figure]
    context: str


def plot(flags: PlotFlags) -> ExitCode:
    """Write the figure that the flags name, and print what it shows."""
    kind, form, out = flags.chosen
    require_free(out, replaces=flags.force)
    drawn = _KINDS[kind](flags.runs)
    figure = _chosen(kind, drawn.figures, flags.metric)
    if figure.picture is None:
        msg = f"there is nothing to draw: {figure.reason}; name other runs, or another --kind"
        raise UsageError(msg)
    data = io.BytesIO()
    figure.picture.write(data, form, drawn.context, is_dark=flags.dark)
    write_out(out, data.getvalue())
    console.print_line(f"{figure.title}: {figure.caption}")
    console.print_line(f"figure: {out}")
    return ExitCode.OK


def _chosen(kind: Kind, figures: Mapping[str, Figure], metric: str | None) -> Figure:
    """The figure that `metric` names; the first when it is None."""
    if metric is None:
        return next(iter(figures.values()))
    if metric not in figures:
        known = ", ".join(name for name in figures if name)
        said = f"it has figures of {known}" if known else "it is one figure; leave --metric out"
        raise UsageError(f"{kind} has no figure of {metric!r}; {said}")
    return figures[metric]


def _of_runs(make: Callable[[Sequence[ReportedRun]], Mapping[str, Figure]]) -> Callable[..., Drawn]:
    """A maker of figures of the run folders at some paths."""

    def draw(paths: Paths) -> Drawn:
        runs = [read_reported(path) for path in paths]
        return Drawn(make(runs), _context([run.summary for run in runs]))

    return draw


def _context(summaries: Sequence[Summary]) -> str:
    """Model, hardware and workload, and which of the runs are not to be relied on."""
    said = "; ".join(dict.fromkeys(context_of(summary.manifest) for summary in summaries))
    invalid = [s.manifest.run_id for s in summaries if s.validity is Validity.INVALID]
    return f"{said}; INVALID: {', '.join(invalid)}" if invalid else said


def _ecdf(runs: Sequence[ReportedRun]) -> dict[str, Figure]:
    found = distributions(_engines(runs), [frame_of(run.folder) for run in runs])
    return {column.removesuffix("_s"): figure for column, figure in found.items()}


def _timeline(runs: Sequence[ReportedRun]) -> dict[str, Figure]:
    return {"": timeline_figure(_engines(runs), [frame_of(run.folder) for run in runs])}


def _steps(runs: Sequence[ReportedRun]) -> dict[str, Figure]:
    return {"": slot_figure(_engines(runs), [frame_of(run.folder) for run in runs])}


def _turns(runs: Sequence[ReportedRun]) -> dict[str, Figure]:
    found = turn_figures([run.summary for run in runs])
    nothing = Figure("Turns", "", None, "no run has sessions")
    return dict(zip(("ttft", "e2e"), found or [nothing] * 2, strict=True))


def _engines(runs: Sequence[ReportedRun]) -> list[str]:
    return engines_of([run.summary for run in runs])


def _pareto(paths: Paths) -> Drawn:
    """Of the sweep in the one folder that is named, or else of the runs at `paths`."""
    if len(paths) == 1 and (paths[0] / SWEEP).is_file():
        sweep = read_kept(Sweep, paths[0], SWEEP, "sweep")
        return Drawn(_by_latency(curves(sweep)), sweep_table.title_of(sweep))
    return _of_runs(lambda runs: _by_latency(curves_of_runs([run.summary for run in runs])))(paths)


def _by_latency(found: Sequence[Figure]) -> dict[str, Figure]:
    return {name.removesuffix("_s"): f for name, f in zip(LATENCIES, found, strict=True)}


def _waterfall(paths: Paths) -> Drawn:
    if len(paths) != 1:
        msg = f"a waterfall is of one ablation, and {len(paths)} folders are named; name one"
        raise UsageError(msg)
    ablation = read_kept(Ablation, paths[0], ABLATION, "ablation")
    return Drawn(waterfall_of(ablation), ablation_table.title_of(ablation))


_KINDS: dict[Kind, Callable[[Paths], Drawn]] = {
    Kind.ECDF: _of_runs(_ecdf),
    Kind.TIMELINE: _of_runs(_timeline),
    Kind.PARETO: _pareto,
    Kind.WATERFALL: _waterfall,
    Kind.STEPS: _of_runs(_steps),
    Kind.TURNS: _of_runs(_turns),
}
