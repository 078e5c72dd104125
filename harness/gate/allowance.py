"""What may differ because the user says so: `--allow KEY`, and how every output says it first."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.core.errors import UsageError
from harness.gate.formatting import one_line

RETIRED = "retired"
# Every key that can differ between two runs, as `Difference.key` writes it, and RETIRED.
KEYS = (
    "clock",
    "model",
    "dtype",
    "workload",
    "workload_shape",
    "workload_requests",
    "prompt_lengths",
    "load",
    "cpu",
    "cores",
    "gpus",
    "memory",
    "warm-up",
    "batchmark_version",
    "definitions",
    "engine",
    "engine_version",
    "policy",
    "batch_window_ms",
    "pad_prompts",
    "context",
    "batched_tokens",
    "kv_tokens",
    "chunked_prefill",
    "prefix_cache",
    "speculative",
    "kv_dtype",
    "image",
    "arguments",
    "variables",
    "weights",
    "slots",
    "threads",
    "launch",
    RETIRED,
)


def allowed_keys(words: Sequence[str] | None) -> tuple[str, ...]:
    """The keys of `--allow`, each once. Raises UsageError for one that does not exist."""
    for word in words or ():
        if word not in KEYS:
            msg = f"--allow {one_line(word, 40)!r} is no key; the keys are {', '.join(KEYS)}"
            raise UsageError(msg)
    return tuple(dict.fromkeys(words or ()))


def waivers(allowed: Collection[str], found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Each of `allowed` in words: what differs, or that it was not needed.

    `found` are (key, what differs in words).
    """
    said = {key: [words for k, words in found if k == key] for key in allowed}
    return tuple(word for key in allowed for word in said[key] or (f"{key} (nothing to allow)",))


def allowed_line(said: Sequence[str]) -> str:
    """The first line of an output whose comparison holds by leave of `--allow`; empty if none."""
    return f"NOT ALIKE, compared because of --allow: {'; '.join(said)}" if said else ""
