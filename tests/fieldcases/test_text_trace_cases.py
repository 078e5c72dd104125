"""Faults in how files of prompts and conversations are read, that users of other tools reported,
with the answers that are right here. The numbers of issues are where somebody met the fault."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from workloads.importers.formats import Trace, open_trace
from workloads.importers.losses import LossKind
from workloads.materialise import PromptOptions, materialise
from workloads.shape import Message, Shape


def opened(path: Path, rows: Any, named: str) -> tuple[list[Shape], Trace]:
    is_document = named.startswith("sharegpt")
    lines = [json.dumps(rows)] if is_document else map(json.dumps, rows)
    path.write_text("\n".join(lines) + "\n")
    trace = open_trace(path, named)
    return list(trace.shapes), trace


def chat(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"conversations": [{"from": who, "value": text} for who, text in turns]}


GOOD = chat(("human", "What is a mutex?"), ("gpt", "A lock."))


@pytest.mark.parametrize("named", ["sharegpt", "sharegpt-sessions"])
@pytest.mark.parametrize("blank", ["", "   "])
def test_e05_empty_prompts_are_dropped_and_counted(tmp_path: Path, named: str, blank: str) -> None:
    """sglang#2011: a division by zero on the client, a crash on the server."""
    rows = [chat(("human", blank), ("gpt", "?")), GOOD]
    shapes, trace = opened(tmp_path / "t.json", rows, named)

    assert len(shapes) == 1
    assert [(loss.kind, loss.reason, loss.rows) for loss in trace.losses.counted()] == [
        (LossKind.DROPPED, "empty prompt", 1)
    ]


def test_e06_of_ten_conversations_with_a_fault_each_but_one_nine_are_dropped_by_reason(
    tmp_path: Path,
) -> None:
    """aiperf#828: malformed rows ended the run."""
    rows = [
        7,
        {"id": "x"},
        {"conversations": "text"},
        {"conversations": [7, 8]},
        chat(("human", "alone")),
        {"conversations": [{"from": "human"}, {"from": "gpt", "value": "x"}]},
        chat(("narrator", "Once"), ("gpt", "x")),
        chat(("gpt", "Hello"), ("human", "Hi")),
        chat(("human", "a"), ("human", "b")),
        GOOD,
    ]
    shapes, trace = opened(tmp_path / "t.json", rows, "sharegpt")
    counts = Counter({loss.reason: loss.rows for loss in trace.losses.counted()})

    assert len(shapes) == 1
    assert counts == {
        "a conversation of fewer than two messages": 4,
        "a message that is no object": 1,
        "a message without content": 1,
        "a message of an unknown role": 1,
        "a conversation that the user does not begin": 1,
        "roles out of order": 1,
    }


def test_e07_a_conversation_of_six_turns_yields_them_all_and_keeps_its_system_prompt(
    tmp_path: Path,
) -> None:
    """AngelSlim#345: the system prompt was under another key, and turns after the second lost."""
    turns = [(who, f"{who} {k}") for k in range(3) for who in ("human", "gpt")]
    shapes, _ = opened(tmp_path / "t.json", [chat(("system", "Be brief."), *turns)], "sharegpt-sessions")  # fmt: skip

    assert [len(s.messages) for s in shapes] == [2, 4, 6]
    assert all(s.messages[0] == Message("system", "Be brief.") for s in shapes)
    assert [s.messages[-1].text for s in shapes] == ["human 0", "human 1", "human 2"]
    assert [s.answer for s in shapes] == ["gpt 0", "gpt 1", "gpt 2"]


class Words:
    """A tokenizer that gives every word the token 1."""

    def encode(self, text: str) -> list[int]:
        return [1 for _ in text.split()]

    def decode(self, token_ids: Any) -> str:
        return " ".join("x" for _ in token_ids)


def test_e13_totals_are_of_the_requests_that_are_sent_not_of_the_rows(tmp_path: Path) -> None:
    """sglang#12601: rows of several rounds made more requests than there were rows."""
    twice = chat(("human", "a b"), ("gpt", "c d e"), ("human", "f"), ("gpt", "g"))
    shapes, _ = opened(tmp_path / "t.json", [twice, GOOD], "sharegpt-sessions")
    options = PromptOptions(
        token_ids=(1, 2),
        tokenizer=Words(),
        chat_text=lambda messages: " ".join(m.text for m in messages),
    )
    arrivals = list(materialise(shapes, options, 1))

    assert [a.request.index for a in arrivals] == [0, 1, 2]
    assert [len(a.request.prompt_token_ids) for a in arrivals] == [2, 6, 4]
    assert [a.request.max_tokens for a in arrivals] == [3, 1, 2]
    assert [a.after and a.after.index for a in arrivals] == [None, 0, None]


def test_e15_rows_with_times_keep_their_times_their_count_and_their_order(tmp_path: Path) -> None:
    """aiperf#273: a trace was read without its times, as ten random requests."""
    rows = [{"text": f"t{k}", "timestamp": 40 * k, "output_length": 3} for k in range(25)]
    shapes, _ = opened(tmp_path / "t.jsonl", rows, "aiperf-single-turn")

    assert [s.text for s in shapes] == [f"t{k}" for k in range(25)]
    assert [s.due_ns for s in shapes] == [40_000_000 * k for k in range(25)]
