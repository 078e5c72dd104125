from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.summary import Check, CheckVerdict, Summary, Validity
from harness.core.cautions import Code, caution
from harness.core.engine import EngineFacts
from harness.core.manifest import RunStatus
from harness.gate.cells import Tone
from harness.gate.comparison import Comparison, ComparisonTable
from harness.gate.lengths import UNLIKE_WORK
from harness.gate.trust import trust


def run(build: Any, validity: Validity = Validity.VALID, **changes: Any) -> Summary:
    verdicts = {
        Validity.VALID: CheckVerdict.PASS,
        Validity.WARN: CheckVerdict.WARN,
        Validity.INVALID: CheckVerdict.INVALID,
    }
    check = Check("V01", "every request came out", "seen", "allowed", verdicts[validity])
    return Summary(build.manifest(**changes), validity, (check,), (), None, ())


def compared(runs: int = 3, **changes: Any) -> ComparisonTable:
    return replace(ComparisonTable("a", "b", "on", (), runs, runs, (), ()), **changes)


def test_valid_runs_with_intervals_are_trusted(build: Any) -> None:
    found = trust([run(build)] * 6, [compared()])
    assert (found.answer, found.tone) == ("yes", Tone.GOOD)
    assert found.why == ("all 6 runs are VALID, and every ratio has its interval",)


def test_one_invalid_run_is_worse_than_all_else_and_names_its_check(build: Any) -> None:
    found = trust([run(build), run(build, Validity.INVALID)], [compared(1)])
    assert (found.answer, found.tone) == ("no", Tone.BAD)
    assert found.why[0] == (
        "1 of 2 runs is INVALID (V01 every request came out), so what is said here proves nothing"
    )


def test_too_few_runs_for_an_interval_are_not_trusted_yet(build: Any) -> None:
    found = trust([run(build)] * 2, [compared(1)])
    assert (found.answer, found.tone) == ("not yet", Tone.WARN)
    assert "may be noise" in found.why[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": RunStatus.INTERRUPTED}, "interrupted before the end"),
        ({"status": RunStatus.RUNNING}, "still running, or killed"),
        ({"status": RunStatus.FAILED}, "1 of 2 runs is marked as failed"),
        ({"clock": "virtual"}, "simulated figures"),
        ({"facts": EngineFacts(model="another")}, "the runs are of 2 models"),
        ({"validity": Validity.WARN}, "1 of 2 runs is WARN (V01"),
    ],
)
def test_each_doubt_is_told(build: Any, changes: dict[str, Any], words: str) -> None:
    found = trust([run(build), run(build, **changes)], [])
    assert found.answer == "with care"
    assert any(words in why for why in found.why)


def test_a_faster_side_that_did_other_work_is_named_at_once(build: Any) -> None:
    words = {"faster": "b", "other": "a", "by": "1.11x requests/s", "work": "they are shorter"}
    row = Comparison("request_s", 1.0, 1.11, None, None, None, UNLIKE_WORK)
    doubt = caution(Code.FASTER_DID_OTHER_WORK, **words)
    found = trust([run(build)] * 6, [compared(rows=(row,), cautions=(doubt,))])

    assert found.answer == "with care"
    assert found.why == (
        "b is the faster side (1.11x requests/s) and did other work than a: they are shorter",
        "answers are not equally long, so rates and end-to-end latencies have no ratio",
    )


def test_what_was_allowed_to_differ_is_a_doubt(build: Any) -> None:
    found = trust([run(build)] * 6, [compared(allowed=("CPU: A / B",))])
    assert found.answer == "with care"
    assert "not alike" in found.why[0]


def test_a_single_run_is_spoken_of_as_one(build: Any) -> None:
    assert trust([run(build)], []).why == ("the run is VALID",)
