"""The adapters of hosted libraries: `batchmark serve --engine KIND` in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.adapter import Adapter, Place
from engines.hosted.libraries import require_library
from engines.http_server import HttpServer
from engines.inhouse_server import INHOUSE
from engines.knobs import Knob, Told, flag
from harness.core.clock import Clock
from harness.core.engine import EngineSpec
from harness.core.rundir import STEPS

OPENVINO_BLOCK = 32  # tokens; the attention kernel of its CPU plugin fixes it
_NO_DRAFTS = "no draft model is hosted"
_OWN_NAME = "it serves a model under its own name"


def _called(word: str, theirs: str) -> Knob:
    """A flag of `batchmark serve`, which the library knows as `theirs`."""
    return lambda value, _: Told((word, str(value)), note=f"{theirs}={value}")


def _switched(word: str, theirs: str) -> Knob:
    """A flag of `batchmark serve` that is there or not, which the library knows as `theirs`."""
    return lambda is_on, _: Told((word,) if is_on else (), note=f"{theirs}={is_on}")


def _openvino_dtype(dtype: str, _: EngineSpec) -> Told:
    names = ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION")
    return Told(("--dtype", dtype), note=", ".join(f"{name}={dtype}" for name in names))


def _kv_tokens(tokens: int, _: EngineSpec) -> Told:
    return Told(("--kv-tokens", str(tokens)), note=f"num_kv_blocks={tokens // OPENVINO_BLOCK}")


def _chunked_prefill(is_on: bool, _: EngineSpec) -> Told:  # noqa: FBT001 - a knob's value
    word = "--chunked-prefill" if is_on else "--no-chunked-prefill"
    return Told((word,), note=f"dynamic_split_fuse={is_on}")


def _padded(is_on: bool, _: EngineSpec) -> Told | str:  # noqa: FBT001 - a knob's value
    why = "generate() takes a rectangle of tokens: prompts are always padded"
    return Told(note=why) if is_on else why


def _window(window_ms: float, _: EngineSpec) -> Told:
    return Told(("--batch-window-ms", f"{window_ms:g}"))


def _command(kind: str, *, logs_steps: bool) -> Callable[[Place], tuple[str, ...]]:
    def command(place: Place) -> tuple[str, ...]:
        log = ("--step-log", f"{place.folder}/{STEPS}") if logs_steps else ()
        return (
            *("-m", "harness.cli", "serve", "--engine", kind, "--model", place.model),
            *("--port", str(place.port), "--until-stdin-closes", *log),
        )

    return command


def _hosted(kind: str, knobs: Mapping[str, Knob | str], **changes: Any) -> Adapter:
    """What all engines behind our own front have in common is told of the in-house engine."""
    return replace(INHOUSE, kind=kind, knobs=knobs, program=sys.executable, **changes)


HUGGINGFACE_STATIC = _hosted(
    "huggingface-static",
    {
        "slots": flag("--slots"),
        "dtype": flag("--dtype"),
        "threads": _called("--threads", "torch.set_num_threads"),
        "pad_prompts": _padded,
        "batch_window_ms": _window,
        "context_tokens": flag("--context-tokens"),
        "batched_tokens": "generate() reads all prompts of a batch in one step",
        "kv_tokens": "its KV cache grows with every token and has no limit",
        "chunked_prefill": "generate() reads prompts whole",
        "prefix_cache": "generate() begins every batch with an empty cache",
        "speculative": _NO_DRAFTS,
        "served_name": _OWN_NAME,
    },
    command=_command("huggingface-static", logs_steps=True),
    env={**INHOUSE.env, "HF_HUB_OFFLINE": "1"},
    capabilities=replace(INHOUSE.capabilities, has_prefix_cache=False),
    waits_for_batches=(None,),
)

OPENVINO = _hosted(
    "openvino",
    {
        "slots": _called("--slots", "max_num_seqs"),
        "dtype": _openvino_dtype,
        "threads": _called("--threads", "INFERENCE_NUM_THREADS"),
        "pad_prompts": "it never pads",
        "batch_window_ms": "it never waits for a batch",
        "context_tokens": flag("--context-tokens"),
        "batched_tokens": _called("--batched-tokens", "max_num_batched_tokens"),
        "kv_tokens": _kv_tokens,
        "chunked_prefill": _chunked_prefill,
        "prefix_cache": _switched("--prefix-cache", "enable_prefix_caching"),
        "speculative": _NO_DRAFTS,
        "served_name": _OWN_NAME,
    },
    command=_command("openvino", logs_steps=False),
    waits_for_batches=(),
    capabilities=replace(
        INHOUSE.capabilities,
        cannot_equal=(
            "the weights: it packs a GGUF file's anew, those of Q4_1 with rounded offsets",
            "the arithmetic: under bfloat16 it rounds the inputs of matrix products to 8 bits",
        ),
    ),
)

ADAPTERS: Mapping[str, Adapter] = {a.kind: a for a in (HUGGINGFACE_STATIC, OPENVINO)}


class HostedServer(HttpServer):
    """A hosted library as a server; its output, and its step log if any, go into `folder`."""

    def __init__(self, spec: EngineSpec, folder: Path, clock: Clock) -> None:
        super().__init__(ADAPTERS[spec.kind], spec, folder, clock)

    def check(self) -> None:
        """Raise UsageError when it is known without a start that the library cannot run here."""
        if self.plan.argv[:1] == (sys.executable,):  # another Python has packages of its own
            require_library(self.spec.kind)
        super().check()
