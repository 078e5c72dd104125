"""One table for all that was compared to one baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.gate.against_table import against_table
from harness.gate.comparison import ComparisonTable, compare


def compared(
    build: Any, name: str, *makespans_ms: float, baseline: str = "vllm"
) -> ComparisonTable:
    """Runs of ten tokens of the engine `name` against ones of the baseline, which take a second."""

    def runs(engine: str, times_ms: tuple[float, ...]) -> list[Any]:
        spec = replace(build.manifest().engine, kind=engine, name=engine)
        return [
            build.summary([build.record(0, [ms * (i + 1) / 10 for i in range(10)])], engine=spec)
            for ms in times_ms
        ]

    base = tuple(1000 + i for i, _ in enumerate(makespans_ms))
    return compare(baseline, runs(baseline, base), name, runs(name, makespans_ms), paired=True)


def texts(*tables: ComparisonTable) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in against_table(tables).rows}


def test_every_candidate_stands_beside_the_one_baseline(build: Any) -> None:
    tables = [compared(build, "tgi", 2000), compared(build, "sglang", 500)]
    table = against_table(tables)

    assert table.title == f"Compared to vllm ({tables[0].context})"
    assert [column.title for column in table.columns] == [
        "Metric", "vllm (baseline)", "tgi", "sglang",
    ]  # fmt: skip
    assert texts(*tables)["output tok/s"] == [
        "10.0 tok/s",
        "5.00 tok/s, 0.50x",
        "20.0 tok/s, 2.00x",
    ]


def test_a_ratio_has_its_interval_where_there_are_runs_enough(build: Any) -> None:
    (_, cell) = texts(compared(build, "tgi", 2000, 2010, 2020))["output tok/s"]

    assert cell.startswith("4.98 tok/s, 0.4980x (0.49")
    assert " to 0." in cell


def test_a_value_that_one_side_lacks_is_told_with_its_reason_and_a_metric_of_no_side_left_out(
    build: Any,
) -> None:
    one = compared(build, "tgi", 2000)
    rows = tuple(
        replace(row, candidate=None, ratio=None, reason="candidate: nothing came back")
        if row.metric == "output_tok_s"
        else row
        for row in one.rows
    )
    table = against_table([replace(one, rows=rows), compared(build, "sglang", 500)])
    shown = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}

    assert shown["output tok/s"] == ["10.0 tok/s", "not measured¹", "20.0 tok/s, 2.00x"]
    assert table.notes == ("¹ candidate: nothing came back",)
    # One request gives no percentile, and no engine here logs its steps.
    assert set(shown) == {"output tok/s"}


def test_two_baselines_are_no_one_table(build: Any) -> None:
    tables = [compared(build, "tgi", 2000), compared(build, "tgi", 2000, baseline="sglang")]

    with pytest.raises(ValueError, match=r"have 2: \['sglang', 'vllm'\]"):
        against_table(tables)
