"""Every metric: its name, unit, which way is better, its definition, and the function that is it.

Each has one definition, which is the one in METRICS. A metric that a run cannot support is
Unmeasured, with the reason, and never 0.

Two rules hold for all latencies. They count from the instant a request was due, in an open loop,
and from the instant it was sent, in a closed one. A failed request ranks as +inf in percentiles;
one that was cancelled, or had not ended, has no latency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from harness.analyzer import measures, server_samples, utilisation
from harness.analyzer.measures import Unmeasured
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


def _percentiles(
    name: str, title: str, definition: str, function: Callable[..., float | Unmeasured]
) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            f"{name}_p{percent}",
            f"{title} p{percent}",
            "s",
            Better.LOWER,
            f"Percentile {percent} of {definition}.",
            partial(function, percent=percent),
        )
        for percent in (50, 90, 99)
    )


def _refinements(
    name: str, title: str, definition: str, refines: str, unknown: str
) -> tuple[Metric, ...]:
    """The latencies of a column that not every engine fills; `unknown` is why when it has none."""
    return tuple(
        replace(
            metric,
            function=partial(measures.where_known, metric.function, column=name, unknown=unknown),
            refines=metric.name.replace(name, refines),
        )
        for metric in _latencies(name, title, definition)
    )


def _latencies(name: str, title: str, definition: str) -> tuple[Metric, ...]:
    """Percentiles over all requests, and the mean and maximum of those that ended well.

    The last two have no floor, so that a small run shows something.
    """
    well = f"{definition}, of the requests that ended well"
    return (
        *_percentiles(name, title, definition, partial(measures.request_percentile, column=name)),
        Metric(
            f"{name}_mean",
            f"mean {title}",
            "s",
            Better.LOWER,
            f"Mean of {well}.",
            partial(measures.request_mean, column=name),
        ),
        Metric(
            f"{name}_max",
            f"longest {title}",
            "s",
            Better.LOWER,
            f"Maximum of {well}.",
            partial(measures.request_max, column=name),
        ),
    )


METRICS: tuple[Metric, ...] = (
    Metric(
        "output_tok_s",
        "output tok/s",
        "tok/s",
        Better.HIGHER,
        "Output tokens of requests that did not fail, over the makespan; with arrivals over time "
        "those received from the first due instant until the last, over the time between them.",
        measures.output_tok_s,
    ),
    Metric(
        "request_s",
        "requests/s",
        "req/s",
        Better.HIGHER,
        "Requests that ended well with a token, over the makespan; with arrivals over time those "
        "that ended from the first due instant until the last, over the time between them.",
        measures.request_s,
    ),
    Metric(
        "makespan_s",
        "makespan",
        "s",
        Better.LOWER,
        "Time from the first request due, or sent in a closed loop, to the last token of any.",
        measures.makespan_s,
    ),
    *_latencies("ttft_s", "TTFT", "the time to a request's first token"),
    *_latencies(
        "tpot_s",
        "TPOT",
        "a request's time from first to last token over its output tokens less one, each request "
        "weighing the same",
    ),
    *_latencies("e2e_s", "end-to-end latency", "the time to a request's last token"),
    *_refinements(
        "time_to_first_event_s",
        "time to first event",
        "the time to a request's first event of any kind, which may only name a role",
        refines="ttft_s",
        unknown="no record says when its first event came",
    ),
    *_refinements(
        "time_to_first_answer_s",
        "time to first answer token",
        "the time to a request's first token of the answer itself, reasoning left out",
        refines="ttft_s",
        unknown="no event says whether it is of the answer or of reasoning",
    ),
    *_refinements(
        "tpot_after_first_event_s",
        "TPOT after the first event",
        "a request's time from first to last token over the tokens that came after its first "
        "event, of engines that count tokens by event",
        refines="tpot_s",
        unknown="no request has tokens counted by event after its first",
    ),
    *_percentiles(
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
