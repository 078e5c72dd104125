"""Histories of runs: what belongs together, and what a change says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.analyzer.change_points import LEAST_POINTS
from harness.analyzer.run_index import IndexedRun
from harness.analyzer.summary import Validity
from harness.core.engine import EngineSpec
from harness.core.imported import DEFINITIONS
from harness.core.manifest import RunStatus
from harness.gate.index_table import broken_table, change_table, index_table
from harness.gate.trends import MOST_RUNS, Trend, changes, stretches, subjects, trends

RATE = "output_tok_s"


def run(build: Any, number: int, rate: float | None, **changes: Any) -> IndexedRun:
    """The run of that number; `validity` is VALID unless given."""
    validity = changes.pop("validity", Validity.VALID)
    created = f"2030-01-01T{number // 60:02}:{number % 60:02}:00+00:00"
    manifest = build.manifest(created_utc=created, run_id=f"run-{number}", **changes)
    values = {} if rate is None else {RATE: rate}
    return IndexedRun(f"job/{number}", manifest, validity, values)


def stepped(build: Any, count: int = 40, at: int = 25, by: float = 1.1) -> list[IndexedRun]:
    """Runs, the latest first; from `at` on they are faster, and of another version."""
    noise = np.random.default_rng(3).normal(0, 0.01, count)
    facts = build.manifest().facts
    versions = (replace(facts, version="1.0"), replace(facts, version="2.0"))
    return [
        run(build, i, 100 * (1 + float(noise[i])) * (by if i >= at else 1), facts=versions[i >= at])
        for i in reversed(range(count))
    ]


def only(runs: list[IndexedRun]) -> Trend:
    (trend,) = trends(runs)
    return trend


def test_a_change_names_its_run_its_size_and_what_else_changed(build: Any) -> None:
    trend = only(stepped(build))
    (change,) = changes(trend, RATE)

    assert change.after.runs[0].name == "job/25"
    assert change.before.runs[-1].name == "job/24"
    assert change.ratio is not None
    assert abs(change.ratio - 1.1) < 0.01
    assert change.unlike == ("engine version: 1.0 / 2.0",)
    assert [len(part.runs) for part in stretches(trend, RATE)] == [25, 15]


def test_the_table_of_changes_says_it_in_words(build: Any) -> None:
    table = change_table(list(changes(only(stepped(build)), RATE)))
    ((*_, size, p, unlike),) = table.rows

    assert size.text.startswith("+")
    assert size.text.endswith(" %")
    assert size.tone.value == "good"
    assert p.text == "0.005"
    assert unlike.text == "engine version: 1.0 / 2.0"

    fell = list(changes(only(stepped(build, by=0.9)), RATE))
    assert change_table(fell).rows[0][-3].tone.value == "bad"


def test_fewer_runs_than_it_takes_are_one_stretch(build: Any) -> None:
    trend = only(stepped(build, LEAST_POINTS - 1, at=10))
    (whole,) = stretches(trend, RATE)

    assert whole.p is None
    assert list(changes(trend, RATE)) == []


def test_runs_that_do_not_count_are_in_no_series(build: Any) -> None:
    runs = stepped(build, 10, at=99)
    runs += [
        run(build, 50, 900.0, validity=Validity.INVALID),
        run(build, 51, 900.0, status=RunStatus.INTERRUPTED),
        run(build, 52, 900.0, validity=None),
        run(build, 53, None),
    ]
    trend = only(runs)

    assert len(trend.runs) == 14
    assert len(trend.series(RATE)) == 10
    assert max(one.values[RATE] for one in trend.series(RATE)) < 110
    assert stretches(trend, "ttft_s_p50") == ()


def test_a_history_is_of_one_engine_model_workload_and_machine(build: Any) -> None:
    machine = replace(build.manifest().machine, cores=64)
    model = replace(build.manifest().facts, model="another")
    runs = [
        run(build, 1, 1.0),
        run(build, 2, 1.0, engine=EngineSpec("vllm", "vllm", "smollm2")),
        run(build, 3, 1.0, machine=machine),
        run(build, 4, 1.0, facts=model),
        run(build, 5, 1.0, workload=build.workload(title="chat x1 backlog")),
        run(build, 6, 1.0, clock="virtual"),
        run(build, 7, 1.0, labels={DEFINITIONS: "GuideLLM"}),
        run(build, 8, 1.0),
    ]
    found = trends(runs)

    assert [len(trend.runs) for trend in found] == [2, 1, 1, 1, 1, 1, 1]
    about = subjects(runs)
    assert about[5].hardware.endswith(", simulated")
    assert about[6].engine == "inhouse-static, as GuideLLM counts"


def test_workloads_of_one_title_and_other_lengths_are_kept_apart(build: Any) -> None:
    other = build.workload(shape_digest="7" * 64)
    runs = [run(build, 1, 1.0), run(build, 2, 1.0, workload=other)]

    assert len(trends(runs)) == 2
    assert [subject.workload.rpartition(" ")[2] for subject in subjects(runs)] == [
        "[55555555]",
        "[77777777]",
    ]


def test_of_a_long_history_the_latest_runs_are_kept(build: Any) -> None:
    runs = [run(build, i, 1.0) for i in reversed(range(MOST_RUNS + 5))]
    trend = only(runs)

    assert len(trend.runs) == MOST_RUNS
    assert trend.runs[0].name == "job/5"
    assert trend.runs[-1].name == f"job/{MOST_RUNS + 4}"


def test_values_that_fall_to_zero_change_without_a_ratio(build: Any) -> None:
    runs = [run(build, i, float(i >= 15)) for i in reversed(range(30))]
    (change,) = changes(only(runs), RATE)

    assert change.ratio is None
    assert change_table([change]).rows[0][-3].text == "from 0"


def test_a_row_of_the_index_holds_the_run_and_says_why_a_number_is_missing(build: Any) -> None:
    good = run(build, 1, 123.456)
    bare = replace(run(build, 2, None, validity=None), doubt="it has no summary.json")
    killed = run(build, 3, None, validity=None, status=RunStatus.RUNNING)
    failed = run(
        build, 4, 1.0, status=RunStatus.FAILED, validity=Validity.INVALID, failure="it died"
    )
    runs = [good, bare, killed, failed]
    table = index_table(runs, subjects(runs), {"job/1": "job/report.html"})
    heads = [column.title for column in table.columns]
    rows = [dict(zip(heads, row, strict=True)) for row in table.rows]

    assert rows[0]["Run"].link == "job/report.html"
    assert (rows[0]["output tok/s"].text, rows[0]["output tok/s"].exact) == ("123 tok/s", 123.456)
    assert rows[0]["Started (UTC)"].text == "2030-01-01 00:01"
    assert rows[1]["output tok/s"].text == "\u2013\u00b2"
    assert table.notes[1] == "\u00b2 it has no summary.json"
    assert [row["Verdict"].text for row in rows] == [
        "VALID",
        "complete, no numbers",
        "running",
        "INVALID, failed",
    ]
    assert rows[3]["Verdict"].note == "it died"
    assert broken_table(()).rows == ()
