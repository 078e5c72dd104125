"""`--slo`, on finished runs: they are judged again without being measured again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.core.engine import EngineSpec

STATIC, CONTINUOUS = "job/inhouse-static", "job/inhouse-continuous"


@pytest.fixture
def judge(program: Any, build: Any) -> Any:
    """The program, with two runs of 12 requests whose TTFT goes from 100 to 1200 ms."""
    (program.folder / "job").mkdir()
    records = [build.record(i, (100 * (i + 1), 100 * (i + 1) + 20)) for i in range(12)]
    other = EngineSpec("inhouse", "inhouse-continuous", "smollm2", policy="continuous")
    build.folder(program.folder / STATIC, build.run(records))
    build.folder(program.folder / CONTINUOUS, build.run(records, engine=other))
    return program


def row(text: str, title: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(title)), "")


def test_show_judges_a_run_by_the_limits_that_are_named(judge: Any) -> None:
    plain = judge("show", STATIC)
    half = judge("show", STATIC, "--slo", "ttft=600ms", "--slo", "e2e=1min")
    assert (plain.returncode, half.returncode) == (0, 0), half.stderr
    assert not row(plain.stdout, "goodput")
    assert "50 %" in row(half.stdout, "goodput ")
    assert "goodput by e2e=60s, ttft=600ms" in half.stdout


def test_both_sides_are_compared_by_the_same_limits(judge: Any) -> None:
    words = ("--baseline", STATIC, "--slo", "ttft=300ms", "--json")
    result = judge("compare", CONTINUOUS, *words)
    assert result.returncode == 0, result.stderr
    rows = {r["metric"]: r for r in json.loads(result.stdout)["comparison"]["rows"]}
    assert rows["goodput_frac"]["baseline"] == rows["goodput_frac"]["candidate"] == 0.25
    assert rows["goodput_req_s"]["ratio"] == 1.0


def test_a_report_says_by_what_its_goodput_is_judged(judge: Any) -> None:
    result = judge("report", STATIC, "--slo", "tpot=2s", "--out", "slo.html")
    assert result.returncode == 0, result.stderr
    assert "tpot=2s" in (judge.folder / "slo.html").read_text()


@pytest.mark.parametrize(
    "command",
    [
        ("show", STATIC),
        ("report", STATIC),
        ("compare", STATIC, "--baseline", STATIC),
        ("run", "tiny.toml"),
    ],
)
def test_a_limit_that_is_none_is_a_usage_error(program: Any, command: tuple[str, ...]) -> None:
    result = program(*command, "--slo", "ttft=fast")
    assert result.returncode == 2
    assert result.stderr.startswith("error: --slo is 'ttft=fast'; write latency=limit")


def test_a_run_keeps_the_limits_that_it_was_measured_with(program: Any) -> None:
    result = program.run_tiny("--policy", "continuous", "--slo", "e2e=10min", out="mine")
    assert program.measured(result), result.stderr
    (folder,) = (program.folder / "mine").glob("*/manifest.json")
    shown = program("show", str(folder.parent))
    assert "goodput by e2e=600s" in shown.stdout
    assert "100 %" in row(shown.stdout, "goodput ")
