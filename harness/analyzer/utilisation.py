"""What a step log says of the engine's work: where time and memory went, and how much was reached.

The time of a step is that of its model, reading prompts and decoding, and the rest, which is spent
outside. Ceilings are those of the manifest. A field that an engine does not log makes what needs it
Unmeasured.
"""

from __future__ import annotations

from enum import StrEnum

import pandas as pd

from harness.analyzer import server_samples
from harness.analyzer.frame import RunFrame
from harness.analyzer.measures import NO_STEP_LOG, Unmeasured, supported_percentile

NOT_LOGGED = "the engine's step log does not say"
_WORDS = {
    "outside_s": "the time outside the model",
    "read_bytes": "how much a step has to read",
    "flops": "how much a step has to compute",
    "kv_tokens_stored": "what the KV blocks hold",
    "kv_blocks_stranded": "which KV blocks are stranded",
    "preempted": "what was preempted",
    "prefix_hit_tokens": "what was found in the prefix cache",
}
_NO_CEILINGS = "no ceilings were known for these threads; `batchmark doctor` measures them"
_KV_TOKENS = ("kv_tokens_stored", "kv_tokens_unfilled", "kv_tokens_over_reserved")


class Part(StrEnum):
    """Which steps are looked at: those that did something, or one thing alone."""

    ALL = "did anything"
    DECODE_ONLY = "only decoded"
    PREFILL_ONLY = "only read prompts"


def outside_share(frame: RunFrame) -> float | Unmeasured:
    """Time of steps outside the model, over the time of steps."""
    steps = _steps(frame, "outside_s")
    if isinstance(steps, Unmeasured):
        return steps
    return _over(steps["outside_s"].sum(), steps["duration_s"].sum(), "the steps took no time")


def bandwidth_share(frame: RunFrame, part: Part = Part.ALL) -> float | Unmeasured:
    """MBU: the bytes that the steps had to read, over those that the time in the model allows."""
    ceilings = frame.manifest.ceilings
    limit_per_s = None if ceilings is None else ceilings.read_bytes_per_s
    return _reached(frame, "read_bytes", part, limit_per_s)


def matrix_share(frame: RunFrame, part: Part = Part.ALL) -> float | Unmeasured:
    """MFU: what the steps had to compute, over what the time in the model allows."""
    ceilings = frame.manifest.ceilings
    dtype = frame.manifest.facts.dtype or frame.manifest.engine.dtype
    if ceilings is not None and dtype not in ceilings.flops_per_s:
        return Unmeasured(f"no ceiling of {dtype} products was measured")
    limit_per_s = None if ceilings is None else ceilings.flops_per_s[dtype]
    return _reached(frame, "flops", part, limit_per_s)


def stall_share(frame: RunFrame) -> float | Unmeasured:
    """Time in which decoding sequences stood still while prompts were read, over that of steps."""
    steps = _steps(frame)
    if isinstance(steps, Unmeasured):
        return steps
    return _over(_stalls_s(steps).sum(), steps["duration_s"].sum(), "the steps took no time")


def stall_percentile(frame: RunFrame, percent: int) -> float | Unmeasured:
    """A percentile of the single stalls."""
    stalls_s = _found_stalls_s(frame)
    if isinstance(stalls_s, Unmeasured):
        return stalls_s
    return supported_percentile(stalls_s, percent, "stall")


def stall_max(frame: RunFrame) -> float | Unmeasured:
    """The longest single stall."""
    stalls_s = _found_stalls_s(frame)
    return stalls_s if isinstance(stalls_s, Unmeasured) else float(stalls_s.max())


def kv_share(frame: RunFrame, column: str) -> float | Unmeasured:
    """Token-seconds of a column, one of the three that a used block's room is, over all three."""
    steps = _steps(frame, *_KV_TOKENS)
    if isinstance(steps, Unmeasured):
        return steps
    room = steps[list(_KV_TOKENS)].mul(steps["duration_s"], axis=0).sum()
    return _over(room[column], room.sum(), "no KV block was in use")


def stranded_share(frame: RunFrame) -> float | Unmeasured:
    """Block-seconds of stranded blocks, over those of all blocks."""
    steps = _steps(frame, "kv_blocks_stranded", "kv_blocks_total")
    if isinstance(steps, Unmeasured):
        return steps
    seconds = steps["duration_s"]
    stranded = (steps["kv_blocks_stranded"] * seconds).sum()
    return _over(stranded, (steps["kv_blocks_total"] * seconds).sum(), "there are no KV blocks")


def preemptions(frame: RunFrame) -> float | Unmeasured:
    """How often a running request was put back: by the step log, or else the engine's count."""
    steps = _steps(frame, "preempted")
    if isinstance(steps, Unmeasured):
        return server_samples.rise(frame, name="preemptions_total")
    return float(steps["preempted"].sum())


def prefix_hit_share(frame: RunFrame) -> float | Unmeasured:
    """Tokens found in the prefix cache, over those found and those read."""
    steps = _steps(frame, "prefix_hit_tokens")
    if isinstance(steps, Unmeasured):
        return steps
    found = steps["prefix_hit_tokens"].sum()
    return _over(found, found + steps["prefill_tokens"].sum(), "no prompt was read")


def saturated_share(frame: RunFrame) -> float | Unmeasured:
    """Steps with all slots at work and more requests waiting, over all steps."""
    steps = _steps(frame)
    if isinstance(steps, Unmeasured):
        return steps
    return float(((steps["waiting"] > 0) & (steps["running"] == steps["slots"])).mean())


def _steps(frame: RunFrame, *columns: str) -> pd.DataFrame | Unmeasured:
    """The steps, if each of them says every one of `columns`."""
    if frame.steps.empty:
        return Unmeasured(NO_STEP_LOG)
    for name in columns:
        if frame.steps[name].isna().any():
            return Unmeasured(f"{NOT_LOGGED} {_WORDS.get(name, name.replace('_', ' '))}")
    return frame.steps


def _reached(
    frame: RunFrame, column: str, part: Part, limit_per_s: float | None
) -> float | Unmeasured:
    steps = _steps(frame, column)
    if isinstance(steps, Unmeasured):
        return steps
    if limit_per_s is None:
        return Unmeasured(_NO_CEILINGS)
    reads = steps["prefill_sequences"] > 0
    decodes = steps["decode_tokens"] + steps["padded"] > 0
    chosen = {Part.ALL: reads | decodes, Part.DECODE_ONLY: ~reads, Part.PREFILL_ONLY: ~decodes}
    of_part = steps[chosen[part]]
    seconds = of_part["prefill_s"].sum() + of_part["decode_s"].sum()
    return _over(of_part[column].sum(), seconds * limit_per_s, f"no step {part}")


def _stalls_s(steps: pd.DataFrame) -> pd.Series[float]:
    """How long each step that decoded read prompts first, of those that did both."""
    is_stall = (steps["decode_tokens"] > 0) & (steps["prefill_s"] > 0)
    stalls_s: pd.Series[float] = steps.loc[is_stall, "prefill_s"]
    return stalls_s


def _found_stalls_s(frame: RunFrame) -> pd.Series[float] | Unmeasured:
    steps = _steps(frame)
    if isinstance(steps, Unmeasured):
        return steps
    stalls_s = _stalls_s(steps)
    return stalls_s if len(stalls_s) else Unmeasured("no step read a prompt while others decoded")


def _over(part: float, whole: float, unless: str) -> float | Unmeasured:
    return float(part) / float(whole) if whole > 0 else Unmeasured(unless)
