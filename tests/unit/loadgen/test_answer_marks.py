"""What a record keeps of an answer itself: marks of its ids and text, where it came well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.engine import Capture, Ending
from harness.core.marks import marks_of_ids, marks_of_text
from harness.core.record import Answer, Outcome, RequestRecord, TokenEvent
from harness.loadgen.recorder import Asked, to_record

CAPTURE = Capture(10, 200, (), 20, (), 30, Ending.COMPLETE)
EVENTS = (TokenEvent(20, 2, "你"), TokenEvent(25, 1, " red"))
WELL = Answer(EVENTS, 3, 3, None, "length", Outcome.OK, token_ids=(7, 8, 9))


def record_of(answer: Answer) -> RequestRecord:
    return to_record(Asked(0, "chat", 0, 3, 3), CAPTURE, answer, 10)


def test_a_record_holds_marks_of_the_whole_answer_however_it_was_cut_into_events() -> None:
    whole = replace(WELL, events=(TokenEvent(25, 3, "你 red"),))

    for answer in (WELL, whole):
        record = record_of(answer)
        assert record.ids_marks == marks_of_ids([7, 8, 9])
        assert record.text_marks == marks_of_text("你 red")


def test_without_ids_there_are_marks_of_the_text_alone() -> None:
    record = record_of(replace(WELL, token_ids=None))

    assert record.ids_marks is None
    assert record.text_marks == marks_of_text("你 red")


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_an_answer_that_did_not_end_well_has_no_marks(outcome: Outcome) -> None:
    record = record_of(replace(WELL, outcome=outcome))

    assert (record.ids_marks, record.text_marks) == (None, None)
