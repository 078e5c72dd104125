"""vLLM's custom data set: JSON lines with a `prompt`, and perhaps `output_tokens`."""

from __future__ import annotations

from collections.abc import Iterator

from workloads.importers.chat_messages import Notes, answer_tokens, prompt_text, usable_shapes
from workloads.importers.format import Format
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import Shape

# A prompt beside these is one of another tool: of GuideLLM, SGLang, or a request body.
_OF_OTHERS = {
    "completion_tokens_count",
    "extra_request_body",
    "image_data",
    "input_tokens_count",
    "max_tokens",
    "model",
    "output_len",
    "output_tokens_count",
    "prompt_len",
    "prompt_tokens_count",
    "routing_key",
}


def _detect(head: Head) -> bool:
    return not head.is_list and "prompt" in head.keys and not head.keys & _OF_OTHERS


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    return usable_shapes(file.rows(losses), losses, _shapes)


def _shapes(row: Row, notes: Notes) -> list[Shape]:
    tokens = answer_tokens(row, "output_tokens")
    return [Shape(None, tokens, text=prompt_text(row.fields.get("prompt"), notes))]


VLLM_CUSTOM = Format(
    name="vllm-custom",
    title="vLLM custom data set (JSON lines)",
    licence="",
    time=None,
    detect=_detect,
    read=_read,
)
