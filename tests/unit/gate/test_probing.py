"""How a probe is answered, and what a search comes to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Check, CheckVerdict, MetricValue, Summary
from harness.core.jsonable import from_json, to_json
from harness.core.load_points import Axis
from harness.core.manifest import RunStatus
from harness.core.objectives import parse_objectives
from harness.core.workload import Load, LoadKind
from harness.gate.attempt import Attempt
from harness.gate.capacity import Answer, Probe, Search, Tried, bracket
from harness.gate.capacity_table import answer_of, probe_table
from harness.gate.probing import Capacity, ProbeResult, judge_probe, why_ended

RATE = Load(LoadKind.CONSTANT, rate_rps=10.0)
OBJECTIVES = parse_objectives(["ttft_p90=500ms"], None)
MET, NOT_MET, UNRESOLVED = Answer.MET, Answer.NOT_MET, Answer.UNRESOLVED


def judged(
    build: Any,
    ttft_ms: float = 100,
    verdicts: dict[str, CheckVerdict] | None = None,
    **changes: Any,
) -> ProbeResult:
    """The answer of a run of 100 requests whose checks pass, but for those given."""
    records = [
        build.record(i, [100 * i + ttft_ms, 100 * i + ttft_ms + 10], due_ms=100 * i)
        for i in range(100)
    ]
    run = build.run(records, load=RATE, **changes)
    plain: Summary = build.summary(records, load=RATE, **changes)
    given = verdicts or {}
    checks = tuple(
        Check(c.id, c.title, f"seen by {c.id}", c.limit, given.get(c.id, CheckVerdict.PASS))
        for c in plain.checks
    )
    attempt = Attempt("01-rate-10", run, replace(plain, checks=checks))
    return judge_probe(Probe(10, 0), 7, attempt, OBJECTIVES)


def test_a_sound_run_within_the_limits_met(build: Any) -> None:
    result = judged(build)

    assert (result.answer, result.why) == (MET, "")
    assert result.tried == Tried(10, MET)
    assert result.seed == 7


@pytest.mark.parametrize("cut_s", [0.0, 3.0])
def test_a_probe_is_held_to_limits_with_every_request_that_was_due(
    settling: Any, cut_s: float
) -> None:
    """It is held against no other run, so that no beginning has to be left out of two alike."""
    run = settling(30, 120)
    attempt = Attempt("01-rate-10", run, summarize(run, cut_s))
    (objective,) = parse_objectives(["ttft_p90=20ms"], None)
    result = judge_probe(Probe(10, 0), 7, attempt, [objective])

    assert (result.findings[0].met, result.findings[0].due) == (90, 120)
    assert result.answer is not MET


def test_a_sound_run_beyond_the_limits_did_not_and_says_by_how_much(build: Any) -> None:
    result = judged(build, ttft_ms=900)

    assert result.answer is NOT_MET
    assert "ttft_p90=500ms met by 0.0 % (0.0 % to 3.7 %), 90.0 % needed" in result.why


@pytest.mark.parametrize("check", ["V01", "V02", "V06", "V08", "V12", "V16"])
@pytest.mark.parametrize("ttft_ms", [100, 900])
def test_a_run_whose_measuring_was_at_fault_says_nothing(
    build: Any, check: str, ttft_ms: float
) -> None:
    result = judged(build, ttft_ms, {check: CheckVerdict.INVALID, "V13": CheckVerdict.WARN})

    assert result.answer is UNRESOLVED
    assert f"{check} " in result.why


def test_an_engine_that_did_not_keep_up_did_not_meet_however_short_its_latency(build: Any) -> None:
    result = judged(build, 100, {"V13": CheckVerdict.WARN, "V04": CheckVerdict.INVALID})

    assert (result.answer, result.why) == (NOT_MET, "seen by V13")


def test_an_engine_that_refused_requests_did_not_meet(build: Any) -> None:
    assert judged(build, 100, {"V15": CheckVerdict.INVALID}).answer is NOT_MET


@pytest.mark.parametrize("check", ["V03", "V04"])
def test_a_run_that_is_too_short_can_miss_but_not_meet(build: Any, check: str) -> None:
    assert judged(build, 100, {check: CheckVerdict.INVALID}).answer is UNRESOLVED
    assert judged(build, 900, {check: CheckVerdict.INVALID}).answer is NOT_MET


def test_an_engine_that_died_while_it_was_measured_did_not_meet(build: Any) -> None:
    result = judged(build, status=RunStatus.FAILED, failure="it ended with code 9")

    assert result.answer is NOT_MET
    assert result.why == "the engine failed: it ended with code 9"
    assert result.outcome == "FAILED"


ENDS = [
    ([(1, MET), (1.05, NOT_MET)], ""),
    ([(1, MET), (2, NOT_MET)], "cut short"),
    ([(1, NOT_MET), (0.5, NOT_MET), (0.25, NOT_MET)], "no load met"),
    ([(1, MET), (4, MET)], "every load met"),
    ([(1, MET), (1.05, UNRESOLVED), (1.05, UNRESOLVED), (1.12, NOT_MET)], "stayed unresolved"),
    ([(1, MET)] * 5, "after 5 probes"),
]


@pytest.mark.parametrize(("answers", "part"), ENDS)
def test_why_a_search_ended_is_said(answers: list[tuple[float, Answer]], part: str) -> None:
    search = Search(1, most=4, tries=2, probes=5, reach=2)

    said = why_ended([Tried(*answer) for answer in answers], search)

    assert part in said
    assert bool(said) == bool(part)


def capacity(build: Any, most: float | None = None) -> Capacity:
    search = Search(1, most=most)
    probes = (judged(build), replace(judged(build, 900), level=20, attempt=1))
    tried = [probe.tried for probe in probes]
    return Capacity(
        axis=Axis.RATE,
        engine="inhouse-continuous",
        context="SmolLM2 bf16, 2-core <AMD>, eight-agents",
        objectives=tuple(objective.title for objective in OBJECTIVES),
        search=search,
        bracket=bracket(tried, search),
        ended=why_ended(tried, search),
        probes=probes,
        command=("batchmark", "capacity", "eight-agents", "--seed", "7"),
        tool_version="1",
        created_utc="now",
        cautions=(),
    )


def test_it_is_stored_and_read_again(build: Any) -> None:
    made = capacity(build)

    assert from_json(Capacity, json.loads(json.dumps(to_json(made), allow_nan=False))) == made


def test_the_answer_names_both_ends_and_what_they_are_of(build: Any) -> None:
    said = answer_of(capacity(build))

    assert said.startswith("10 req/s met, 20 req/s did not: inhouse-continuous with ttft_p90=500ms")
    assert "eight-agents" in said
    assert said.endswith("the search was cut short; repeat it")


def test_every_probe_is_a_row_with_its_share_and_interval(build: Any) -> None:
    rows = [[cell.text for cell in row] for row in probe_table(capacity(build)).rows]

    assert [row[0] for row in rows] == ["10 req/s", "20 req/s, try 2"]
    assert rows[0][1:4] == ["met", "100", "100.0 % (96.3 to 100.0 %)"]
    assert rows[1][1:4] == ["not met", "100", "0.0 % (0.0 to 3.7 %)"]


def test_what_a_probe_did_not_measure_has_its_reason_below_the_table(build: Any) -> None:
    made = capacity(build)
    values = tuple(MetricValue(v.metric, None, "it died") for v in made.probes[0].values)
    table = probe_table(replace(made, probes=(replace(made.probes[0], values=values),)))

    assert "not measured¹" in {cell.text for cell in table.rows[0]}
    assert table.notes == ("¹ it died",)


def test_the_highest_load_allowed_is_an_answer_when_it_met(build: Any) -> None:
    made = capacity(build)
    at_top = replace(made, bracket=replace(made.bracket, not_met=None), search=Search(1, most=10))

    assert at_top.is_answered
    assert not made.is_answered
