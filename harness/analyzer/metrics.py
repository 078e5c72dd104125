"""Every metric: its name, unit, which way is better, its definition, and the function that is it.

Each has one definition, which is the one in METRICS. A metric that a run cannot support is
Unmeasured, with the reason, and never 0.

Two rules hold for all latencies. They count from the instant a request was due, in an open loop,
and from the instant it was sent, in a closed one. A failed request ranks as +inf in percentiles;
one that was cancelled, or had not ended, has no latency.

Of runs that are held against each other both may leave out a beginning, the same of each, in which
they had not settled: the cut of `experiment`.
"""

from __future__ import annotations

from functools import partial

from harness.analyzer import measures, rates, server_samples, utilisation
from harness.analyzer.latency_metrics import latencies, percentiles, refinements
from harness.analyzer.metric import Better, Metric
from harness.analyzer.step_metrics import STEP_METRICS
from harness.core.errors import UsageError


def find_metric(name: str) -> Metric:
    """The metric called `name`. Raises UsageError, listing those that exist, when there is none."""
    for metric in METRICS:
        if metric.name == name:
            return metric
    names = ", ".join(metric.name for metric in METRICS)
    msg = f"there is no metric {name!r}; the metrics are {names}"
    raise UsageError(msg)


_OVER = (
    "a second of the steady part: of the makespan where all are due at once; with arrivals over "
    "time from the first due instant, or from a cut, to the last; in a closed loop from the first "
    "end to the last send, or of the makespan where it has fewer than twice as many requests as "
    "are in flight"
)

METRICS: tuple[Metric, ...] = (
    Metric(
        "output_tok_s",
        "output tok/s",
        "tok/s",
        Better.HIGHER,
        f"Output tokens of requests that did not fail, {_OVER}.",
        rates.output_tok_s,
    ),
    Metric(
        "request_s",
        "requests/s",
        "req/s",
        Better.HIGHER,
        f"Requests that ended well with a token, {_OVER}.",
        rates.request_s,
    ),
    Metric(
        "makespan_s",
        "makespan",
        "s",
        Better.LOWER,
        "Time from the first request due, or sent in a closed loop, to the last token of any.",
        measures.makespan_s,
    ),
    *latencies("ttft_s", "TTFT", "the time to a request's first token"),
    *latencies(
        "tpot_s",
        "TPOT",
        "a request's time from first to last token over its output tokens less one, each request "
        "weighing the same",
    ),
    *latencies("e2e_s", "end-to-end latency", "the time to a request's last token"),
    *(
        metric
        for metric in latencies(
            "normalized_latency_s",
            "normalized latency",
            "a request's end-to-end latency over its output tokens, each request weighing the same",
        )
        if metric.name.endswith(("p50", "mean"))
    ),
    Metric(
        "user_tok_s",
        "tok/s per user",
        "tok/s",
        Better.HIGHER,
        "Output tokens a second that the median request receives: 1 over TPOT p50.",
        measures.user_tok_s,
    ),
    Metric(
        "goodput_frac",
        "goodput",
        "share",
        Better.HIGHER,
        "Requests that ended well within every limit of --slo, over all requests sent.",
        rates.goodput_frac,
        is_optional=True,
        bounded=rates.bounded_goodput,
    ),
    Metric(
        "goodput_req_s",
        "goodput requests/s",
        "req/s",
        Better.HIGHER,
        f"Requests that ended well within every limit of --slo, {_OVER}.",
        rates.goodput_req_s,
        is_optional=True,
    ),
    *refinements(
        "time_to_first_event_s",
        "time to first event",
        "the time to a request's first event of any kind, which may only name a role",
        refines="ttft_s",
        unknown="no record says when its first event came",
    ),
    *refinements(
        "time_to_first_answer_s",
        "time to first answer token",
        "the time to a request's first token of the answer itself, reasoning left out",
        refines="ttft_s",
        unknown="no event says whether it is of the answer or of reasoning",
    ),
    *refinements(
        "tpot_after_first_event_s",
        "TPOT after the first event",
        "a request's time from first to last token over the tokens that came after its first "
        "event, of engines that count tokens by event",
        refines="tpot_s",
        unknown="no request has tokens counted by event after its first",
    ),
    *percentiles(
        "inter_chunk_s",
        "inter-chunk gap",
        "the gaps between token events of one request, pooled over the requests that ended well, "
        "each gap weighing the same",
        measures.gap_percentile,
    ),
    Metric(
        "send_lag_s_p99",
        "send lag p99",
        "s",
        Better.LOWER,
        "Percentile 99 of how much later than due a request was sent (open loop only).",
        partial(measures.send_lag, function=measures.request_percentile, percent=99),
    ),
    Metric(
        "send_lag_s_max",
        "longest send lag",
        "s",
        Better.LOWER,
        "Maximum of how much later than due a request was sent (open loop only).",
        partial(measures.send_lag, function=measures.request_max),
    ),
    Metric(
        "failure_rate",
        "failure rate",
        "share",
        Better.LOWER,
        "Requests that failed, over requests sent.",
        measures.failure_rate,
        bounded=rates.bounded_failures,
    ),
    Metric(
        "output_tokens",
        "output tokens",
        "tokens",
        Better.NEITHER,
        "Output tokens received by the requests that did not fail.",
        partial(measures.token_sum, column="output_tokens"),
    ),
    Metric(
        "prompt_tokens",
        "prompt tokens",
        "tokens",
        Better.NEITHER,
        "Prompt tokens of the requests that did not fail, as the engine counts them.",
        partial(measures.token_sum, column="prompt_tokens"),
    ),
    Metric(
        "cached_prompt_share",
        "cached prompt tokens",
        "share",
        Better.NEITHER,
        "Prompt tokens that the engine says it had in a cache, over those that it counts, of the "
        "requests that ended well and say so.",
        measures.cached_prompt_share,
        refines="prompt_tokens",
    ),
    *STEP_METRICS,
    Metric(
        "running_mean",
        "mean running",
        "requests",
        Better.NEITHER,
        "Mean number of requests that the engine said it ran, over its readings during the run.",
        server_samples.running_mean,
    ),
    Metric(
        "kv_share_max",
        "peak KV use",
        "share",
        Better.NEITHER,
        "Largest share of its KV cache that the engine said was in use, of its readings during the "
        "run.",
        server_samples.kv_share_max,
    ),
    Metric(
        "preemptions",
        "preemptions",
        "preemptions",
        Better.LOWER,
        "How often a running request was put back over the run, by the engine's step log, or else "
        "by its own count.",
        utilisation.preemptions,
    ),
)
