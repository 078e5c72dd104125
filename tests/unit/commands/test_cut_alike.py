"""Run folders that are gated or compared leave out one beginning, the same on both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands.gate_sides import Sides, decide_sides, read_pairs
from harness.commands.judging import compare_all, compare_reported, read_reported
from harness.core.cautions import Code
from harness.core.duel_plan import is_baseline_first
from harness.core.rundir import write_json
from harness.core.workload import Load, LoadKind
from harness.gate.attempt import RunOutcome
from harness.gate.baseline import Act
from harness.gate.baseline_store import save_baseline
from harness.gate.decision import Decision
from harness.gate.duel import Duel, DuelPair, DuelSide
from harness.gate.rules import GateRules
from harness.gate.verdict import Verdict
from reports.page import ReportedRun

RULES = GateRules(pairs=(5,))


class Lab:
    """Run folders of two sides, of an engine and its like."""

    def __init__(self, folder: Path, build: Any, settling: Any) -> None:
        self.folder, self.build, self.settling = folder, build, settling

    def run(self, name: str, slow: int = 0, **changes: Any) -> Path:
        if "cand" in name:
            changes["engine"] = replace(self.build.manifest().engine, name="inhouse-new")
        made = self.settling(slow, 120, run_id=name, **changes)
        return self.build.folder(self.folder / name, made)

    def read(self, name: str, slow: int = 0, **changes: Any) -> ReportedRun:
        return read_reported(self.run(name, slow, **changes))

    def duel(self, slow: int, name: str = "duel", pairs_run: int = 5, **changes: Any) -> Path:
        engine, pairs = self.build.manifest().engine, []
        for i in range(1, pairs_run + 1):
            names = (f"base-{i}", f"cand-{i}")
            self.run(f"{name}/{names[0]}", **changes)
            self.run(f"{name}/{names[1]}", slow, **changes)
            sides = [RunOutcome(run, "VALID") for run in names]
            pairs.append(DuelPair(i, 1, i, is_baseline_first(i), *sides, counts=True))
        found = Duel(
            baseline=DuelSide("first", engine),
            candidate=DuelSide("second", engine),
            context="",
            factors=(),
            allowed=(),
            command=(),
            tool_version="0.1.0",
            created_utc="2030-01-01T00:00:00+00:00",
            looks=(5,),
            pairs=tuple(pairs),
            metrics=(),
            decision=None,
            stopped=None,
            agreement=None,
            cautions=(),
        )
        write_json(self.folder / name / "duel.json", found)
        return self.folder / name

    def gate(self, *runs: Path, baseline: tuple[str, ...] = ()) -> Decision:
        return decide_sides(Sides(runs, baseline, (), self.folder / "store", ()), RULES)


@pytest.fixture
def lab(tmp_path: Path, build: Any, settling: Any) -> Lab:
    return Lab(tmp_path, build, settling)


def said(found: Any) -> list[str]:
    codes = (Code.BEGINNING_LEFT_OUT, Code.BEGINNING_KEPT)
    return [doubt.message for doubt in found.cautions if doubt.code in codes]


def assert_alike(found: Decision) -> None:
    assert found.verdict is Verdict.PASS, found.reasons
    assert said(found) == ["latencies and rates leave out 40 of 120 requests: the first 4.0 s"]
    assert all(m.evidence is None or m.evidence.d == pytest.approx(0) for m in found.metrics)


def test_the_pairs_of_a_duel_are_cut_alike(lab: Lab) -> None:
    assert_alike(lab.gate(lab.duel(slow=40)))


def test_each_load_of_several_duels_has_a_cut_of_its_own(lab: Lab) -> None:
    other = Load(LoadKind.CONSTANT, rate_rps=9.0)
    duels = [lab.duel(40, pairs_run=1), lab.duel(10, "other", pairs_run=1, load=other)]

    runs = [of.pair for of in read_pairs(duels)]
    cuts = [{pair.baseline.cut_s, pair.candidate.cut_s} for pair in runs]
    assert cuts == [{4.0}, {1.0}]


def test_run_folders_of_both_sides_are_cut_alike(lab: Lab) -> None:
    for i in range(5):
        lab.run(f"job/base-{i}")
        lab.run(f"job/cand-{i}", 40 if i == 3 else 0)

    assert_alike(lab.gate(lab.folder / "job", baseline=("inhouse-static",)))


def test_a_saved_baseline_is_cut_like_the_candidate_of_its_raw_records(lab: Lab) -> None:
    paths = [lab.run(f"base-{i}") for i in range(5)]
    save_baseline(lab.folder / "store", "nightly", paths, Act("2030-01-01", "Ada", ""), "0.1.0")
    for i in range(5):
        lab.run(f"job/cand-{i}", 40)

    assert_alike(lab.gate(lab.folder / "job", baseline=("nightly",)))


def test_all_engines_of_one_comparison_have_one_cut(lab: Lab) -> None:
    runs = [lab.read("base", 10), lab.read("cand-1"), lab.read("other", 40)]
    third = replace(runs[2].folder.manifest.engine, name="inhouse-third")
    folder = replace(runs[2].folder, manifest=replace(runs[2].folder.manifest, engine=third))
    summary = replace(runs[2].summary, manifest=folder.manifest)
    tables = compare_all([*runs[:2], ReportedRun(folder, summary)], "inhouse-static", lab.folder)

    assert [table.candidate_name for table in tables] == ["inhouse-new", "inhouse-third"]
    for table in tables:
        assert said(table) == ["latencies and rates leave out 40 of 120 requests: the first 4.0 s"]
        longest = next(row for row in table.rows if row.metric == "ttft_s_max")
        assert longest.baseline == longest.candidate == pytest.approx(0.010)


def test_a_comparison_of_settled_runs_says_nothing_of_a_cut(lab: Lab) -> None:
    (table,) = compare_all([lab.read("base"), lab.read("cand")], "inhouse-static", lab.folder)

    assert said(table) == []


def test_a_result_of_another_tool_cannot_be_cut_and_the_comparison_says_so(lab: Lab) -> None:
    ours = lab.read("cand", 40)
    theirs = lab.read("base", labels={"definitions": "vllm bench"})
    table = compare_reported("a", [theirs], "b", [ours], paired=True, allowed=("definitions",))

    assert said(table) == ["the first 4.0 s of cand, not settled, stay in: base cannot be cut, a result of another tool"]  # fmt: skip
    longest = next(row for row in table.rows if row.metric == "ttft_s_max")
    assert longest.candidate == pytest.approx(0.040)
