"""OpenVINO GenAI's ContinuousBatchingPipeline on the CPU, loaded from a GGUF file.

It computes with weights of 4 or 8 bits, which it packs anew: those of Q8_0 are the file's, while
the offsets of Q4_1 are rounded to whole steps, so that its tokens are not those of other engines.
With a prefix cache a prompt that begins with the whole of another, which is being answered, may get
wrong tokens (seen in 2026.4.1, also without anything of ours).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

from engines.hosted.openvino_engine import Loaded
from engines.hosted.options import HostedOptions
from engines.models.gguf_file import read_gguf
from engines.models.identity import describe_weights, model_digest, model_name
from engines.serving.request_limits import RequestLimits
from harness.core.engine import EngineFacts
from harness.core.errors import ModelFileError, UsageError

# The attention kernel of its CPU plugin fixes it.
BLOCK_TOKENS = 32
PRECISIONS = {"bfloat16": "bf16", "float32": "f32"}


def load(path: Path, options: HostedOptions) -> tuple[Any, Loaded]:
    """The pipeline around the GGUF file at `path`, and what there is to say of it.

    Raises ModelFileError when the model cannot be read, UsageError when an option is wrong.
    """
    if options.device not in {None, "cpu"}:
        msg = f"openvino runs on the CPU here, not on {options.device!r}; use cpu"
        raise UsageError(msg)
    model_context, vocabulary = _sizes(path)
    context = options.context_of(model_context)
    scheduler = _scheduler(options, context)
    properties = _properties(options)
    try:
        pipeline = genai.ContinuousBatchingPipeline(str(path), scheduler, "CPU", properties)
    except RuntimeError as error:
        said = str(error).strip().splitlines()[-1]
        msg = f"OpenVINO GenAI cannot load {path}: {said}; convert the model again, or use another"
        raise ModelFileError(msg) from error
    kv_tokens = scheduler.num_kv_blocks * BLOCK_TOKENS or None
    facts = _facts(path, context, scheduler, _resolved(properties))
    return pipeline, Loaded(facts, RequestLimits(context, kv_tokens, vocabulary))


def _sizes(path: Path) -> tuple[int, int]:
    """The context that the model was made for, and how many token ids it knows."""
    if path.is_dir():
        msg = f"openvino reads a GGUF file, and {path} is a folder; give the GGUF file"
        raise ModelFileError(msg)
    file = read_gguf(path)
    try:
        context = file.metadata[f"{file.metadata['general.architecture']}.context_length"]
        return context, file.tensors["token_embd.weight"].shape[0]
    except KeyError as error:
        msg = f"{path} lacks {error}; convert the model again"
        raise ModelFileError(msg) from None


def _scheduler(options: HostedOptions, context: int) -> Any:
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_seqs = options.slots
    scheduler.enable_prefix_caching = options.prefix_cache
    if options.kv_tokens is not None:
        scheduler.num_kv_blocks = options.kv_tokens // BLOCK_TOKENS
        if scheduler.num_kv_blocks < 1:
            msg = f"a KV cache of {options.kv_tokens} tokens is less than a block of {BLOCK_TOKENS}"
            raise UsageError(msg)
    if options.batched_tokens is not None:
        scheduler.max_num_batched_tokens = options.batched_tokens
    if options.chunked_prefill is not None:
        scheduler.dynamic_split_fuse = options.chunked_prefill
    if not scheduler.dynamic_split_fuse:
        _require_whole_prompts(scheduler, options, context)
    return scheduler


def _require_whole_prompts(scheduler: Any, options: HostedOptions, context: int) -> None:
    """Without chunked prefill the longest prompt must fit into one step."""
    if options.batched_tokens is None:
        scheduler.max_num_batched_tokens = context
    elif options.batched_tokens < context:
        msg = (
            f"without chunked prefill a step must hold a whole prompt: batched_tokens is "
            f"{options.batched_tokens}, the context {context}; raise the one or lower the other"
        )
        raise UsageError(msg)


def _properties(options: HostedOptions) -> Mapping[str, object]:
    """What the CPU plugin is told, in its own words."""
    if options.dtype not in PRECISIONS:
        msg = f"unknown dtype {options.dtype!r}; choose from {', '.join(PRECISIONS)}"
        raise UsageError(msg)
    precision = PRECISIONS[options.dtype]
    properties: dict[str, object] = {
        "INFERENCE_NUM_THREADS": options.cores,
        "INFERENCE_PRECISION_HINT": precision,
        # Its own default is 8 bits; the other engines keep keys and values in the dtype.
        "KV_CACHE_PRECISION": precision,
    }
    if options.dtype == "float32":
        # By default it rounds what it multiplies with quantised weights to 8 bits, in any dtype.
        properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    return properties


def _resolved(properties: Mapping[str, object]) -> Mapping[str, Any]:
    """What the CPU plugin makes of `properties` on this machine, asked of a model of one operation.

    The pipeline itself does not say. A precision that the CPU lacks comes back as another.
    """
    value = ov.opset13.parameter([1], np.float32)
    model = ov.Model([ov.opset13.relu(value)], [value])
    compiled = ov.Core().compile_model(model, "CPU", dict(properties))
    names = {*properties, "DYNAMIC_QUANTIZATION_GROUP_SIZE"}
    return {name: compiled.get_property(name) for name in names}


def _facts(path: Path, context: int, scheduler: Any, resolved: Mapping[str, Any]) -> EngineFacts:
    words = {short: dtype for dtype, short in PRECISIONS.items()}
    precision = resolved["INFERENCE_PRECISION_HINT"].get_type_name()
    return EngineFacts(
        version=f"openvino-genai {version('openvino-genai')}",
        model=model_name(path),
        model_digest=model_digest(path),
        dtype=words.get(precision, precision),
        weights=f"{describe_weights(path)}, packed anew",
        context_tokens=context,
        settings={
            "slots": scheduler.max_num_seqs,
            "batched_tokens": scheduler.max_num_batched_tokens,
            "kv_tokens": scheduler.num_kv_blocks * BLOCK_TOKENS or None,
            "block_tokens": BLOCK_TOKENS,
            "chunked_prefill": scheduler.dynamic_split_fuse,
            "prefix_cache": scheduler.enable_prefix_caching,
            "threads": resolved["INFERENCE_NUM_THREADS"],
            "device": "cpu",
            "kv_dtype": resolved["KV_CACHE_PRECISION"].get_type_name(),
            "rounds_inputs_to_8_bits": int(resolved["DYNAMIC_QUANTIZATION_GROUP_SIZE"]) > 0,
        },
    )
