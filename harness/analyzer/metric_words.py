"""How each metric is made: its formula, what weighs how much in it, and which file it is read from.

`due` is the instant at which a request is due in an open loop, and at which it was sent in a closed
one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.core import rundir

_STAMPS = f"{rundir.REQUESTS}: instants stamped by the client"
_OUTCOMES = f"{rundir.REQUESTS}: how each request ended"
_COUNTS = f"{rundir.REQUESTS}: the engine's count of tokens, or that of its events"
_STEPS = f"{rundir.STEPS}: the engine's own log"
_CEILINGS = f"{_STEPS}; {rundir.MANIFEST}: the ceilings of the machine"
_READINGS = f"{rundir.ENGINE_SAMPLES}: the engine's own gauges"

_REQUEST = "each request the same"
_TOKEN = "each token the same"
_STEP_TIME = "each step as long as it took"
_SLOT_STEP = "each slot of each step the same"


@dataclass(frozen=True, slots=True)
class Made:
    """A metric's formula in words, what has which weight in it, and where its numbers are from."""

    formula: str
    weighting: str
    source: str


# By the name of a metric, or of the column that its percentiles, mean and maximum are of.
_MADE = {
    "output_tok_s": Made(
        "Σ output tokens that came in the steady part / its length", _TOKEN, _STAMPS
    ),
    "request_s": Made("requests that ended in the steady part / its length", _REQUEST, _STAMPS),
    "makespan_s": Made("last token of any request - first due", "one value of a run", _STAMPS),
    "ttft_s": Made("first token - due", _REQUEST, _STAMPS),
    "tpot_s": Made("(last token - first token) / (output tokens - 1)", _REQUEST, _STAMPS),
    "e2e_s": Made("last token - due", _REQUEST, _STAMPS),
    "normalized_latency_s": Made("(last token - due) / output tokens", _REQUEST, _STAMPS),
    "user_tok_s": Made("1 / tpot_s_p50", _REQUEST, _STAMPS),
    "goodput_frac": Made("requests within every limit / requests sent", _REQUEST, _STAMPS),
    "goodput_req_s": Made(
        "requests within every limit that ended in the steady part / its length", _REQUEST, _STAMPS
    ),
    "time_to_first_event_s": Made("first event - due", _REQUEST, _STAMPS),
    "time_to_first_answer_s": Made("first token of the answer - due", _REQUEST, _STAMPS),
    "tpot_after_first_event_s": Made(
        "(last token - first token) / (output tokens - tokens of the first event)",
        _REQUEST,
        _STAMPS,
    ),
    "inter_chunk_s": Made(
        "event with tokens - the one before in the same request", "each gap the same", _STAMPS
    ),
    "send_lag_s": Made("sent - due", _REQUEST, _STAMPS),
    "failure_rate": Made("failed requests / requests sent", _REQUEST, _OUTCOMES),
    "output_tokens": Made("Σ output tokens", _TOKEN, _COUNTS),
    "prompt_tokens": Made("Σ prompt tokens", _TOKEN, _COUNTS),
    "cached_prompt_share": Made("Σ cached prompt tokens / Σ prompt tokens", _TOKEN, _COUNTS),
    "busy_share": Made("Σ slots that made a token / Σ slots", _SLOT_STEP, _STEPS),
    "padding_share": Made("Σ slots held by an ended answer / Σ slots", _SLOT_STEP, _STEPS),
    "prefill_s": Made("Σ time of reading prompts", _STEP_TIME, _STEPS),
    "decode_s": Made("Σ time of decoding", _STEP_TIME, _STEPS),
    "decode_output_tok_s": Made("Σ tokens by decoding / Σ time of decoding", _TOKEN, _STEPS),
    "outside_share": Made(
        "Σ time of steps outside the model / Σ time of steps", _STEP_TIME, _STEPS
    ),
    "mbu": Made(
        "Σ bytes to read / (Σ time in the model * ceiling of memory reads)", _STEP_TIME, _CEILINGS
    ),
    "decode_mbu": Made("as MBU, of the steps that read no prompt", _STEP_TIME, _CEILINGS),
    "mfu": Made(
        "Σ operations to compute / (Σ time in the model * ceiling of products)",
        _STEP_TIME,
        _CEILINGS,
    ),
    "prefill_mfu": Made("as MFU, of the steps that only read prompts", _STEP_TIME, _CEILINGS),
    "prefill_stall_share": Made(
        "Σ time of reading prompts in steps that also decode / Σ time of steps", _STEP_TIME, _STEPS
    ),
    "prefill_stall_s": Made(
        "time of reading prompts in a step that also decodes", "each such step the same", _STEPS
    ),
    "kv_stored_share": Made(
        "Σ room with tokens * time / Σ room of used blocks * time", _STEP_TIME, _STEPS
    ),
    "kv_unfilled_share": Made(
        "Σ free rest of blocks with tokens * time / Σ room of used blocks * time",
        _STEP_TIME,
        _STEPS,
    ),
    "kv_over_reserved_share": Made(
        "Σ room reserved without a token * time / Σ room of used blocks * time",
        _STEP_TIME,
        _STEPS,
    ),
    "kv_stranded_share": Made("Σ stranded blocks * time / Σ blocks * time", _STEP_TIME, _STEPS),
    "prefix_hit_share": Made("Σ tokens found / (Σ tokens found + Σ tokens read)", _TOKEN, _STEPS),
    "saturated_share": Made(
        "steps with every slot at work and requests waiting / steps", "each step the same", _STEPS
    ),
    "running_mean": Made("Σ requests running / readings", "each reading the same", _READINGS),
    "kv_share_max": Made("largest KV use of a reading", "each reading the same", _READINGS),
    "preemptions": Made(
        "Σ requests put back", "each time the same", f"{_STEPS}, or else {_READINGS}"
    ),
}
_STATISTICS = {
    "p50": "P50 of {}",
    "p90": "P90 of {}",
    "p99": "P99 of {}",
    "mean": "mean of {}",
    "max": "largest {}",
}


def made_of(metric: str) -> Made:
    """How the metric of that name is made. Raises KeyError when nobody has said it."""
    if metric in _MADE:
        return _MADE[metric]
    stem, _, statistic = metric.rpartition("_")
    made = _MADE[stem]
    return replace(made, formula=_STATISTICS[statistic].format(made.formula))
