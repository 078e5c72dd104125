"""Any change to a sample gives requests with counted losses, or one clear error: nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import TraceError, UsageError
from workloads.importers.formats import Trace, open_trace
from workloads.importers.losses import LossKind
from workloads.shape import Shape

SAMPLES = Path(__file__).parents[3] / "traces"
FORMATS = {
    "aiperf-inputs": "aiperf_inputs.json",
    "aiperf-multi-turn": "aiperf_multi_turn.jsonl",
    "aiperf-single-turn": "aiperf_single_turn.jsonl",
    "lmcache": "lmcache_agentic.jsonl",
    "openai-batch": "openai_batch.jsonl",
    "openai-chat": "openai_chat.jsonl",
    "otel": "otel_spans.jsonl",
    "sglang-agentic": "sglang_agentic_trace.json",
    "sglang-autobench": "vllm_custom.jsonl",
    "sglang-custom": "sglang_custom.jsonl",
    "sglang-custom-sessions": "sglang_custom.jsonl",
    "sharegpt": "sharegpt.json",
    "sharegpt-sessions": "sharegpt.json",
    "vllm-custom": "vllm_custom.jsonl",
    "weka": "weka_trace.json",
}
# One row, one request: so none may vanish without a count.
ROW_BY_ROW = {"aiperf-single-turn", "lmcache", "openai-batch", "openai-chat", "sglang-custom", "sharegpt", "vllm-custom"}  # fmt: skip

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([10**9, 10**30, -0.5, 0.25, 1e300, float("nan"), float("inf")])
    | st.sampled_from(["", " ", "7", "x", "\ud800", "[", '{"role": "user"}', "subagent", "system"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "text", "type"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


def documents_of(name: str) -> list[Any]:
    """The sample as JSON values: its lines, or the one document."""
    text = (SAMPLES / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else [json.loads(text)]  # fmt: skip


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in `value` with each of its keys."""
    keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()  # fmt: skip
    for key in keys:
        yield value, key
        yield from places_in(value[key])


def check(trace: Trace, shapes: list[Shape]) -> None:
    turns: dict[str, int] = {}
    for shape in shapes:
        texts = [*filter(None, [shape.text, shape.answer]), *(m.text for m in shape.messages)]
        assert all(text.encode() is not None for text in texts)
        assert (shape.text is not None) + bool(shape.messages) + (
            shape.prompt_tokens is not None
        ) == 1
        assert shape.prompt_tokens != 0
        assert shape.output_tokens != 0
        assert shape.delay_ns >= 0
        assert (shape.due_ns or 0) >= 0
        if shape.blocks:
            assert len(shape.blocks.ids) == -(-(shape.prompt_tokens or 0) // shape.blocks.tokens)
        if shape.session is not None:
            assert shape.turn == turns.get(shape.session, -1) + 1
            turns[shape.session] = shape.turn
    assert all(loss.reason and loss.first_row > 0 for loss in trace.losses.counted())


def read_or_refuse(path: Path, format_name: str, rows: int | None) -> None:
    try:
        trace = open_trace(path, format_name)
        shapes = list(trace.shapes)
    except UsageError as error:
        message = str(error)
        assert str(path) in message
        assert len(message.splitlines()) == 1
        if isinstance(error, TraceError):
            assert " row " in message or "is no JSON" in message or "no list" in message
        return
    check(trace, shapes)
    if rows is not None:
        dropped = sum(loss.rows for loss in trace.losses.counted() if loss.kind is LossKind.DROPPED)
        assert len(shapes) + dropped == rows


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_value_of_any_kind_in_any_place_is_read_or_refused_by_name(
    tmp_path: Path, format_name: str, data: st.DataObject
) -> None:
    name = FORMATS[format_name]
    documents = copy.deepcopy(documents_of(name))
    for _ in range(data.draw(st.integers(1, 2))):
        places = list(places_in(documents))
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        if data.draw(st.booleans()):
            container[key] = data.draw(VALUES)
        elif len(documents) > 1 or container is not documents:
            del container[key]
    path = tmp_path / name
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))

    is_list = not name.endswith("jsonl")
    listed = documents[0] if is_list else documents
    is_plain = isinstance(listed, list) and (is_list or all(isinstance(d, dict) for d in listed))
    rows = len(listed) if is_plain and format_name in ROW_BY_ROW else None
    read_or_refuse(path, format_name, rows)


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_is_cut_or_has_a_wrong_byte_is_read_or_refused_by_name(
    tmp_path: Path, format_name: str, data: st.DataObject
) -> None:
    name = FORMATS[format_name]
    content = (SAMPLES / name).read_bytes()
    place = data.draw(st.integers(1, len(content) - 1))
    inserted = data.draw(
        st.sampled_from([b"", b"\xff", b"\x00", b"\r\n", b'"', b"{", b"]", b",", b"\xef\xbb\xbf"])
    )
    rest = content[place:] if data.draw(st.booleans()) else b""
    path = tmp_path / name
    path.write_bytes(content[:place] + inserted + rest)

    read_or_refuse(path, format_name, None)
