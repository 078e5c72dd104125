from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import console
from harness.analyzer.frame import frame_of
from harness.analyzer.steps import step_totals
from harness.core.cautions import Code, caution
from harness.core.engine import EngineSpec
from harness.core.manifest import Counts
from harness.core.plan import RunPlan
from harness.core.workload import Load, LoadKind
from harness.gate.comparison import compare
from harness.gate.comparison_table import comparison_table
from harness.gate.tables import metric_table

COUNTS = Counts(planned=32, sent=16, ok=8)


def terminal(width: int = 80) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, highlight=False
    )


def shown(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def two_sides(build: Any) -> Any:
    static = build.summary([build.record()], [build.step()])
    spec = EngineSpec("inhouse", "inhouse-continuous", "smollm2", policy="continuous")
    fast = build.summary([build.record(events_ms=(50, 55))], [build.step()], engine=spec)
    return static, fast, compare("inhouse-static", [static], spec.name, [fast], paired=True)


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("cannot read [red]x[/red]:\n  Traceback " + "y" * 300)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: cannot read [red]x[/red]: Traceback {'y' * 300}\n"


def test_a_line_is_neither_wrapped_nor_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_line("[bold]" + "x" * 300 + " :smile:")
    assert capsys.readouterr().out == "[bold]" + "x" * 300 + " :smile:\n"


def test_no_line_of_a_table_is_wider_than_the_terminal(build: Any) -> None:
    static, _, table = two_sides(build)
    out = terminal(80)
    for drawn in (
        comparison_table(table),
        metric_table([static] * 3),
    ):
        console.draw(replace(drawn, notes=()), out)
    assert max(len(line) for line in shown(out).splitlines()) <= 80


def test_a_piped_table_keeps_each_row_on_one_line(
    build: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_runs([build.manifest(run_id="20300101-inhouse-continuous-with-a-long-name-1")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:3] == [
        "20300101-inhouse-continuous-with-a-long-name-1",
        "complete",
        "inhouse-static",
    ]


def test_a_summary_shows_validity_metrics_and_reasons(build: Any) -> None:
    out = terminal(120)
    console.print_summaries([build.summary([build.record(), build.failed(1)])], out)
    said = shown(out)
    for part in ("SmolLM2-135M bf16", "1 of 2 ok, 1 failed", "output tok/s", "368"):
        assert part in said


def test_a_summary_says_how_many_of_its_prompts_were_distinct_where_it_knows(build: Any) -> None:
    known, unknown = terminal(120), terminal(120)
    work = build.workload(distinct_prompts=4)
    console.print_summaries([build.summary([build.record()], workload=work)], known)
    console.print_summaries([build.summary([build.record()])], unknown)
    assert "eight-agents x4 backlog; 4 distinct prompts in 32 requests; on" in shown(known)
    assert "distinct" not in shown(unknown)


def test_a_comparison_ends_with_its_ratio_as_a_whole_phrase(build: Any) -> None:
    out = terminal()
    console.print_comparison(two_sides(build)[2], out)
    assert (
        "inhouse-continuous: 2.00x output tok/s vs inhouse-static "
        "(SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog)\n" in shown(out)
    )


def test_each_caution_is_printed_once_with_its_remedy() -> None:
    out, doubt = terminal(), caution(Code.NO_STEP_LOG)
    console.print_cautions([doubt, doubt], out)
    assert shown(out) == f"caution NO_STEP_LOG: {doubt.message}; {doubt.remedy}\n"


def test_an_empty_table_prints_nothing() -> None:
    out = terminal()
    console.print_runs([], out)
    console.print_cautions([], out)
    assert shown(out) == ""


def test_engine_steps_are_printed_only_where_steps_were_logged(build: Any) -> None:
    out = terminal()
    console.print_steps([build.summary([build.record()])], {}, out)
    assert shown(out) == ""
    summary = build.summary([build.record()], [build.step(running=3, padded=1)])
    totals = step_totals(frame_of(build.run([], [build.step()])).steps)
    assert totals is not None
    console.print_steps([summary], {"inhouse-static": totals}, out)
    assert "25.0 %" in shown(out)


def test_a_plan_says_its_seed_before_anything_starts() -> None:
    spec = EngineSpec("inhouse", "inhouse-static", "smollm2", policy="static")
    load = Load(LoadKind.BACKLOG)
    plan = RunPlan("eight-agents", 4, load, 77, (spec,), 3, 8, None, Path("runs/x"), None)
    out = terminal()
    console.print_plan(plan, out)
    assert "eight-agents x4 backlog, seed 77: 3 runs of inhouse-static\n" in shown(out)
    assert "no ratio" in shown(out)


def test_a_simulated_ratio_names_its_baseline_and_its_terms() -> None:
    out = terminal(100)
    sides = {name: {"steps": 8, "elapsed_ms": 40.0, "padding_share": None} for name in ("a", "b")}
    console.print_simulation(sides, "b", 1.5, "eight-agents backlog, 8 slots, virtual time", out)
    assert (
        "1.500x output tok/s, b vs static (eight-agents backlog, 8 slots, virtual time)"
        in shown(out)
    )
    assert "not measured" in shown(out)


def test_progress_off_a_terminal_is_only_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    with console.RunProgress("inhouse-static", 3060) as progress:
        progress.stage("starting")
        progress.update(COUNTS, 800, 3.0)
        progress.update(replace(COUNTS, sent=32, ok=31, failed=1), 3060, 35.4)
    assert capsys.readouterr().out == (
        "inhouse-static: 31 of 32 done, 1 failed, 86.4 tok/s, 35.4 s\n"
    )


def test_progress_on_a_terminal_shows_what_is_left() -> None:
    out = terminal(120)
    with console.RunProgress("inhouse-static", 3060, out) as progress:
        progress.update(COUNTS, 300, 3.0)
    assert "8 in flight, 100 tok/s, 0:28 left" in shown(out)


def test_progress_is_drawn_at_most_four_times_a_second_of_the_run() -> None:
    out = terminal(120)
    with console.RunProgress("inhouse-static", 3060, out) as progress:
        for i in range(101):
            progress.update(replace(COUNTS, ok=i), i, i / 100)
    assert sum(f": {i} of 32 done" in shown(out) for i in range(100)) <= 5


def test_progress_that_never_began_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with console.RunProgress("inhouse-static", 3060) as progress:
        progress.stage("starting")
    assert capsys.readouterr().out == ""


def test_a_failure_while_measuring_still_leaves_the_last_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure_and_fail() -> None:
        with console.RunProgress("static", 100) as progress:
            progress.update(COUNTS, 0, 0.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_and_fail()
    assert capsys.readouterr().out == "static: 8 of 32 done, 0 failed, 0 tok/s, 0 s\n"
