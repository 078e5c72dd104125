"""Formats with texts or sessions: their samples, what becomes of each row, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import TraceError, UsageError
from workloads.importers.formats import open_trace
from workloads.shape import Message, PrefixBlocks, Shape

SAMPLES = Path(__file__).parents[3] / "traces"
MS, S = 1_000_000, 1_000_000_000
READ: list[tuple[str, str, int, list[str]]] = [
    ("aiperf_inputs.json", "aiperf-inputs", 1, []),
    ("aiperf_multi_turn.jsonl", "aiperf-multi-turn", 4, ["2 rows repaired: answers that the file lacks left empty in later prompts (first: row 1)", "1 row repaired: no time, so due with the row before (first: row 1)"]),
    ("aiperf_random_pool.jsonl", "aiperf-single-turn", 2, []),
    ("aiperf_single_turn.jsonl", "aiperf-single-turn", 3, ["1 row repaired: several texts of one turn joined by newlines (first: row 3)", "1 row repaired: no time, so due with the row before (first: row 1)"]),
    ("lmcache_agentic.jsonl", "lmcache", 2, []),
    ("openai_batch.jsonl", "openai-batch", 1, []),
    ("openai_chat.jsonl", "openai-chat", 2, ["1 row repaired: definitions of tools written as JSON into the system message (first: row 2)"]),
    ("otel_spans.jsonl", "otel", 1, []),
    ("sglang_agentic_trace.json", "sglang-agentic", 2, ["1 row repaired: answers that the file lacks left empty in later prompts (first: row 1)"]),
    ("sglang_custom.jsonl", "sglang-custom", 2, []),
    ("sharegpt.json", "sharegpt", 3, [
        "1 row clamped: all after the first answer left out (first: row 1)",
        "1 row dropped: a conversation that the user does not begin (first: row 2)",
        "2 rows dropped: a conversation of fewer than two messages (first: row 3)",
        "1 row repaired: a message stored as a JSON string (first: row 5)",
        "1 row dropped: empty prompt (first: row 6)",
    ]),
    ("vllm_custom.jsonl", "vllm-custom", 3, []),
    ("weka_trace.json", "weka", 2, []),
]  # fmt: skip

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Objects to the lines of a file, or one document to the whole of it."""

    def _write(*rows: Any, document: Any = None) -> Path:
        path = tmp_path / "trace.json"
        lines = [json.dumps(document)] if document is not None else [json.dumps(r) for r in rows]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return _write


def read(path: Path, named: str | None = None) -> tuple[list[Shape], list[str]]:
    trace = open_trace(path, named)
    shapes = list(trace.shapes)
    return shapes, [str(loss) for loss in trace.losses.counted()]


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str = "Done.") -> Message:
    return Message("assistant", text)


@pytest.mark.parametrize(
    ("name", "format_name", "requests", "losses"), READ, ids=[r[0] for r in READ]
)
def test_every_sample_is_told_by_its_fields_and_read_with_all_losses_counted(
    name: str, format_name: str, requests: int, losses: list[str]
) -> None:
    trace = open_trace(SAMPLES / name)
    shapes = list(trace.shapes)

    assert (trace.format.name, trace.is_guessed) == (format_name, True)
    assert len(shapes) == requests
    assert sorted(map(str, trace.losses.counted())) == sorted(losses)


def test_sharegpt_asks_the_first_question_and_knows_the_answer() -> None:
    first, packed, briefed = read(SAMPLES / "sharegpt.json")[0]

    assert (first.messages, first.answer) == (
        (user("What is a mutex?"),),
        "A lock that one thread holds at a time.",
    )
    assert packed.messages == (user("a turn stored as a JSON string"),)
    assert briefed.messages == (Message("system", "Be brief."), user("2+2?"))
    assert (first.session, first.output_tokens, first.due_ns) == (None, None, None)


def test_whole_conversations_are_sessions_that_send_the_answers_of_the_file() -> None:
    shapes, losses = read(SAMPLES / "sharegpt.json", "sharegpt-sessions")

    assert [(s.session, s.turn) for s in shapes] == [
        ("conversation 1", 0),
        ("conversation 1", 1),
        ("conversation 5", 0),
        ("conversation 7", 0),
    ]
    assert shapes[1].messages == (
        user("What is a mutex?"),
        said("A lock that one thread holds at a time."),
        user("And a semaphore?"),
    )
    assert not any("clamped" in loss for loss in losses)


def test_a_last_question_without_an_answer_is_left_out_and_counted(write: Write) -> None:
    turns = [{"from": who, "value": who} for who in ("human", "gpt", "human")]
    shapes, losses = read(write(document=[{"conversations": turns}]), "sharegpt-sessions")

    assert len(shapes) == 1
    assert losses == ["1 row clamped: a last message without an answer left out (first: row 1)"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (["two", "texts"], "two\ntexts"),
        ([{"type": "text", "text": "part"}], "part"),
        ([{"type": "input_text", "text": "a"}, {"type": "tool_use", "id": 1}], 'a\n{"type": "tool_use", "id": 1}'),
        ("half \ud800 pair", "half \ufffd pair"),
        ("whole \ud83d\ude00 pair", "whole \U0001f600 pair"),
    ],
)  # fmt: skip
def test_content_is_text_or_parts_of_text(write: Write, content: Any, text: str) -> None:
    (shape,), _ = read(write({"messages": [{"role": "user", "content": content}]}))

    assert shape.messages == (user(text),)


NOT_TEXT = "content with an image, audio or another part that is not text"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, NOT_TEXT),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}, {"type": "text", "text": "hear"}]}]}, NOT_TEXT),
        ({"messages": [{"role": "user", "content": 7}]}, "content that is neither text nor a list of parts"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "empty prompt"),
        ({"messages": [{"role": "user", "content": None}]}, "a message without content"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "a message of an unknown role"),
        ({"messages": [{"content": "x"}]}, "a message of an unknown role"),
        ({"messages": [7]}, "a message that is no object"),
        ({"messages": ["[1"]}, "a message that is no object"),
        ({"messages": "none"}, "no messages"),
        ({"messages": []}, "no messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "an answer without a question"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, "no output tokens"),
        ({"model": "m"}, "neither messages nor a prompt"),
        ({"prompt": ""}, "neither messages nor a prompt"),
        ({"prompt": "  "}, "empty prompt"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_request_of_text_is_dropped_and_counted(
    write: Write, body: dict[str, Any], reason: str
) -> None:
    good = {"messages": [{"role": "user", "content": "kept"}]}
    shapes, losses = read(write(good, body), "openai-chat")

    assert [s.messages for s in shapes] == [(user("kept"),)]
    assert losses == [f"1 row dropped: {reason} (first: row 2)"]


def test_tools_and_their_calls_are_written_as_json_where_the_model_would_read_them(
    write: Write,
) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]},
        {"role": "tool", "content": "rain"},
    ]
    (shape,), losses = read(write({"messages": messages, "tools": [{"name": "w"}]}))

    assert shape.messages == (
        Message("system", 'Be brief.\n\n[{"name": "w"}]'),
        user("Weather?"),
        said('[{"id": "c1"}]'),
        Message("tool", "rain"),
    )
    assert losses == [
        "1 row repaired: calls of tools written as JSON into the message (first: row 1)",
        "1 row repaired: definitions of tools written as JSON into the system message (first: row 1)",
    ]


def test_an_answer_at_the_end_is_not_sent_but_says_how_long_answers_are(write: Write) -> None:
    messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    shapes, losses = read(write({"messages": messages}, {"messages": messages, "max_tokens": 9}))

    assert [(s.messages, s.answer, s.output_tokens) for s in shapes] == [
        ((user("2+2?"),), "4", None),
        ((user("2+2?"),), None, 9),
    ]
    assert losses == [
        "2 rows repaired: an answer at the end of the messages not sent (first: row 1)"
    ]


def test_bodies_of_the_batch_api_name_the_field_that_is_wrong(write: Write) -> None:
    row = {"custom_id": "r", "body": {"prompt": "x", "max_tokens": -3}}

    with pytest.raises(TraceError, match=r"row 1: body\.max_tokens is -3, expected a whole number"):
        read(write(row))


def test_autobench_prompts_are_texts_messages_token_ids_or_turns(write: Write) -> None:
    rows = [
        {"prompt": "text", "output_len": 3, "timestamp": 100},
        {"prompt": [{"role": "user", "content": "m"}], "output_len": 4, "timestamp": 250},
        {"messages": '[{"role": "user", "content": "packed"}]', "max_tokens": 5, "timestamp": 300},
        {"prompt": [5, 6, 7], "output_len": 6, "timestamp": 400},
        {"prompt": ["one", "two"], "output_len": 7, "timestamp": 500},
        {"prompt": "seen", "image_data": ["..."], "timestamp": 600},
    ]
    shapes, losses = read(write(*rows))

    assert [(s.text, s.messages, s.prompt_tokens, s.output_tokens) for s in shapes] == [
        ("text", (), None, 3),
        (None, (user("m"),), None, 4),
        (None, (user("packed"),), None, 5),
        (None, (), 3, 6),
        (None, (user("one"),), None, 7),
        (None, (user("one"), said(""), user("two")), None, 7),
    ]
    assert [(s.due_ns or 0) // MS for s in shapes[:5]] == [0, 150, 200, 300, 400]
    assert losses[-1] == f"1 row dropped: {NOT_TEXT} (first: row 6)"


def test_turns_of_aiperf_come_at_their_time_or_their_delay_after_the_answer() -> None:
    thinking, again, timed, later = read(SAMPLES / "aiperf_multi_turn.jsonl")[0]

    assert (thinking.session, again.turn, again.delay_ns) == ("s1", 1, 1000 * MS)
    assert again.messages == (user("What is a mutex?"), said(""), user("And a semaphore?"))
    assert (timed.due_ns, later.due_ns, later.delay_ns) == (0, 2500 * MS, 0)


def test_a_turn_timed_before_the_one_before_it_is_due_with_it(write: Write) -> None:
    turns = [{"text": "a", "timestamp": 900}, {"text": "b", "timestamp": 100}]
    shapes, losses = read(write({"session_id": 7, "turns": turns}))

    assert [(s.session, s.turn, s.text or s.messages[-1].text) for s in shapes] == [("7", 0, "a"), ("7", 1, "b")]  # fmt: skip
    assert "1 row repaired: a turn timed before the one before it, so due with it (first: row 1)" in losses  # fmt: skip


def test_a_session_of_aiperf_with_an_image_is_dropped(write: Write) -> None:
    rows = [{"turns": [{"text": "see", "image": "x.png"}]}, {"turns": [{"text": "read"}]}]
    shapes, losses = read(write(*rows), "aiperf-multi-turn")

    assert len(shapes) == 1
    assert losses == [f"1 row dropped: {NOT_TEXT} (first: row 1)"]


def test_the_payloads_of_one_session_are_its_turns(write: Write) -> None:
    bodies = [{"messages": [{"role": "user", "content": c}], "max_tokens": 8} for c in "ab"]
    shapes, _ = read(write(document={"data": [{"session_id": "s", "payloads": bodies}]}))

    assert [(s.session, s.turn, s.messages[0].text) for s in shapes] == [("s", 0, "a"), ("s", 1, "b")]  # fmt: skip


def test_lmcache_turns_wait_their_gap_after_the_answer_before(write: Write) -> None:
    def row(session: str, gap: float) -> dict[str, Any]:
        asked = [{"role": "user", "content": "x"}]
        return {"session_id": session, "input": asked, "output_length": 5, "pre_gap": gap}

    shapes, _ = read(write(row("a", 9.0), row("b", 0.0), row("a", 0.0457)))

    assert [(s.session, s.turn, s.delay_ns) for s in shapes] == [
        ("a", 0, 0),
        ("b", 0, 0),
        ("a", 1, 45_700_000),
    ]


def test_weka_turns_wait_from_the_end_of_the_call_before_and_share_its_blocks() -> None:
    first, second = read(SAMPLES / "weka_trace.json")[0]

    assert (first.prompt_tokens, first.output_tokens, first.session) == (130, 20, "t1")
    assert (second.turn, second.delay_ns) == (1, 2400 * MS)
    assert first.blocks == PrefixBlocks((0, 1, 2), 64)
    assert second.blocks == PrefixBlocks((0, 1, 3), 64)


def weka(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": list(requests)}


def call(t: float, **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "n", "in": 64, "out": 5, "hash_ids": [1], "api_time": 1.0, **more}


def test_weka_hashes_of_one_conversation_mean_nothing_in_another(write: Write) -> None:
    shapes, _ = read(write(weka("a", call(0)), weka("b", call(0))))

    assert shapes[0].blocks != shapes[1].blocks


def test_weka_calls_of_sub_agents_are_sent_in_turn_by_their_time(write: Write) -> None:
    agent = {"t": 2, "type": "subagent", "requests": [call(2.5, **{"in": 70}), call(4, out=0)]}
    shapes, losses = read(write(weka("a", call(0), agent, call(3), call(9, hash_ids=[1, 2]))))

    assert [(s.turn, s.delay_ns / S) for s in shapes] == [(0, 0), (1, 1.5), (2, 0), (3, 5)]
    assert [s.blocks and len(s.blocks.ids) for s in shapes] == [1, 2, 1, 1]
    assert losses == [
        "1 row dropped: a call without tokens (first: row 1)",
        "1 row repaired: as many blocks made of hash_ids as the prompt has (first: row 1)",
        "1 row repaired: calls of sub-agents sent in turn, not beside those of their parent (first: row 1)",
        "1 row clamped: a call that began before the one before it ended (first: row 1)",
    ]


def test_weka_traces_over_several_lines_and_with_other_scopes(tmp_path: Path, write: Write) -> None:
    spread = tmp_path / "spread.json"
    spread.write_text(json.dumps(weka("a", call(0)), indent=1))

    assert len(read(spread)[0]) == 1
    with pytest.raises(TraceError, match="row 1: hash_id_scope is 'global', expected 'local'"):
        read(write({**weka("a", call(0)), "hash_id_scope": "global"}))


def span(start: str, end: str, **attributes: Any) -> dict[str, Any]:
    day = "2026-01-01T00:00:0"
    return {"start_time": f"{day}{start}Z", "end_time": f"{day}{end}Z", "attributes": attributes}


COUNTED = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 4}


def test_spans_of_one_trace_id_are_a_session_wherever_they_stand(write: Write) -> None:
    rows = [
        {"trace_id": "b", **span("5.0", "6.0", **COUNTED)},
        {"trace_id": "a", **span("3.0", "4.0", **COUNTED)},
        {"trace_id": "a", **span("1.0", "2.5", **COUNTED)},
        {"trace_id": "a", **span("3.5", "3.6", **COUNTED)},
        {"trace_id": "a", **span("3.5", "3.6", tool="grep")},
    ]
    shapes, losses = read(write(*rows))

    assert [(s.session, s.turn, (s.due_ns or 0) // S, s.delay_ns / S) for s in shapes] == [
        ("a", 0, 0, 0),
        ("a", 1, 0, 0.5),
        ("a", 2, 0, 0),
        ("b", 0, 4, 0),
    ]
    assert losses == [
        "1 row dropped: a span that is no call of a model (first: row 5)",
        "1 row clamped: a span that began before the one before it ended (first: row 4)",
    ]


def test_spans_with_their_messages_are_read_as_text(write: Write) -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]
    row = {"trace_id": "a", "spans": [span("1", "2", **{"gen_ai.input.messages": json.dumps(messages), **COUNTED})]}  # fmt: skip
    (shape,), _ = read(write(row))

    assert (shape.messages, shape.prompt_tokens, shape.output_tokens) == ((user("Weather?"),), None, 4)  # fmt: skip


def test_a_span_that_ends_before_it_starts_is_refused(write: Write) -> None:
    with pytest.raises(
        TraceError, match="row 1: end_time is .* expected a date that is not before"
    ):
        read(write({"trace_id": "a", **span("2", "1", **COUNTED)}))


def test_a_document_of_another_kind_names_what_was_expected(write: Write) -> None:
    with pytest.raises(TraceError, match="conversations is 7, expected a list of lists of turns"):
        read(write(document={"conversations": 7}), "sglang-agentic")
    with pytest.raises(
        UsageError, match="holds no request: 1 row dropped: a conversation of fewer"
    ):
        read(write(document={"conversations": 7}), "sharegpt")
