"""What the terminal shows: tables, one-line errors, live progress. The only user of rich.

Nothing here is parsed as markup, so a name in square brackets is a name. Each function writes to
the present standard output, or to the console it is given. Where that is no terminal, tables may
be as wide as PIPED_COLUMNS, so that a row stays one line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from harness.analyzer.summary import StepTotals, Summary
from harness.core.cautions import Caution
from harness.core.engine import EngineSpec, LaunchPlan
from harness.core.manifest import Counts, RunManifest
from harness.core.plan import RunPlan
from harness.gate import ablation_table, formatting, tables
from harness.gate.ablation import Ablation
from harness.gate.agreement_table import agreement_table
from harness.gate.allowance import allowed_line
from harness.gate.cells import Align, Cell, Column, Table, Tone
from harness.gate.comparison import ComparisonTable, context_of, phrase
from harness.gate.comparison_table import comparison_table, headlines
from harness.gate.lengths import ANSWERS, PROMPTS, mean_tokens
from harness.gate.preflight import Preflight, preflight_table
from harness.gate.simulation_table import ratio_line, simulation_table
from harness.gate.step_table import step_table
from harness.gate.turn_table import turn_table

REFRESH_EVERY_S = 0.25
RUNS_SIDE_BY_SIDE = 3
PIPED_COLUMNS = 200
_NAME_CHARS = 28
_HEADER_CHARS = 14
_STYLES = {
    Tone.PLAIN: "",
    Tone.MUTED: "dim",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "red",
}


def print_line(text: str, console: Console | None = None, *, tone: Tone = Tone.PLAIN) -> None:
    """Print `text` as it is, never broken into shorter lines."""
    _out(console).print(Text(text, style=_STYLES[tone]), soft_wrap=True)


def print_error(message: str, console: Console | None = None) -> None:
    """Print `message` to standard error as one line that begins with `error:`."""
    target = console or Console(stderr=True, highlight=False)
    line = Text("error: ", style="bold red")
    line.append(formatting.one_line(message, chars=4000), style="default not bold")
    target.print(line, soft_wrap=True)


def print_table(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    console: Console | None = None,
) -> None:
    """Print `rows` of plain strings under `headers`; columns of numbers stand right."""
    listed = [tuple(row) for row in rows]
    columns = tuple(
        Column(header, Align.RIGHT if _are_numbers(row[i] for row in listed) else Align.LEFT)
        for i, header in enumerate(headers)
    )
    cells = tuple(tuple(Cell(text) for text in row) for row in listed)
    draw(Table(title, columns, cells), console)


def print_plan(plan: RunPlan, console: Console | None = None) -> None:
    """Print what is about to be measured, the seed included, before anything is started."""
    names = ", ".join(spec.name for spec in plan.engines)
    runs = "1 run" if plan.repeats == 1 else f"{plan.repeats} runs"
    print_line(f"{plan.title}, seed {plan.seed}: {runs} of {names}", console)
    print_line(f"baseline: {plan.baseline or 'none, so no ratio will be given'}", console)
    print_line(f"folder: {plan.folder}", console)


def print_launch(
    spec: EngineSpec, plan: LaunchPlan, obstacle: str | None, console: Console | None = None
) -> None:
    """Print how the engine of `spec` is launched, and why it cannot be, if that is known."""
    out = _out(console)
    out.print(Text(spec.name, style="bold"), soft_wrap=True)
    for variable, ours in plan.keys.items():
        print_line(f"  {variable}=<what {ours} holds>", out)
    for name, value in plan.env.items():
        print_line(f"  {name}={shlex.quote(value)}", out)
    print_line(f"  {shlex.join(plan.argv) or f'attached to {plan.base_url}'}", out)
    for name, text in plan.files.items():
        print_line(f"  {name}: {' '.join(text.split())}", out)
    for knob, why in plan.unsupported.items():
        print_line(f"  no effect: {knob}: {why}", out)
    if obstacle is not None:
        out.print(Text(f"  cannot be started here: {obstacle}", style="red"), soft_wrap=True)
    out.print()


def print_preflight(found: Preflight, console: Console | None = None) -> None:
    """Print what each engine will do, knob by knob, and what cannot be made equal."""
    draw(preflight_table(found), console)
    print_cautions(found.cautions, console)


def print_summaries(summaries: Sequence[Summary], console: Console | None = None) -> None:
    """Print runs beside each other: how far each may be trusted, then their metrics.

    Their cautions are not printed: a caller prints each caution once, at the end.
    """
    out = _out(console)
    for line in dict.fromkeys(map(_said_of_work, summaries)):
        print_line(line, out)
    draw(replace(tables.validity_table(summaries), title=""), out)
    draw(tables.check_table(summaries), out)
    for first in range(0, len(summaries), RUNS_SIDE_BY_SIDE):
        beside = summaries[first : first + RUNS_SIDE_BY_SIDE]
        draw(replace(tables.metric_table(beside), title=""), out)
    draw(turn_table(summaries), out)


def print_headroom(summaries: Sequence[Summary], console: Console | None = None) -> None:
    """Print what share of the client's ceiling each run used, or how to find out the ceiling."""
    labels = tables.run_labels([summary.manifest for summary in summaries])
    for label, summary in zip(labels, summaries, strict=True):
        client = summary.manifest.client
        if client is None:
            continue
        if client.ceiling_events_s is None:
            how = "measure it with `batchmark calibrate`"
            print_line(f"the client's ceiling on this machine is not known; {how}", console)
            return
        seen = next((c.value for c in summary.checks if c.id == "V09"), formatting.NOT_MEASURED)
        print_line(f"client of {label}: {seen}", console)


def print_headlines(comparisons: Sequence[ComparisonTable], console: Console | None = None) -> None:
    """Print the ratios that open a report, each as a sentence with its baseline and context."""
    out = _out(console)
    for table in comparisons:
        for row in headlines(table):
            said = f"{table.candidate_name}: {phrase(table, row)}"
            out.print(Text(said, style="bold"), soft_wrap=True)
    if comparisons:
        out.print()


def print_steps(
    summaries: Sequence[Summary],
    simulated: Mapping[str, StepTotals],
    console: Console | None = None,
) -> None:
    """Print what each run's steps did, and the padding that the simulator gives.

    `simulated` is by engine name. Prints nothing when no run has a step log.
    """
    for first in range(0, len(summaries), RUNS_SIDE_BY_SIDE):
        beside = summaries[first : first + RUNS_SIDE_BY_SIDE]
        if any(summary.steps is not None for summary in beside):
            draw(step_table(beside, simulated), console)


def print_comparison(table: ComparisonTable, console: Console | None = None) -> None:
    """Print what a candidate is to its baseline: metrics, answers, then the first ratio in words.

    Its cautions are not printed: a caller with several tables prints each caution once.
    """
    out = _out(console)
    print_allowed([table], out)
    drawn = comparison_table(table)
    print_line(f"{drawn.title} ({table.context})", out)
    if table.factors:
        print_line(f"what differs on purpose: {', '.join(table.factors)}", out)
    draw(replace(drawn, title=""), out)
    draw(agreement_table([table]), out)
    print_headlines([table], out)


def print_allowed(comparisons: Sequence[ComparisonTable], console: Console | None = None) -> None:
    """Print what was allowed to differ, where something was; it comes before all else."""
    said = allowed_line(tuple(dict.fromkeys(w for table in comparisons for w in table.allowed)))
    if said:
        _out(console).print(Text(said, style="bold red"), soft_wrap=True)


def print_ablation(ablation: Ablation, console: Console | None = None) -> None:
    """Print what each level of a ladder is worth: the levels, a waterfall a metric, the whole."""
    out = _out(console)
    print_line(ablation_table.title_of(ablation), out)
    draw(ablation_table.level_table(ablation), out)
    for table in ablation_table.waterfall_tables(ablation):
        draw(table, out)
    print_line(ablation_table.READING, out)
    print_cautions(ablation.cautions, out)
    for ratio, of_what, _ in ablation_table.claims(ablation):
        out.print(Text(f"{ratio} {of_what}", style="bold"), soft_wrap=True)
    out.print()


def print_cautions(cautions: Sequence[Caution], console: Console | None = None) -> None:
    """Print each caution once, with its remedy; nothing when there are none."""
    out = _out(console)
    for caution in dict.fromkeys(cautions):
        line = Text(f"caution {caution.code}: ", style="yellow")
        line.append(f"{caution.message}; {caution.remedy}", style="default")
        out.print(line, soft_wrap=True)


def print_runs(manifests: Sequence[RunManifest], console: Console | None = None) -> None:
    """Print a list of runs."""
    draw(tables.runs_table(manifests), console)


def print_simulation(
    sides: Mapping[str, Mapping[str, float | None]],
    policy: str,
    ratio: float | None,
    context: str,
    console: Console | None = None,
) -> None:
    """Print the figures of simulated policies beside each other, and `policy`'s ratio to static.

    `sides` maps a policy's name to its figures by name; `context` says what was simulated.
    """
    draw(simulation_table(sides, context), console)
    print_line(ratio_line(policy, ratio, context), console)


def draw(table: Table, console: Console | None = None) -> None:
    """Print `table`, its title above and its notes below; nothing when it has no rows."""
    if not table.rows:
        return
    out = _out(console)
    if table.title:
        out.print(Text(table.title, style="bold"), soft_wrap=True)
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in table.columns:
        grid.add_column(
            _header(column.title),
            justify=column.align.value,
            overflow="fold",
            no_wrap=column.is_id,
        )
    for row in table.rows:
        grid.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    out.print(grid)
    for note in table.notes:
        out.print(Text(note, style="dim"), soft_wrap=True)
    out.print()


class RunProgress:
    """One line on the terminal while a run is measured, and one that stays when it has ended.

    Elsewhere than on a terminal only the line that stays is printed. No thread: the line changes
    when `update` is called, at most four times a second of the run's own time.
    """

    def __init__(
        self, name: str, output_tokens_expected: int, console: Console | None = None
    ) -> None:
        self._expected = output_tokens_expected
        self._name = formatting.one_line(name, _NAME_CHARS)
        self._out = _out(console)
        self._live: Live | None = None
        self._shown_s = -REFRESH_EVERY_S
        self._last = ""

    def __enter__(self) -> Self:
        """Take the terminal's last line, if there is a terminal."""
        if self._out.is_terminal and not self._out.is_dumb_terminal:
            self._live = Live(console=self._out, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the line back and print the one that stays."""
        if self._live is not None:
            self._live.stop()
        if self._last:
            print_line(self._last, self._out)

    def stage(self, name: str) -> None:
        """Show what is done before and after measuring, such as `starting`."""
        self._show(f"{self._name}: {name}")

    def update(self, counts: Counts, output_tokens: int, elapsed_s: float) -> None:
        """Show how far the run is, `elapsed_s` after its start."""
        done = f"{self._name}: {counts.ok} of {counts.planned} done, {counts.failed} failed"
        rate = output_tokens / elapsed_s if elapsed_s > 0 else 0.0
        speed = f"{formatting.significant(rate)} tok/s"
        self._last = f"{done}, {speed}, {formatting.seconds(max(elapsed_s, 0.0))}"
        if elapsed_s - self._shown_s >= REFRESH_EVERY_S:
            self._shown_s = elapsed_s
            left = _time_left(self._expected - output_tokens, rate)
            self._show(f"{done}, {counts.in_flight} in flight, {speed}, {left} left")

    def _show(self, line: str) -> None:
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def _said_of_work(summary: Summary) -> str:
    """The context of a run, what it really sent and received, and what its goodput keeps to.

    What a workload is called says little of that: its 8k may be 7k on average.
    """
    manifest = summary.manifest
    work, said = manifest.workload, [context_of(manifest)]
    if work.distinct_prompts is not None:
        said.append(f"{work.distinct_prompts:,} distinct prompts in {work.requests:,} requests")
    prompts, answers = (mean_tokens(summary, metric) for metric in (PROMPTS, ANSWERS))
    if prompts is not None and answers is not None:
        said.append(f"on average {prompts:,.1f} prompt tokens and {answers:,.1f} output tokens")
    if manifest.slos:
        said.append(f"goodput by {', '.join(map(str, manifest.slos))}")
    return "; ".join(said)


def _time_left(tokens: int, rate: float) -> str:
    if rate <= 0:
        return "?"
    minutes, seconds = divmod(round(max(tokens, 0) / rate), 60)
    return f"{minutes}:{seconds:02d}"


def _header(title: str) -> Text:
    """`title`, broken after its hyphens when it is longer than the numbers below it."""
    return Text(title.replace("-", "-\n") if len(title) > _HEADER_CHARS else title)


def _are_numbers(texts: Iterable[str]) -> bool:
    return all(text[:1].isdigit() or text == formatting.NOT_MEASURED for text in texts)


def _out(console: Console | None) -> Console:
    if console is not None:
        return console
    present = Console(highlight=False)
    if not present.is_terminal:
        present.width = PIPED_COLUMNS
    return present
