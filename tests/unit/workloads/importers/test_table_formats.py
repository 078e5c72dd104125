"""Each format of lengths on a small file of its own: what a row becomes, and what is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import TraceError, UsageError
from workloads.importers.formats import FORMATS, Trace, detect_format, open_trace
from workloads.importers.source import TraceFile
from workloads.shape import Message, PrefixBlocks, Shape

TRACES = Path(__file__).parents[3] / "traces"
MS = 10**6
S = 10**9


def read(name: str, named_format: str | None = None) -> tuple[list[Shape], Trace]:
    trace = open_trace(TRACES / name, named_format)
    return list(trace.shapes), trace


def lengths(shapes: list[Shape]) -> list[tuple[int | None, int | None, int | None]]:
    return [(s.due_ns, s.prompt_tokens, s.output_tokens) for s in shapes]


def lost(trace: Trace) -> list[str]:
    return [str(loss) for loss in trace.losses.counted()]


def written(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("azure2023_invented.csv", "azure"),
        ("azure2024_mixed_timestamps_synthetic.csv", "azure"),
        ("azure_lmm_invented.csv", "azure"),
        ("burstgpt_v1_invented.csv", "burstgpt"),
        ("burstgpt_v2_dirty_synthetic.csv", "burstgpt"),
        ("mooncake_invented.jsonl", "mooncake"),
        ("mooncake_sessions_aiperf.jsonl", "mooncake"),
        ("mooncake_text_aiperf.jsonl", "mooncake"),
        ("bailian_invented.jsonl", "bailian"),
        ("vidur_invented.csv", "vidur"),
        ("vidur_lengths_invented.csv", "vidur"),
        ("guidellm_prompts.csv", "guidellm-prompts"),
        ("genai_bench_prompts.csv", "genai-bench"),
        ("genai_bench_prompts.json", "genai-bench"),
        ("genai_bench_prompts.txt", "genai-bench"),
    ],
)
def test_a_file_is_known_by_its_fields(name: str, expected: str) -> None:
    detected = detect_format(TraceFile(TRACES / name), None)
    assert (detected.format.name, detected.guessed) == (expected, True)
    assert "--format" in detected.words


def test_azure_keeps_every_digit_of_its_dates() -> None:
    shapes, trace = read("azure2023_invented.csv")
    assert lengths(shapes) == [(0, 512, 16), (9 * MS, 1024, 8), (2_580_589_900, 33, 120)]
    assert lost(trace) == []
    assert trace.time == "dates, counted from the first"


def test_azure_reads_whole_seconds_among_fractions() -> None:
    shapes, _ = read("azure2024_mixed_timestamps_synthetic.csv")
    assert lengths(shapes) == [
        (0, 100, 10), (1_163_000, 200, 20), (1500 * MS, 300, 30), (2 * S, 400, 40),
    ]  # fmt: skip


def test_azure_multimodal_goes_by_the_names_of_its_columns_and_counts_the_images() -> None:
    shapes, trace = read("azure_lmm_invented.csv")
    assert lengths(shapes) == [(0, 700, 40), (500 * MS, 1900, 12), (5755 * MS, 65, 230)]
    assert lost(trace) == [
        "1 row clamped: images left out, their tokens kept as text (first: row 3)"
    ]


def test_burstgpt_counts_from_its_first_row_and_drops_what_failed() -> None:
    shapes, trace = read("burstgpt_v1_invented.csv")
    assert lengths(shapes) == [(0, 301, 25), (0, 44, 180), (24 * S, 88, 90)]
    assert [s.label for s in shapes] == ["ChatGPT", "GPT-4", "ChatGPT"]
    assert lost(trace) == ["1 row dropped: no output tokens (first: row 4)"]
    assert trace.time == "times taken to be in s, as in files of BurstGPT"


def test_burstgpt_2_has_sessions_where_the_row_names_one() -> None:
    shapes, trace = read("burstgpt_v2_dirty_synthetic.csv")
    assert lengths(shapes) == [(0, 300, 40), (2 * S, 90, 121 - 90)]
    assert [s.session for s in shapes] == ["11111111-1111-4111-8111-111111111111", None]
    assert lost(trace) == [
        "1 row dropped: no output tokens (first: row 3)",
        "1 row dropped: no prompt tokens (first: row 4)",
    ]


def test_mooncake_is_in_milliseconds_and_tells_what_prompts_share() -> None:
    shapes, trace = read("mooncake_invented.jsonl")
    assert lengths(shapes) == [(0, 1100, 40), (0, 1024, 1), (3 * S, 512, 300)]
    assert [s.blocks for s in shapes] == [
        PrefixBlocks((7, 8, 9), 512), PrefixBlocks((7, 10), 512), PrefixBlocks((11,), 512),
    ]  # fmt: skip
    assert trace.time == "times taken to be in ms, as in files of Mooncake"


def test_turns_of_a_mooncake_session_begin_with_all_before_them() -> None:
    shapes, _ = read("mooncake_sessions_aiperf.jsonl")
    assert lengths(shapes) == [(None, 300, 40), (None, 490, 20)]
    assert [(s.session, s.turn, s.delay_ns) for s in shapes] == [("abc", 0, 0), ("abc", 1, 2 * S)]
    first, second = shapes[0].blocks, shapes[1].blocks
    assert first is not None
    assert second is not None
    assert second.ids[: len(first.ids)] == first.ids


def test_longer_sessions_grow_block_by_block_and_share_nothing_with_others(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"session_id": "a", "input_length": 600, "output_length": 500},
        {"session_id": "b", "input_length": 600, "output_length": 500},
        {"session_id": "a", "input_length": 1000, "output_length": 5, "hash_ids": [1, 2]},
    )
    trace = open_trace(path)
    a, b, later = (s.blocks.ids for s in trace.shapes if s.blocks)
    assert [len(a), len(b), len(later)] == [2, 2, 5]
    assert later[:2] == a
    assert not set(a) & set(b)
    assert lost(trace) == [
        "1 row clamped: hashes of a turn left out: it begins with the turns before it (first: row 3)"
    ]


def test_mooncake_rows_of_aiperf_may_hold_texts_messages_and_bodies(tmp_path: Path) -> None:
    shapes, _ = read("mooncake_text_aiperf.jsonl")
    assert [(s.due_ns, s.text, s.messages, s.output_tokens) for s in shapes] == [
        (0, "Hello world", (), 4),
        (900 * MS, None, (Message("user", "Hello"),), 4),
    ]
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    (shape,) = open_trace(
        written(tmp_path, {"timestamp": 1, "payload": body, "output_length": 3})
    ).shapes
    assert (shape.messages, shape.output_tokens) == ((Message("user", "Hi"),), 3)


def test_texts_of_a_session_follow_one_another(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"session_id": 1, "text_input": "One", "output_length": 4},
        {"session_id": 1, "text_input": "Two", "output_length": 4, "delay": 5},
    )
    one, two = open_trace(path).shapes
    assert one.messages == (Message("user", "One"),)
    assert two.messages == (*one.messages, Message("assistant", ""), Message("user", "Two"))
    assert (two.session, two.turn, two.delay_ns) == ("1", 1, 5 * MS)


def test_a_mooncake_row_gives_its_prompt_in_one_way(tmp_path: Path) -> None:
    path = written(tmp_path, {"timestamp": 1, "input_length": 4, "text_input": "Hi"})
    with pytest.raises(
        TraceError, match="row 1: text_input is 'Hi', expected nothing beside input_"
    ):
        open_trace(path)


def test_chats_of_bailian_go_on_from_their_parents() -> None:
    shapes, trace = read("bailian_invented.jsonl")
    assert lengths(shapes) == [
        (0, 20, 7), (750 * MS, 16, 9), (4250 * MS, 40, 11), (4750 * MS, 33, 2),
    ]  # fmt: skip
    # The second branch of chat 5 waits for nobody, nor does a chat whose parent is not in the file.
    assert [(s.session, s.turn) for s in shapes] == [("5", 0), ("6", 0), ("5", 1), ("8", 0)]
    assert shapes[2].blocks == PrefixBlocks((1, 4, 5), 16)
    assert [s.label for s in shapes] == ["text", "search", "text", "text"]
    assert lost(trace) == []


@pytest.mark.parametrize(("block", "tokens"), [("bailian", 16), ("mooncake", 512)])
def test_hashes_must_be_as_many_as_the_prompt_has_blocks(
    tmp_path: Path, block: str, tokens: int
) -> None:
    row = {
        "chat_id": 1,
        "parent_chat_id": -1,
        "timestamp": 0,
        "output_length": 1,
        "hash_ids": [1, 2],
    }
    path = written(tmp_path, {**row, "input_length": 2 * tokens + 1})
    with pytest.raises(TraceError, match=r"row 1: hash_ids is \[1, 2\], expected 3 hashes, not 2"):
        open_trace(path, block)


def test_vidur_has_seconds_or_lengths_alone() -> None:
    timed, _ = read("vidur_invented.csv")
    assert lengths(timed) == [(0, 900, 30), (250 * MS, 100, 200)]
    plain, trace = read("vidur_lengths_invented.csv")
    assert lengths(plain) == [(None, 900, 30), (None, 100, 200)]
    assert trace.time == "no times"


def test_a_guidellm_trace_looks_like_mooncake_and_is_not_guessed() -> None:
    with pytest.raises(UsageError) as caught:
        open_trace(TRACES / "guidellm_trace_synthetic.jsonl")
    assert str(caught.value).endswith(
        "guidellm_trace_synthetic.jsonl has the fields of more than one format; add --format "
        "guidellm-trace (GuideLLM traces, times in s) or --format mooncake (Mooncake, times in ms)"
    )
    in_s, trace = read("guidellm_trace_synthetic.jsonl", "guidellm-trace")
    assert lengths(in_s) == [(0, 256, 128), (500 * MS, 512, 64)]
    assert not trace.is_guessed
    in_ms, _ = read("guidellm_trace_synthetic.jsonl", "mooncake")
    assert in_ms[1].due_ns == MS // 2


def test_guidellm_prompts_are_found_under_their_names(tmp_path: Path) -> None:
    shapes, _ = read("guidellm_prompts.csv")
    assert [(s.text, s.output_tokens) for s in shapes] == [
        ("Name three rivers.", 24), ("What is a mutex?", 40),
    ]  # fmt: skip
    path = tmp_path / "p.csv"
    path.write_text(
        "id,question,system_prompt,completion_tokens_count,question_1\n"
        '1,"Why, then?",Be brief.,5,And now?\n'
        "2,Who?,,6,\n"
        "3, ,,6,\n"
    )
    trace = open_trace(path)
    first, second, alone = trace.shapes
    assert first.messages == (Message("system", "Be brief."), Message("user", "Why, then?"))
    assert second.messages == (
        *first.messages,
        Message("assistant", ""),
        Message("user", "And now?"),
    )
    assert (first.session, second.session, second.turn) == ("row 2", "row 2", 1)
    assert (alone.text, alone.session, alone.output_tokens) == ("Who?", None, 6)
    assert lost(trace) == [
        "1 row repaired: answers that the file lacks left empty in later prompts (first: row 2)",
        "1 row dropped: empty prompt (first: row 4)",
    ]


def test_guidellm_prompts_may_be_only_counts_or_messages(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"prompt_tokens_count": 7, "output_tokens_count": 3},
        {"messages": [{"role": "user", "content": "Hi"}], "output_tokens_count": 3},
        {"input_tokens_count": 0},
    )
    trace = open_trace(path, "guidellm-prompts")
    counted, messages = trace.shapes
    assert (counted.prompt_tokens, messages.messages) == (7, (Message("user", "Hi"),))
    assert lost(trace) == ["1 row dropped: no prompt tokens (first: row 3)"]


@pytest.mark.parametrize("end", ["csv", "json", "txt"])
def test_prompts_of_genai_bench_are_a_column_a_list_or_lines(end: str) -> None:
    shapes, _ = read(f"genai_bench_prompts.{end}")
    assert [s.text for s in shapes] == ["Name three rivers.", "What is a mutex?"]
    assert {s.output_tokens for s in shapes} == {None}


def test_prompts_that_are_blank_or_no_text_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('["a", " ", 3]')
    trace = open_trace(path)
    assert [s.text for s in trace.shapes] == ["a"]
    assert [loss.rows for loss in trace.losses.counted()] == [1, 1]


def test_formats_have_names_of_their_own_and_published_ones_a_licence() -> None:
    assert len({f.name for f in FORMATS}) == len(FORMATS)
    licences = {f.name: f.licence for f in FORMATS}
    for name in ("azure", "bailian", "burstgpt", "mooncake", "vidur"):
        assert licences[name]
