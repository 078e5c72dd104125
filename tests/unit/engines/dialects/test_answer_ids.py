"""Which token ids each wire gives, and when an answer's ids are not all known."""

from __future__ import annotations

import json

import pytest

from engines.dialects.llama_completion import LlamaCppDialect
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.sglang_generate import SglangDialect
from engines.dialects.tgi_generate import TgiDialect
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.record import Answer


def openai(ids: object, **more: object) -> object:
    return {"choices": [{"text": "a", "finish_reason": None, "token_ids": ids, **more}]}


def sglang(ids: object, total: int) -> object:
    return {"text": "a" * total, "output_ids": ids, "meta_info": {"completion_tokens": total}}


def tgi(token_id: int) -> object:
    return {"token": {"id": token_id, "text": "a"}}


TGI_END = {"finish_reason": "length", "generated_tokens": 2}
STREAMS: dict[str, tuple[Dialect, list[object], tuple[int, ...] | None]] = {
    "openai": (OpenAICompletionsDialect(), [openai([5]), openai([6, 7])], (5, 6, 7)),
    "openai chat": (OpenAICompletionsDialect(), [openai([5], delta={"content": "a"})], (5,)),
    "several choices": (
        OpenAICompletionsDialect(),
        [{"choices": [{"text": "a", "token_ids": [1]}, {"text": "b", "token_ids": [2]}]}],
        (1, 2),
    ),
    "an event without ids": (OpenAICompletionsDialect(), [openai([5]), openai(None)], None),
    "ids that are none": (OpenAICompletionsDialect(), [openai(["5"])], None),
    "ids that are truths": (OpenAICompletionsDialect(), [openai([True])], None),
    "tgi": (TgiDialect(str), [tgi(5), tgi(6) | {"details": TGI_END}], (5, 6)),  # type: ignore[operator]
    "sglang": (SglangDialect(), [sglang([5], 1), sglang([5, 6, 7], 3)], (5, 6, 7)),
    "sglang incremental": (SglangDialect(), [sglang([5], 1), sglang([6, 7], 3)], (5, 6, 7)),
    "sglang says it twice": (SglangDialect(), [sglang([5, 6], 2), sglang([5, 6], 2)], (5, 6)),
    "llama": (LlamaCppDialect(), [{"content": "a", "tokens": [5], "tokens_predicted": 1}], None),
}


def read(dialect: Dialect, payloads: list[object]) -> Answer:
    body = b"".join(b"data: " + json.dumps(p).encode() + b"\n\n" for p in payloads)
    reads = (Read(1, body + b"data: [DONE]\n\n"),)
    return dialect.decode(Capture(0, 200, (), 1, reads, 2, Ending.COMPLETE))


@pytest.mark.parametrize("stream", STREAMS)
def test_the_ids_of_an_answer_are_those_of_all_its_events_or_not_known(stream: str) -> None:
    dialect, payloads, ids = STREAMS[stream]

    answer = read(dialect, payloads)

    assert answer.token_ids == ids
    assert answer.events


def test_an_answer_without_events_has_no_ids() -> None:
    assert read(OpenAICompletionsDialect(), []).token_ids is None
