"""The flags of `batchmark serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.core.engine_flags import (
    DEFAULT_MODEL,
    BatchedTokens,
    ChunkedPrefill,
    ContextTokens,
    Dtype,
    KvTokens,
    Model,
    PadPrompts,
    PrefixCache,
    Slots,
    Threads,
    WindowMs,
)
from harness.core.flag import Flag


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The flags of `batchmark serve`, as typed; `policy` None is the engine's own."""

    engine: Annotated[str, Flag("inhouse, huggingface-static or openvino.")] = "inhouse"
    model: Model = DEFAULT_MODEL
    policy: Annotated[str | None, Flag("Of inhouse: static, dynamic, or continuous (default).")] = (
        None
    )
    slots: Slots = 8
    dtype: Dtype = "bfloat16"
    threads: Threads = None
    pad_prompts: PadPrompts = True
    batch_window_ms: WindowMs = None
    context_tokens: ContextTokens = None
    batched_tokens: BatchedTokens = None
    kv_tokens: KvTokens = None
    chunked_prefill: ChunkedPrefill = None
    prefix_cache: PrefixCache = False
    kv: Annotated[str, Flag("KV blocks: paged, as an answer grows, or reserved, all at once.")] = (
        "paged"
    )
    capacity: Annotated[
        str,
        Flag(
            "A request starts when it is sure to end: guaranteed_no_evict, or when its prompt "
            "fits: max_utilization, where the youngest may have to begin again."
        ),
    ] = "guaranteed_no_evict"
    step_order: Annotated[str, Flag("What a step does first: decode_first or prefill_first.")] = (
        "decode_first"
    )
    block_tokens: Annotated[int, Flag("Tokens of a KV block.")] = 16
    kv_bytes: Annotated[
        int | None, Flag("Bytes that the KV cache takes; instead of --kv-tokens.")
    ] = None
    weights: Annotated[
        str, Flag("How weights are kept: bfloat16, or int8 with the error reported.")
    ] = "bfloat16"
    queue_limit: Annotated[
        int | None, Flag("Most requests that wait for a slot; more are answered 429.")
    ] = None
    queue_tokens: Annotated[
        int | None, Flag("Most prompt tokens that wait for a slot; more get a 429.")
    ] = None
    device: Annotated[str | None, Flag("cpu or cuda; cuda when present.")] = None
    host: Annotated[str, Flag("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Flag("Port to listen on.")] = 8000
    step_log: Annotated[Path | None, Flag("Append a line per step here.")] = None
    until_stdin_closes: Annotated[
        bool,
        Flag(
            "End at once, answers in flight or not, when standard input closes.",
            "--until-stdin-closes",
        ),
    ] = False
    drain_s: Annotated[
        float,
        Flag(
            "On SIGTERM or SIGINT, go on with the answers in flight for so long at most; a second "
            "signal ends at once."
        ),
    ] = 30.0
