"""Kind E of the field cases: what goes wrong between a trace and the requests that are sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import TraceError
from workloads.importers.formats import open_trace

MS = 10**6
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_burstgpt_rows_that_failed_are_dropped_and_counted(tmp_path: Path) -> None:
    # E08 vllm-project/vllm#13063
    path = tmp_path / "burstgpt.csv"
    rows = [(472, 18), (250, 0), (0, 0), (90, 31)]
    path.write_text(
        BURSTGPT
        + "".join(f"{i},ChatGPT,{a},{b},{a + b},API log\n" for i, (a, b) in enumerate(rows))
    )
    trace = open_trace(path)
    assert [(s.prompt_tokens, s.output_tokens) for s in trace.shapes] == [(472, 18), (90, 31)]
    assert [(loss.kind, loss.reason, loss.rows) for loss in trace.losses.counted()] == [
        ("dropped", "no output tokens", 1),
        ("dropped", "no prompt tokens", 1),
    ]


def test_azure_instants_keep_their_milliseconds(tmp_path: Path) -> None:
    # E10 kubernetes-sigs/inference-perf#782: cut to two decimals, these became 0, 0, 0 and 10 ms.
    path = tmp_path / "azure.csv"
    times = ("46.6810000", "46.6820000", "46.6890000", "46.6910000")
    path.write_text(AZURE + "".join(f"2023-11-16 18:15:{t},374,44\n" for t in times))
    assert [s.due_ns for s in open_trace(path).shapes] == [0, 1 * MS, 8 * MS, 10 * MS]


def test_seven_digits_of_a_second_are_read(tmp_path: Path) -> None:
    # E10 too
    path = tmp_path / "azure.csv"
    path.write_text(AZURE + "2023-11-16 18:15:46.6805899,1,1\n2023-11-16 18:15:46.6805900,1,1\n")
    assert [s.due_ns for s in open_trace(path).shapes] == [0, 100]


@pytest.mark.parametrize(
    ("times", "named_format", "unit", "words"),
    [
        ((1_750_000_000, 1_750_000_060), "guidellm-trace", None, "taken to be in s"),
        ((1_750_000_000_000, 1_750_000_060_000), "guidellm-trace", None, "ms since 1970: a guess"),
        ((0, 60_000), "guidellm-trace", "ms", "times in ms, as --time-unit says"),
        ((0, 60), "guidellm-trace", None, "taken to be in s"),
        ((1_750_000_000, 1_750_000_060), "mooncake", None, "s since 1970: a guess"),
        ((1_750_000_000_000, 1_750_000_060_000), "mooncake", None, "taken to be in ms"),
        ((0, 60_000), "mooncake", None, "taken to be in ms"),
        ((0, 60), "mooncake", "s", "times in s, as --time-unit says"),
    ],
)
def test_times_since_1970_and_from_the_start_come_to_the_same(
    tmp_path: Path, times: tuple[int, int], named_format: str, unit: str | None, words: str
) -> None:
    # E11 inference-sim/inference-sim#1606: each way of telling a gap of one minute.
    path = tmp_path / "trace.jsonl"
    row = {"input_length": 10, "output_length": 5}
    path.write_text("".join(json.dumps({"timestamp": t, **row}) + "\n" for t in times))
    trace = open_trace(path, named_format, unit)  # type: ignore[arg-type]  # one of the units
    assert words in trace.time
    assert [s.due_ns for s in trace.shapes] == [0, 60_000 * MS]


@pytest.mark.parametrize("named_format", ["mooncake", "guidellm-trace"])
@pytest.mark.parametrize("times", [(0, 1_750_000_000), (1_750_000_000, 5), (0, 1_750_000_000_000)])
def test_times_since_1970_among_times_from_the_start_are_refused(
    tmp_path: Path, times: tuple[int, int], named_format: str
) -> None:
    # E11 too
    path = tmp_path / "trace.jsonl"
    row = {"input_length": 10, "output_length": 5}
    path.write_text("".join(json.dumps({"timestamp": t, **row}) + "\n" for t in times))
    with pytest.raises(TraceError, match=r"row [12]: its time is \d+ s after the request before"):
        list(open_trace(path, named_format).shapes)


def test_a_row_of_several_turns_is_as_many_requests(tmp_path: Path) -> None:
    # E13 sgl-project/sglang#12601: totals are of requests, not of rows.
    path = tmp_path / "prompts.csv"
    path.write_text("prompt_1,prompt_2,output_tokens_count\nHello,And now?,5\n")
    trace = open_trace(path)
    assert [(s.session, s.turn) for s in trace.shapes] == [("row 2", 0), ("row 2", 1)]


def test_a_trace_with_times_keeps_them_its_rows_and_their_order(tmp_path: Path) -> None:
    # E15 ai-dynamo/aiperf#273
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 7 * i, "input_length": 10 + i, "output_length": 5, "hash_ids": [i]}
        for i in range(25)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shapes = list(open_trace(path).shapes)
    assert [(s.due_ns, s.prompt_tokens) for s in shapes] == [
        (7 * i * MS, 10 + i) for i in range(25)
    ]


@pytest.mark.parametrize(
    ("file", "name", "first"),
    [
        ("azure2023_invented.csv", "azure", (512, 16)),
        ("burstgpt_v1_invented.csv", "burstgpt", (301, 25)),
        ("mooncake_invented.jsonl", "mooncake", (1100, 40)),
        ("bailian_invented.jsonl", "bailian", (20, 7)),
    ],
)
def test_k9_traces_of_the_published_shapes_are_told_apart_by_their_first_lines(
    file: str, name: str, first: tuple[int, int]
) -> None:
    trace = open_trace(Path(__file__).parents[1] / "traces" / file)
    shapes = list(trace.shapes)

    assert (trace.format.name, trace.is_guessed) == (name, True)
    assert (shapes[0].prompt_tokens, shapes[0].output_tokens) == first
    assert shapes[0].due_ns == 0
