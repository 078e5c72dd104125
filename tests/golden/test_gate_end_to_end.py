"""`batchmark gate` on folders on disk: one test for each exit code, and each kind of two sides."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.core.rundir import write_json
from harness.gate.attempt import RunOutcome
from harness.gate.decision import Decision
from harness.gate.duel import Duel, DuelPair, DuelSide
from harness.gate.verdict import Verdict

SAME = (1.0, 1.001, 0.999, 1.002, 1.0)
SLOWER = (1.20, 1.21, 1.20, 1.22, 1.20)
UNCLEAR = (1.02, 1.07, 1.03, 1.06, 1.01)


class Lab:
    """A working folder with run folders in it, and the program to judge them."""

    def __init__(self, folder: Path, build: Any) -> None:
        self.folder = folder
        self.build = build

    def gate(self, *words: str, **env: str) -> Result:
        return CliRunner().invoke(app, ["gate", *words], env={"GITHUB_ACTIONS": "", **env})

    def run(
        self, name: str, slower: float = 1.0, *, is_candidate: bool = False, **changes: Any
    ) -> str:
        """A run folder of 40 answers that took `slower` times as long as they do."""
        build = self.build
        records = [build.record(i, (100 * slower, 110 * slower, 120 * slower)) for i in range(40)]
        if is_candidate:
            engine = replace(
                build.manifest().engine, name="inhouse-continuous", policy="continuous"
            )
            changes["engine"] = engine
        build.folder(
            self.folder / name, build.run(records, run_id=name.replace("/", "-"), **changes)
        )
        return name

    def sides(self, ratios: Sequence[float]) -> list[str]:
        """Run folders of both sides in the folder `job`."""
        for i, ratio in enumerate(ratios):
            self.run(f"job/base-{i}", 1 + i / 10_000)
            self.run(f"job/cand-{i}", ratio, is_candidate=True)
        return ["job", "--baseline", "inhouse-static"]

    def duel(self, ratios: Sequence[float], name: str = "duel", *, is_same: bool = False) -> str:
        """The folder of a duel with a pair for each ratio."""
        engine = self.build.manifest().engine
        pairs = []
        for i, ratio in enumerate(ratios):
            runs = (f"pair-{i + 1}-A", f"pair-{i + 1}-B")
            self.run(f"{name}/{runs[0]}")
            self.run(f"{name}/{runs[1]}", ratio, is_candidate=not is_same)
            sides = [RunOutcome(run, "VALID") for run in runs]
            pairs.append(DuelPair(i + 1, 1, i, i % 2 == 0, *sides, counts=True))
        found = Duel(
            baseline=DuelSide("first", engine),
            candidate=DuelSide("second", engine),
            context="",
            factors=(),
            allowed=(),
            agreement=None,
            command=(),
            tool_version="0.1.0",
            created_utc="2030-01-01T00:00:00+00:00",
            looks=(5, 10),
            pairs=tuple(pairs),
            metrics=(),
            decision=None,
            stopped=None,
            cautions=(),
        )
        write_json(self.folder / name / "duel.json", found)
        return name


@pytest.fixture
def lab(tmp_path: Path, build: Any, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    return Lab(tmp_path, build)


def assert_ends(result: Result, code: int, *parts: str) -> None:
    assert result.exit_code == code, (result.stdout, result.stderr)
    for part in parts:
        assert part in result.stdout + result.stderr


def test_a_duel_without_a_difference_ends_with_0(lab: Lab) -> None:
    result = lab.gate(lab.duel(SAME))
    assert_ends(result, 0, "PASS: second against first", "5 pairs", "a regression of 5.0 % or more was ruled out")  # fmt: skip
    assert result.stderr == ""


def test_a_regression_ends_with_1(lab: Lab) -> None:
    result = lab.gate(lab.duel(SLOWER))
    assert_ends(result, 1, "FAIL: ", "TTFT p50: a regression above 5.0 % is established")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "there is nothing to gate"),
        (["nowhere"], "nowhere is not a run folder"),
        (["run"], "no side is the baseline"),
        (["run", "--baseline", "nobody"], "there is no baseline 'nobody'"),
        (["run", "--baseline", "inhouse-static"], "the candidate has no run"),
        (["run", "--baseline", "run", "--baseline", "nobody"], "mixes names and folders"),
        (["duel", "run"], "duel is a duel, which has both sides"),
        (["duel", "--baseline", "run"], "duel is a duel, which has both sides"),
        (["duel", "--on-inconclusive", "pass"], "choose from exit, warn, fail"),
        (["duel", "--rules", "none.toml"], "cannot read none.toml"),
        (["duel", "--allow", "everything"], "everything"),
        (["duel", "--json", "no/such/folder.json"], "cannot write"),
        (["duel", "--junit", "no/such/folder.xml"], "cannot write no/such/folder.xml"),
        (["duel", "--wrong"], "--wrong"),
        (["calibrate"], "there is no duel to calibrate with"),
        (["calibrate", "run"], "run is no duel"),
    ],
)  # fmt: skip
def test_wrong_usage_ends_with_2(lab: Lab, words: list[str], part: str) -> None:
    lab.run("run")
    lab.duel(SAME)
    assert_ends(lab.gate(*words), 2, part)


def test_an_unknown_metric_in_the_rules_ends_with_2(lab: Lab) -> None:
    Path("batchmark.toml").write_text("[gate.metrics.speed]\nmargin = 0.05\n")
    assert_ends(lab.gate(lab.duel(SAME)), 2, "names no metric", "output_tok_s")


def test_what_cannot_be_told_ends_with_3(lab: Lab) -> None:
    assert_ends(lab.gate(lab.duel(UNCLEAR)), 3, "INCONCLUSIVE: ", "cannot tell; would need about")


@pytest.mark.parametrize(("choice", "code"), [("exit", 3), ("warn", 0), ("fail", 1)])
def test_the_caller_says_what_inconclusive_means(lab: Lab, choice: str, code: int) -> None:
    assert_ends(lab.gate(lab.duel(UNCLEAR), "--on-inconclusive", choice), code, "INCONCLUSIVE")


def test_the_rules_say_what_inconclusive_means_where_the_caller_does_not(lab: Lab) -> None:
    Path("batchmark.toml").write_text("[gate]\non_inconclusive = 'warn'\n")
    assert_ends(lab.gate(lab.duel(UNCLEAR)), 0, "INCONCLUSIVE counts as a warning here")


def test_too_few_pairs_end_with_4(lab: Lab) -> None:
    assert_ends(lab.gate(lab.duel(SAME[:4])), 4, "INVALID", "4 pairs can be judged, 5 are needed")


def test_unlike_sides_end_with_4(lab: Lab) -> None:
    for i in range(5):
        lab.run(f"base/{i}")
        lab.run(f"cand/{i}", is_candidate=True, workload=lab.build.workload(name="other"))
    result = lab.gate("cand", "--baseline", "base")
    assert_ends(
        result, 4, "NOT_COMPARABLE", "workload: eight-agents (baseline) / other (candidate)"
    )


def test_a_crash_ends_with_5_and_not_with_a_verdict(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> Decision:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("harness.commands.gate.decide_sides", crash)
    assert_ends(lab.gate(lab.duel(SAME)), 5, "a fault of ours", "internal error")


def test_run_folders_of_two_engines_are_judged_unpaired(lab: Lab) -> None:
    result = lab.gate(*lab.sides(SAME))
    assert_ends(result, 0, "inhouse-continuous against inhouse-static", "unpaired, drift not controlled", "UNPAIRED_RUNS")  # fmt: skip


def test_run_folders_can_be_the_baseline(lab: Lab) -> None:
    lab.sides(SLOWER)
    base, cand = ([f"job/{side}-{i}" for i in range(5)] for side in ("base", "cand"))
    words = [word for path in base for word in ("--baseline", path)]
    assert_ends(lab.gate(*cand, *words), 1, "FAIL: ")


def saved(lab: Lab, ratios: Sequence[float]) -> list[str]:
    """A saved baseline `nightly`, and a candidate's runs in the folder `cand`."""
    for i, ratio in enumerate(ratios):
        lab.run(f"base/{i}", 1 + i / 10_000)
        lab.run(f"cand/{i}", ratio, is_candidate=True)
        lab.run(f"again/{i}", 1.001)
    paths = [f"base/{i}" for i in range(len(ratios))]
    result = CliRunner().invoke(app, ["baseline", "save", "nightly", *paths, "--baselines", "kept"])
    assert result.exit_code == 0, result.stderr
    return ["cand", "--baseline", "nightly", "--baselines", "kept"]


def test_h03_a_saved_baseline_is_judged_unpaired_and_says_of_what_and_when_it_is(lab: Lab) -> None:
    """ant-quic#291: a baseline of another version than the one that was branched from."""
    result = lab.gate(*saved(lab, SAME))
    assert "nightly is inhouse-static 0.1.0, measured 2030-01-01, " in result.stdout
    assert " days ago, saved by " in result.stdout
    assert_ends(result, 0, "PASS: inhouse-continuous against nightly", "unpaired, drift not controlled")  # fmt: skip


def test_a_saved_baseline_alone_establishes_no_failure(lab: Lab) -> None:
    words = saved(lab, SLOWER)
    assert_ends(lab.gate(*words), 3, "3 fresh runs of the baseline would say")
    reruns = [word for i in range(3) for word in ("--rerun", f"again/{i}")]
    assert_ends(lab.gate(*words, *reruns), 1, "3 reruns of the baseline agree")


def test_an_edited_baseline_is_refused(lab: Lab) -> None:
    words = saved(lab, SAME)
    file = next(Path("kept").rglob("requests.jsonl"))
    file.write_text(file.read_text().replace("100", "101", 1))
    assert_ends(lab.gate(*words), 2, "is not as it was saved")


def test_one_run_of_a_side_is_no_verdict(lab: Lab) -> None:
    lab.sides(SAME[:1])
    assert_ends(lab.gate("job", "--baseline", "inhouse-static"), 4, "are needed")


def test_all_files_are_written_whatever_the_verdict(lab: Lab) -> None:
    words = ("--json", "gate.json", "--junit", "gate.xml", "--markdown", "gate.md")
    for name, ratios, verdict in (("a", SAME, "PASS"), ("b", SLOWER, "FAIL"), ("c", UNCLEAR, "INCONCLUSIVE"), ("d", SAME[:2], "INVALID")):  # fmt: skip
        lab.gate(lab.duel(ratios, name), *words)
        assert json.loads(Path("gate.json").read_text())["verdict"] == Verdict(verdict)
        assert ET.fromstring(Path("gate.xml").read_text()).tag == "testsuite"
        assert f"### batchmark gate: {verdict}\n" in Path("gate.md").read_text()


def test_annotations_are_written_on_github_alone(lab: Lab) -> None:
    duel = lab.duel(SLOWER)
    assert "::error" not in lab.gate(duel).stdout
    result = lab.gate(duel, GITHUB_ACTIONS="true")
    assert "\n::error title=batchmark gate%3A FAIL::second against first: " in result.stdout


def test_an_edited_duel_file_is_refused(lab: Lab) -> None:
    file = lab.folder / lab.duel(SAME) / "duel.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": "x"'))
    assert_ends(lab.gate("duel"), 2, "cannot read duel/duel.json")


def test_calibrating_prints_rules_that_a_gate_then_reads(lab: Lab) -> None:
    ratios = [1.0, 1.01, 0.99, 1.02, 0.98] * 2
    result = lab.gate("calibrate", lab.duel(ratios, is_same=True))
    assert_ends(result, 0)
    assert set(tomllib.loads(result.stdout)["gate"]) == {"alpha", "pairs", "metrics"}
    assert "Margin to use" in result.stderr
    Path("batchmark.toml").write_text(result.stdout)
    assert_ends(lab.gate(lab.duel(SAME, "other")), 0, "PASS")


def test_calibrating_with_another_engine_is_refused(lab: Lab) -> None:
    assert_ends(lab.gate("calibrate", lab.duel(SAME * 2)), 2, "these are no A/A pairs")


def test_help_is_that_of_the_command_that_decides() -> None:
    command = [sys.executable, "-m", "harness.cli", "gate", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--on-inconclusive" in result.stdout
    assert "batchmark gate calibrate DUEL..." in result.stdout
