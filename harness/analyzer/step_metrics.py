"""The metrics that come from an engine's step log; a part of metrics.METRICS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.analyzer import measures, utilisation
from harness.analyzer.frame import RunFrame
from harness.analyzer.measures import Unmeasured
from harness.analyzer.metric import Better, Metric
from harness.analyzer.utilisation import Part


def _share(
    name: str,
    title: str,
    better: Better,
    definition: str,
    function: Callable[[RunFrame], float | Unmeasured],
) -> Metric:
    return Metric(name, title, "share", better, definition, function, is_of_steps=True)


_TOTALS = (
    _share(
        "busy_share",
        "busy slots",
        Better.HIGHER,
        "Slot-steps in which a slot produced a token, over all slot-steps.",
        partial(measures.from_steps, function=lambda totals: totals.busy_share),
    ),
    _share(
        "padding_share",
        "padded slots",
        Better.LOWER,
        "Slot-steps in which a slot was held by a request that had ended, over all slot-steps.",
        partial(measures.from_steps, function=lambda totals: totals.padding_share),
    ),
    Metric(
        "prefill_s",
        "prefill time",
        "s",
        Better.LOWER,
        "Time inside the engine's steps that went to reading prompts.",
        partial(measures.from_steps, function=lambda totals: totals.prefill_s),
        is_of_steps=True,
    ),
    Metric(
        "decode_s",
        "decode time",
        "s",
        Better.LOWER,
        "Time inside the engine's steps that went to decoding.",
        partial(measures.from_steps, function=lambda totals: totals.decode_s),
        is_of_steps=True,
    ),
    Metric(
        "decode_output_tok_s",
        "decode tok/s",
        "tok/s",
        Better.HIGHER,
        "Tokens produced by decoding, over the time inside steps that went to decoding.",
        partial(measures.from_steps, function=measures.decode_output_tok_s),
        is_of_steps=True,
    ),
)
_REACHED = (
    _share(
        "outside_share",
        "time outside the model",
        Better.LOWER,
        "Time of the engine's steps that was not spent in the model, over the time of its steps.",
        utilisation.outside_share,
    ),
    _share(
        "mbu",
        "memory bandwidth used (MBU)",
        Better.HIGHER,
        "Bytes that the steps had to read at least, over the time in the model and the ceiling of "
        "memory reads; more than 100 % says that caches held some of them.",
        utilisation.bandwidth_share,
    ),
    _share(
        "decode_mbu",
        "MBU, decoding",
        Better.HIGHER,
        "Memory bandwidth used in the steps that read no prompt.",
        partial(utilisation.bandwidth_share, part=Part.DECODE_ONLY),
    ),
    _share(
        "mfu",
        "matrix throughput used (MFU)",
        Better.HIGHER,
        "Operations that the steps had to compute at least, over the time in the model and the "
        "ceiling of products in the dtype of the run.",
        utilisation.matrix_share,
    ),
    _share(
        "prefill_mfu",
        "MFU, reading prompts",
        Better.HIGHER,
        "Matrix throughput used in the steps that did nothing but read prompts.",
        partial(utilisation.matrix_share, part=Part.PREFILL_ONLY),
    ),
)
_STALLS = (
    _share(
        "prefill_stall_share",
        "prefill stall",
        Better.LOWER,
        "Time in which sequences that were decoding stood still because prompts were read in the "
        "same step, over the time of all steps.",
        utilisation.stall_share,
    ),
    Metric(
        "prefill_stall_s_p99",
        "prefill stall p99",
        "s",
        Better.LOWER,
        "Percentile 99 of the single stalls of decoding by prompts, one of each step with both.",
        partial(utilisation.stall_percentile, percent=99),
        is_of_steps=True,
    ),
    Metric(
        "prefill_stall_s_max",
        "longest prefill stall",
        "s",
        Better.LOWER,
        "Maximum of the single stalls of decoding by prompts.",
        utilisation.stall_max,
        is_of_steps=True,
    ),
)
_MEMORY = (
    _share(
        "kv_stored_share",
        "KV room with tokens",
        Better.HIGHER,
        "Token-seconds of the used KV blocks' room that held keys and values, over those of all of "
        "that room, each step weighing as long as it took.",
        partial(utilisation.kv_share, column="kv_tokens_stored"),
    ),
    _share(
        "kv_unfilled_share",
        "KV room unfilled",
        Better.LOWER,
        "Token-seconds in the free rest of blocks with tokens (internal fragmentation), over those "
        "of all used KV blocks' room.",
        partial(utilisation.kv_share, column="kv_tokens_unfilled"),
    ),
    _share(
        "kv_over_reserved_share",
        "KV room over-reserved",
        Better.LOWER,
        "Token-seconds in blocks that were reserved and held no token yet, over those of all used "
        "KV blocks' room.",
        partial(utilisation.kv_share, column="kv_tokens_over_reserved"),
    ),
    _share(
        "kv_stranded_share",
        "KV blocks stranded",
        Better.LOWER,
        "Block-seconds of free blocks that were enough for the next request but did not stand in "
        "one run (external fragmentation), over those of all blocks.",
        utilisation.stranded_share,
    ),
    _share(
        "prefix_hit_share",
        "prefix cache hits",
        Better.NEITHER,
        "Tokens that the engine found in its prefix cache, over those found and those read.",
        utilisation.prefix_hit_share,
    ),
    _share(
        "saturated_share",
        "saturated steps",
        Better.NEITHER,
        "Steps with all slots at work and more requests waiting, over all steps.",
        utilisation.saturated_share,
    ),
)
STEP_METRICS: tuple[Metric, ...] = (*_TOTALS, *_REACHED, *_STALLS, *_MEMORY)
