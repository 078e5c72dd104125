"""Run folders: read to the last whole line, strictly, whatever order the lines are in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.analyzer.columns import columns_of, records_with_error
from harness.analyzer.reading import read_run
from harness.core.errors import RunFolderError
from harness.core.jsonable import to_json
from harness.core.record import Outcome, RequestError, RequestRecord, StepRecord, TokenSource
from harness.core.rundir import REQUESTS, STEPS

instants = st.integers(0, 2**62)
maybe = st.none() | st.integers(0, 2**40)
marks = st.none() | st.text(alphabet="abcXYZ059-_", min_size=1, max_size=40)
errors = st.none() | st.builds(RequestError, st.text(), st.text())
tokens = st.lists(st.none() | st.integers(0, 9), max_size=5)
records = tokens.flatmap(
    lambda carried: st.builds(
        RequestRecord,
        index=st.integers(0, 50),
        label=st.text(),
        due_ns=instants,
        sent_ns=st.integers(-(2**62), 2**62),
        first_byte_ns=maybe,
        events_ns=st.tuples(*[instants] * len(carried)),
        events_tokens=st.just(tuple(carried)),
        closed_ns=maybe,
        prompt_tokens_asked=instants,
        output_tokens_asked=instants,
        prompt_tokens=maybe,
        output_tokens=maybe,
        output_tokens_source=st.none() | st.sampled_from(TokenSource),
        finish_reason=st.none() | st.text(),
        outcome=st.sampled_from(Outcome),
        error=errors,
        http_status=maybe,
        bytes_received=instants,
        retries=st.integers(0, 3),
        first_event_ns=maybe,
        first_answer_ns=maybe,
        usage_tokens=maybe,
        cached_tokens=maybe,
        ids_marks=marks,
        text_marks=marks,
        session=st.none() | st.text(),
        turn=instants,
        after=maybe,
    )
)


NEWER_FIELDS = (
    *("retries", "first_event_ns", "first_answer_ns", "usage_tokens", "cached_tokens"),
    *("ids_marks", "text_marks", "session", "turn", "after"),
)


def written(build: Any, folder: Path, requests: int = 3) -> Path:
    run = build.run([build.record(i) for i in range(requests)], [build.step(0), build.step(1)])
    return build.folder(folder / "run", run)  # type: ignore[no-any-return]


def line_of(record: RequestRecord, **changes: object) -> bytes:
    return json.dumps({**to_json(record), **changes}).encode() + b"\n"


def test_what_is_written_is_read(build: Any, tmp_path: Path) -> None:
    run = build.run([build.record(0), build.failed(1)], [build.step(0), build.step(1)])
    found = read_run(build.folder(tmp_path / "run", run))
    assert found.manifest == run.manifest
    assert tuple(found.requests) == run.requests
    assert found.steps == run.steps
    assert found.cautions == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(several=st.lists(records, max_size=6))
def test_records_come_back_from_columns_as_they_were_in_the_order_of_their_index(
    several: list[RequestRecord],
) -> None:
    columns = columns_of(several)
    expected = sorted(several, key=lambda record: record.index)
    assert list(columns) == expected
    assert columns[1:] == tuple(expected[1:])
    assert records_with_error(several) == tuple(r for r in expected if r.error is not None)
    assert columns_of(columns) is columns


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(several=st.lists(records, max_size=4))
def test_any_record_survives_being_written_and_read(
    build: Any, tmp_path_factory: pytest.TempPathFactory, several: list[RequestRecord]
) -> None:
    run = build.run(several)
    found = read_run(build.folder(tmp_path_factory.mktemp("any") / "run", run))
    assert found.cautions == ()
    assert list(found.requests) == sorted(several, key=lambda record: record.index)


def test_a_place_outside_the_records_is_an_index_error(build: Any) -> None:
    columns = columns_of([build.record(0), build.record(1)])
    assert columns[-1].index == 1
    with pytest.raises(IndexError):
        columns[2]


def test_lines_in_the_order_of_their_ends_are_read_in_the_order_of_their_index(
    build: Any, tmp_path: Path
) -> None:
    many = [build.record(i, [100 + i, 200 + i, 300][: 1 + i % 3]) for i in range(9)]
    shuffled = build.folder(tmp_path / "run", build.run(many[::2] + many[1::2][::-1]))
    assert list(read_run(shuffled).requests) == many


def test_a_cut_last_line_is_left_out_with_a_caution(build: Any, tmp_path: Path) -> None:
    file = written(build, tmp_path, requests=2) / REQUESTS
    file.write_bytes(file.read_bytes()[:-20])
    run = read_run(file.parent)
    assert [record.index for record in run.requests] == [0]
    assert [c.code for c in run.cautions] == ["CUT_LAST_LINE"]


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_run_cut_anywhere_is_readable_up_to_its_last_whole_line(
    build: Any, tmp_path: Path, cut: int
) -> None:
    file = written(build, tmp_path) / REQUESTS
    whole = file.read_bytes()
    kept = whole[: len(whole) - cut]
    file.write_bytes(kept)
    assert len(read_run(file.parent).requests) == kept.count(b"\n")


def bad_lines(record: RequestRecord) -> dict[str, bytes]:
    error = {"kind": "http_503", "message": "busy"}
    return {
        "no json": b"{]\n",
        "no object": b"[1]\n",
        "an empty line": b"\n",
        "bytes that are no text": b'{"label": "\xff"}\n',
        "a key too few": b'{"index": 1}\n',
        "a key too many": line_of(record, colour="red"),
        "a key too many inside": line_of(record, error={**error, "colour": "red"}),
        "a word for a number": line_of(record, sent_ns="5"),
        "a truth for a number": line_of(record, sent_ns=False),
        "a fraction for a number": line_of(record, sent_ns=5.5),
        "a number that fits nowhere": line_of(record, sent_ns=2**63),
        "a null where a number must be": line_of(record, due_ns=None),
        "marks that are no ASCII": line_of(record, text_marks="é"),
        "an outcome that is none": line_of(record, outcome="fine"),
        "a word among the instants": line_of(record, events_ns=[1, "2"]),
        "more instants than counts": line_of(record, events_tokens=[1]),
    }


@pytest.mark.parametrize("fault", bad_lines(RequestRecord(
    0, "", 0, 0, None, (1, 2), (1, 1), None, 1, 2, 1, 2, None, None, Outcome.OK, None, 200, 9
)))  # fmt: skip
def test_a_bad_line_in_the_middle_is_named_and_the_others_are_kept(
    build: Any, tmp_path: Path, fault: str
) -> None:
    file = written(build, tmp_path) / REQUESTS
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + bad_lines(build.record(1))[fault] + lines[2])
    run = read_run(file.parent)
    assert list(run.requests) == [build.record(0), build.record(2)]
    (doubt,) = run.cautions
    assert doubt.code == "BAD_LINE"
    assert "line 2 of requests.jsonl" in doubt.message


def test_a_bad_step_is_left_out_too(build: Any, tmp_path: Path) -> None:
    file = written(build, tmp_path) / STEPS
    one, two = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(one.replace(b'"slots":4', b'"slots":"4"') + two)
    run = read_run(file.parent)
    assert run.steps == (build.step(1),)
    assert isinstance(run.steps[0], StepRecord)
    assert "line 1 of steps.jsonl" in run.cautions[0].message


def test_a_field_with_a_default_may_be_missing_as_in_older_folders(
    build: Any, tmp_path: Path
) -> None:
    file = written(build, tmp_path, requests=1) / REQUESTS
    row = json.loads(file.read_bytes())
    for name in NEWER_FIELDS:
        del row[name]
    file.write_text(json.dumps(row) + "\n")
    assert list(read_run(file.parent).requests) == [replace(build.record(0), retries=0)]


def test_events_and_their_counts_must_be_as_many(build: Any) -> None:
    with pytest.raises(ValueError, match="2 events, but 1 token counts"):
        columns_of([build.record(0, events_tokens=(1,))])


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run folder: it has no manifest.json"):
        read_run(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(several=st.lists(records, max_size=6), most=st.integers(1, 8))
def test_pieces_are_the_same_requests_in_the_same_order(
    several: list[RequestRecord], most: int
) -> None:
    columns = columns_of(several)
    pieces = list(columns.pieces(most))
    assert [record for piece in pieces for record in piece] == list(columns)
    assert all(len(piece) <= 1 or len(piece.events_ns) <= most for piece in pieces)
    assert pieces


@pytest.mark.parametrize("instants", ["9223372036854775808", "1,99999999999999999999", "-1", "1.0"])
def test_an_instant_is_read_as_it_is_or_the_line_is_bad(
    build: Any, tmp_path: Path, instants: str
) -> None:
    record = build.record(0, [100] * (1 + instants.count(",")))
    folder = build.folder(tmp_path / "run", build.run([]))
    line = line_of(replace(record, events_ns=())).replace(
        b'"events_ns": []', f'"events_ns": [{instants}]'.encode()
    )
    (folder / REQUESTS).write_bytes(line)
    run = read_run(folder)
    assert [r.events_ns for r in run.requests] == ([(-1,)] if instants == "-1" else [])
    assert len(run.cautions) == (0 if instants == "-1" else 1)


def test_events_of_several_tokens_and_of_one_stand_side_by_side(build: Any) -> None:
    carried = [[1, 1], [2, 1], [1], [], [None, 3], [1, 1, 1]]
    several = [
        build.record(i, [100 + k for k in range(len(tokens))], tokens=tokens)
        for i, tokens in enumerate(carried)
    ]
    assert [list(record.events_tokens) for record in columns_of(several)] == carried
