"""Which points of a sweep are worth choosing, and how they are told."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.analyzer.summary import MetricValue
from harness.core.jsonable import from_json, to_json
from harness.core.load_points import Axis
from harness.gate.attempt import RunOutcome
from harness.gate.sweep import METRICS, Sweep, SweepPoint, tails_of, with_choices
from harness.gate.sweep_table import highlights, not_counted, point_table, title_of


def point(level: float, rate: float, ttft_s: float, tpot_s: float = 0.01) -> SweepPoint:
    """A point whose p90 is twice its median, and whose p99 is not known."""
    values = {"output_tok_s": rate, "goodput_frac": 1.0}
    for name, seconds in (("ttft_s", ttft_s), ("tpot_s", tpot_s)):
        values |= {f"{name}_p50": seconds, f"{name}_p90": 2 * seconds}
    return SweepPoint(
        engine="inhouse",
        level=level,
        seed=1,
        run=RunOutcome(f"inhouse-rate-{level:g}", "VALID"),
        is_saturated=False,
        values=tuple(
            MetricValue(m, values.get(m), None if m in values else "96 requests cannot support p99")
            for m in METRICS
        ),
    )


def failed(level: float) -> SweepPoint:
    values = tuple(MetricValue(m, None, "FAILED: it ended with code 9") for m in METRICS)
    run = RunOutcome(f"inhouse-rate-{level:g}", "FAILED", "it ended with code 9")
    return replace(point(level, 1, 1), run=run, values=values)


POINTS = (point(1, 10, 0.1), point(2, 20, 0.2), point(4, 18, 0.5), point(8, 25, 3.0))


def sweep(*points: SweepPoint) -> Sweep:
    tails = tails_of(points)
    return Sweep(
        axis=Axis.RATE,
        context="SmolLM2 bf16, 2-core <AMD>, eight-agents",
        engines=tuple(dict.fromkeys(one.engine for one in points)),
        tails=tails,
        points=with_choices(points, tails),
        command=("batchmark", "sweep", "eight-agents"),
        tool_version="1",
        created_utc="now",
        cautions=(),
    )


def test_the_highest_percentile_that_all_points_have_is_the_tail() -> None:
    assert tails_of(POINTS) == ("ttft_s_p90", "tpot_s_p90")


def test_a_point_that_failed_takes_no_percentile_from_the_others() -> None:
    assert tails_of((*POINTS, failed(16))) == ("ttft_s_p90", "tpot_s_p90")


def test_without_a_common_percentile_it_is_the_median() -> None:
    bare = replace(POINTS[0], values=tuple(replace(v, value=None) if v.metric.endswith("p90") else v for v in POINTS[0].values))  # fmt: skip

    assert tails_of((bare, *POINTS[1:])) == ("ttft_s_p50", "tpot_s_p50")


def test_a_point_that_another_beats_in_everything_is_no_choice() -> None:
    made = sweep(*POINTS)

    assert [p.level for p in made.points if p.is_choice] == [1, 2, 8]


def test_a_saturated_point_is_no_choice_and_beats_none() -> None:
    fast = replace(point(16, 100, 0.01, 0.001), is_saturated=True)

    made = sweep(*POINTS, fast)

    assert [p.level for p in made.points if p.is_choice] == [1, 2, 8]
    assert [row[-1].text for row in point_table(made).rows] == ["choice", "choice", "", "choice", "saturated"]  # fmt: skip


def test_a_failed_point_is_no_choice_and_its_reason_is_told() -> None:
    made = sweep(*POINTS, failed(16))
    table = point_table(made)

    assert not made.points[-1].is_choice
    assert not_counted(made) == "1 of 5 runs do not count: inhouse-rate-16 is FAILED"
    assert any("it ended with code 9" in note for note in table.notes)


def test_engines_are_held_against_each_other() -> None:
    slower = [replace(p, engine="theirs", values=tuple(replace(v, value=v.value / 2 if v.value and "tok_s" in v.metric else v.value) for v in p.values)) for p in POINTS]  # fmt: skip

    made = sweep(*POINTS, *slower)

    assert {p.engine for p in made.points if p.is_choice} == {"inhouse"}
    assert list(highlights(made))[1] == "theirs: no point is a choice"


def test_the_highlight_is_the_fastest_choice_with_what_it_costs() -> None:
    (said,) = highlights(sweep(*POINTS))

    assert said == "inhouse: up to 25.0 tok/s at 8 req/s, TTFT p90 6.00 s, TPOT p90 20.0 ms"


def test_the_title_says_what_was_swept_on_what() -> None:
    assert title_of(sweep(*POINTS)) == (
        "inhouse at 1 to 8 req/s (SmolLM2 bf16, 2-core <AMD>, eight-agents)"
    )


def test_it_is_stored_and_read_again() -> None:
    made = sweep(*POINTS, failed(16))

    assert from_json(Sweep, json.loads(json.dumps(to_json(made), allow_nan=False))) == made
