from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.core.jsonable import from_json, to_json
from harness.core.marks import marks_of_ids, marks_of_text
from harness.core.record import Outcome, RequestError, RequestRecord
from harness.core.rundir import RunFolder
from harness.gate.agreement import BIN_ENDS, Agreement, Answers, agreement
from harness.gate.other_work import agreement_cautions

IDS = [5, 6, 7, 8]
EMPTY = RequestError("empty", "the stream carried no token")


def answered(
    build: Any, index: int, ids: Sequence[int] | None, text: str = "word"
) -> RequestRecord:
    marks = None if ids is None else marks_of_ids(ids)
    count = len(ids or IDS)
    return build.record(
        index,
        [100.0 + i for i in range(count)],
        ids_marks=marks,
        text_marks=marks_of_text(text),
    )


def run(build: Any, answers: Sequence[Sequence[int] | None], **changes: Any) -> RunFolder:
    return build.run([answered(build, i, ids) for i, ids in enumerate(answers)], **changes)  # type: ignore[no-any-return]


def changed(at: int, length: int = 20) -> list[int]:
    """`range(length)` with another token at position `at`, from 1."""
    return [*range(at - 1), 999, *range(at, length)]


def codes(found: Agreement) -> list[str]:
    return [doubt.code for doubt in agreement_cautions(("base", "cand"), found)]


def test_two_runs_that_answered_alike_agree_in_full(build: Any) -> None:
    found = agreement([run(build, [IDS] * 3)], [run(build, [IDS] * 3)])
    side = Answers(3, 4, 4, 0, 4.0, 4, 4, 10.0)
    assert found == Agreement(side, side, "token", 3, 3, None, (0,) * 6, 0, lengths_p=1.0)
    assert codes(found) == []


def test_differences_are_counted_by_where_they_first_are(build: Any) -> None:
    whole = list(range(300))
    places = [1, 2, 4, 5, 15, 16, 63, 64, 235, 236, 300]
    base = run(build, [whole] * 12)
    cand = run(build, [*(changed(at, 300) for at in places), whole])
    found = agreement([base], [cand])
    assert (found.unit, found.prompts, found.same) == ("token", 12, 1)
    assert BIN_ENDS == (1, 4, 15, 63, 235)
    assert found.first_differences == (1, 2, 2, 2, 2, 2)
    assert found.first_difference_p50 == 18  # the mark that covers 16
    assert found.other_length == 0


def test_the_order_of_records_does_not_matter(build: Any) -> None:
    base = [answered(build, i, [i, i]) for i in range(4)]
    found = agreement([build.run(base)], [build.run(base[::-1])])
    assert (found.prompts, found.same) == (4, 4)


def test_shorter_answers_are_other_answers_of_another_length(build: Any) -> None:
    found = agreement([run(build, [IDS] * 4)], [run(build, [IDS[:2]] * 4)])
    assert (found.same, found.other_length, found.first_difference_p50) == (0, 4, 3)
    assert (found.baseline.tokens_p50, found.candidate.tokens_p50) == (4, 2)


def test_a_side_without_ids_is_compared_by_text(build: Any) -> None:
    found = agreement([run(build, [IDS, IDS])], [run(build, [None, None])])
    assert (found.unit, found.prompts, found.same) == ("character", 2, 2)


def test_ids_cannot_be_compared_with_text(build: Any) -> None:
    only_ids = build.run([answered(build, 0, IDS, text="")])
    found = agreement([only_ids], [run(build, [None])])
    assert (found.unit, found.prompts) == (None, 0)
    assert found.reason == "one side sends token ids and no text, the other text and no token ids"
    assert (found.baseline.empty, found.candidate.empty) == (None, 0)
    assert codes(found) == []


def test_other_seeds_sent_other_prompts(build: Any) -> None:
    other = build.workload(seed=2, digest="e" * 64)
    found = agreement([run(build, [IDS])], [run(build, [IDS], workload=other)])
    assert found.reason == "the sides were sent different prompts (seeds 1 and 2)"
    assert (found.baseline.tokens_p50, found.candidate.tokens_p50) == (4, 4)


def test_older_records_hold_no_marks(build: Any) -> None:
    old = build.run([build.record(0)])
    for sides, which in (
        ((old, run(build, [IDS])), "baseline"),
        ((run(build, [IDS]), old), "candidate"),
    ):
        found = agreement([sides[0]], [sides[1]])
        assert found.reason == f"the records of the {which} hold no marks of answers"
        assert getattr(found, which).empty is None
        assert codes(found) == []


def test_prompts_that_one_side_failed_are_not_compared(build: Any) -> None:
    base = build.run([answered(build, 0, IDS), build.failed(1)])
    cand = build.run([build.failed(0), answered(build, 1, IDS)])
    assert agreement([base], [cand]).reason == "no prompt was answered well by both sides"
    both = build.run([answered(build, 0, IDS), answered(build, 1, [1])])
    found = agreement([base], [both])
    assert (found.prompts, found.same) == (1, 1)


def test_repeats_are_compared_with_the_run_of_their_own_prompts(build: Any) -> None:
    seeds = [build.workload(seed=i, digest=str(i) * 64) for i in range(3)]
    base = [run(build, [[i], [i]], workload=seeds[i]) for i in range(3)]
    cand = [run(build, [[i], [i]], workload=seeds[i]) for i in (2, 1)]
    found = agreement(base, cand)
    assert (found.prompts, found.same) == (4, 4)
    once = agreement(base[:1] * 3, base[:1])
    assert (once.prompts, once.baseline.answers) == (2, 6)


@pytest.mark.parametrize(("same", "doubts"), [(9, []), (8, ["ANSWERS_DIFFER"])])
def test_fewer_than_nine_in_ten_same_answers_are_a_doubt(
    build: Any, same: int, doubts: list[str]
) -> None:
    cand = run(build, [IDS] * same + [[5, 6, 1, 1]] * (10 - same))
    found = agreement([run(build, [IDS] * 10)], [cand])
    assert codes(found) == doubts


def test_the_doubt_says_what_it_means_and_that_rounding_is_no_error(build: Any) -> None:
    found = agreement([run(build, [IDS] * 4)], [run(build, [IDS] + [[5, 6, 1, 1]] * 3)])
    (doubt,) = agreement_cautions(("a", "b"), found)
    assert doubt.message == ("1 of 4 answers are the same; half the rest have parted by token 3")
    assert doubt.remedy.startswith("in bfloat16 rounding alone can do this")


def test_many_empty_answers_on_one_side_are_a_doubt(build: Any) -> None:
    base = run(build, [IDS] * 50)
    silent = replace(build.failed(0), error=EMPTY, outcome=Outcome.FAILED)
    cand = build.run(
        [silent, *(answered(build, i, IDS, text="" if i < 3 else "word") for i in range(1, 50))]
    )
    found = agreement([base], [cand])
    assert (found.candidate.answers, found.candidate.empty, found.baseline.empty) == (50, 3, 0)
    doubts = {d.code: d.message for d in agreement_cautions(("base", "cand"), found)}
    assert doubts["EMPTY_ANSWERS"] == "0.0% of base's answers are empty, 6.0% of cand's"
    assert "EMPTY_ANSWERS" not in codes(agreement([cand], [cand]))


def test_an_agreement_is_json_and_back(build: Any) -> None:
    found = agreement([run(build, [IDS] * 2)], [run(build, [IDS, [1]])])
    assert from_json(Agreement, json.loads(json.dumps(to_json(found)))) == found
