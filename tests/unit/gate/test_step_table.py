"""What the engine's steps did, beside each other."""

from __future__ import annotations

from typing import Any

from harness.analyzer.frame import frame_of
from harness.analyzer.steps import step_totals
from harness.core.engine import EngineSpec
from harness.core.manifest import Ceilings
from harness.gate.cells import Table
from harness.gate.step_table import step_table

CEILINGS = Ceilings("cpu", 2, 1e9, {"bfloat16": 1e12}, "2030-01-01T00:00:00+00:00")
WORK = {"read_bytes": 4_000_000, "flops": 1_000_000_000, "outside_ns": 2_000_000}


def row_of(table: Table, name: str) -> tuple[str, ...]:
    return next(tuple(c.text for c in row) for row in table.rows if row[0].text == name)


def names_of(table: Table) -> list[str]:
    return [row[0].text for row in table.rows]


def test_padding_stands_beside_what_the_simulator_says(build: Any) -> None:
    steps = [build.step(0, 0, running=2, padded=2), build.step(1, 10, running=4)]
    summary = build.summary([build.record()], steps)
    totals = step_totals(frame_of(build.run([], [build.step(running=3, padded=1)])).steps)
    assert totals is not None
    table = step_table([summary], {"inhouse-static": totals})
    assert row_of(table, "Padding") == ("Padding", "25.0 %")
    assert row_of(table, "Padding, simulated") == ("Padding, simulated", "25.0 %")
    assert "Padding, simulated" not in names_of(step_table([summary], {}))


def test_a_run_without_a_step_log_says_so_in_every_row(build: Any) -> None:
    table = step_table([build.summary([build.record()])], {})
    assert all(row[1].text.startswith("not measured") for row in table.rows)
    assert table.notes == ("¹ the engine wrote no step log",)


def test_a_metric_that_no_step_log_tells_of_has_no_row(build: Any) -> None:
    silent = build.summary([build.record()], [build.step()])
    table = step_table([silent], {})
    assert "Time outside the model" not in names_of(table)
    assert "Memory bandwidth used (MBU)" not in names_of(table)
    assert "Saturated steps" in names_of(table)


def test_without_ceilings_the_row_says_how_to_get_them(build: Any) -> None:
    table = step_table([build.summary([build.record()], [build.step(**WORK)])], {})
    assert row_of(table, "Memory bandwidth used (MBU)")[1].startswith("not measured")
    assert any("`batchmark doctor`" in note for note in table.notes)


def test_runs_with_and_without_what_a_row_needs_stand_beside_each_other(build: Any) -> None:
    other = EngineSpec("openvino", "openvino", "m")
    knows = build.summary([build.record()], [build.step(**WORK)], ceilings=CEILINGS)
    silent = build.summary([build.record()], [build.step()], engine=other)
    table = step_table([knows, silent], {})
    row = row_of(table, "Memory bandwidth used (MBU)")
    assert row[:2] == ("Memory bandwidth used (MBU)", "50.0 %")
    assert row[2].startswith("not measured")
    assert row_of(table, "Outside the model")[1] == "2.00 ms (20.0 %)"
