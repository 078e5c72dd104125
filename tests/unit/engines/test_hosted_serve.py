"""`batchmark serve` for hosted libraries: flags that say nothing to an engine are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands.serve import serve
from harness.core.errors import ModelFileError, UsageError
from harness.core.serve_flags import ServeFlags

FLAGS = ServeFlags(
    model="m",
    policy=None,
    slots=8,
    dtype="bfloat16",
    threads=None,
    pad_prompts=True,
    batch_window_ms=None,
    kv_tokens=None,
    device=None,
    host="127.0.0.1",
    port=0,
    step_log=None,
    until_stdin_closes=False,
)


@pytest.mark.parametrize(
    ("engine", "changes", "words"),
    [
        ("warp", {}, "unknown engine 'warp'; `batchmark serve` has inhouse, huggingface-static"),
        ("openvino", {"policy": "static"}, "--policy has no effect on openvino"),
        ("openvino", {"pad_prompts": False}, "--pad-prompts has no effect on openvino"),
        ("openvino", {"batch_window_ms": 5.0}, "--batch-window-ms has no effect on openvino"),
        ("openvino", {"step_log": Path("steps")}, "--step-log has no effect on openvino"),
        ("openvino", {"batched_tokens": 0}, "--batched-tokens is 0"),
        ("openvino", {"context_tokens": -1}, "--context-tokens is -1"),
        ("huggingface-static", {"kv_tokens": 64}, "--kv-tokens has no effect on huggingface"),
        ("huggingface-static", {"prefix_cache": True}, "--prefix-cache has no effect on hugging"),
        ("huggingface-static", {"policy": "continuous"}, "--policy has no effect on huggingface"),
        (
            "huggingface-static",
            {"chunked_prefill": True},
            "--chunked-prefill has no effect on hugging",
        ),
        ("openvino", {"kv": "reserved"}, "--kv has no effect on openvino"),
        ("openvino", {"capacity": "max_utilization"}, "--capacity has no effect on openvino"),
        (
            "huggingface-static",
            {"step_order": "prefill_first"},
            "--step-order has no effect on hugging",
        ),
        ("openvino", {"block_tokens": 32}, "--block-tokens has no effect on openvino"),
        ("huggingface-static", {"queue_limit": 5}, "--queue-limit has no effect on huggingface"),
        ("openvino", {"queue_tokens": 5}, "--queue-tokens has no effect on openvino"),
        ("inhouse", {"context_tokens": 64}, "--context-tokens has no effect on inhouse"),
        ("inhouse", {"block_tokens": 0}, "--block-tokens is 0"),
        ("inhouse", {"queue_limit": 0}, "--queue-limit is 0"),
        ("inhouse", {"queue_tokens": -1}, "--queue-tokens is -1"),
        ("inhouse", {"drain_s": 0.0}, "--drain-s is 0"),
        ("inhouse", {"policy": "psychic"}, "unknown policy 'psychic'"),
    ],
)
def test_a_flag_that_is_wrong_for_the_engine_is_named(
    engine: str, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        serve(replace(FLAGS, engine=engine, **changes), "1")


@pytest.mark.parametrize("engine", ["huggingface-static", "openvino", "inhouse"])
def test_a_model_that_is_not_there_is_refused_before_anything_is_loaded(engine: str) -> None:
    with pytest.raises(ModelFileError, match="no model and no path is called 'm'"):
        serve(replace(FLAGS, engine=engine), "1")
