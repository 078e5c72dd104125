"""Dialects of the numbers: one run under the definitions of other tools, one table per tool.

The formulas were read in the public sources of these tools, at the versions named or next to them:

- vLLM bench: vllm/benchmarks/serve.py (`calculate_metrics`, `benchmark`) and
  vllm/benchmarks/lib/endpoint_request_func.py (`async_request_openai_completions`);
- SGLang bench_serving: sglang/benchmark/serving.py (`async_request_openai_completions`,
  `calculate_metrics`);
- GuideLLM: guidellm/schemas/base/request_stats.py and statistics.py,
  guidellm/benchmark/schemas/generative/metrics.py, guidellm/backends/openai/http.py;
- AIPerf: aiperf/metrics/types/ (ttft, request_latency, inter_token_latency, min_request,
  max_response) and aiperf/metrics/metric_dicts.py, with `--use-server-token-count`;
- MLPerf LoadGen: loadgen/results.cc, loadgen.cc and logging.cc, with token latencies.

Titles are those that the tool prints, or the names in its report when it prints none. What a record
cannot say is listed in `dialect_views`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from harness.analyzer import dialect_measures as measured
from harness.analyzer import dialect_rules as rules
from harness.analyzer import dialect_views as views
from harness.analyzer.dialect_measures import Summary
from harness.analyzer.measures import Unmeasured
from harness.analyzer.number_dialect import (
    E2E,
    ITL,
    OUTPUT,
    REQUESTS,
    TOTAL,
    TPOT,
    TTFT,
    DialectMetric,
    DialectReading,
    Latency,
    NumberDialect,
    latencies,
    rate_of,
    rates_over,
)
from harness.core.rundir import RunFolder

_FROM_SENDING = "from sending, not from due"
_LEFT_OUT = "failures left out; interpolated"
_TO_STREAM_END = "to the end of the stream, not the last token"
_TO_COMPLETION = f"{_TO_STREAM_END}; percentiles one rank up"
_AS_ASKED = "tokens are those asked for, unless usage is running"
_WITH_DRAIN = "from the start of the run to the last close"
_OF_OK = "from the first sending to the last content, failures left out"
_FIRST_TO_LAST = "from the first token of the run to the last; failures too"
_PLUS_PROMPT = "adds the prompt tokens, which are read, not generated"
_AS_TPOT = "what others call TPOT, a mean per request"


def _as(percentile: Callable[..., float], *words: str) -> dict[str, Summary]:
    """Mean, p50 and p99 by that `percentile`, under the tool's words for the three."""
    return dict(
        zip(
            words,
            (measured.mean, partial(percentile, percent=50), partial(percentile, percent=99)),
            strict=True,
        )
    )


VLLM_BENCH = NumberDialect(
    name="vLLM bench",
    version="0.32",
    rules=rules.VLLM_RULES,
    metrics=(
        *latencies(
            views.seen_by_vllm,
            _as(measured.interpolated, "Mean", "Median", "P99"),
            Latency(TTFT, "{} TTFT (ms)", measured.ttft, f"{_FROM_SENDING}; {_LEFT_OUT}"),
            Latency(
                TPOT,
                "{} TPOT (ms)",
                measured.tpot,
                f"an answer in one chunk counts as 0; {_LEFT_OUT}",
            ),
            Latency(
                ITL,
                "{} ITL (ms)",
                measured.chunk_gaps,
                "gaps between chunks, whatever they carry; interpolated",
            ),
            Latency(E2E, "{} E2EL (ms)", measured.e2e, f"{_FROM_SENDING}; {_LEFT_OUT}"),
        ),
        *rates_over(
            views.seen_by_vllm,
            measured.to_last_close,
            {
                OUTPUT: ("Output token throughput (tok/s)", _WITH_DRAIN),
                TOTAL: ("Total token throughput (tok/s)", _PLUS_PROMPT),
                REQUESTS: ("Request throughput (req/s)", _WITH_DRAIN),
            },
        ),
    ),
)

SGLANG = NumberDialect(
    name="SGLang",
    version="0.5.23",
    rules=rules.SGLANG_RULES,
    metrics=(
        *latencies(
            views.seen_by_sglang,
            _as(measured.interpolated, "Mean", "Median", "P99"),
            Latency(TTFT, "{} TTFT (ms)", measured.ttft, f"{_FROM_SENDING}; {_LEFT_OUT}"),
            Latency(
                TPOT,
                "{} TPOT (ms)",
                measured.tpot,
                f"{_TO_STREAM_END}; {_AS_ASKED}",
            ),
            Latency(
                ITL,
                "{} ITL (ms)",
                measured.chunk_gaps,
                "gaps between chunks (per token on its native backend); interpolated",
            ),
            Latency(
                E2E,
                "{} E2E Latency (ms)",
                measured.e2e,
                f"{_FROM_SENDING}; {_TO_STREAM_END}; {_LEFT_OUT}",
            ),
        ),
        *rates_over(
            views.seen_by_sglang,
            measured.to_last_close,
            {
                OUTPUT: (
                    "Output token throughput (tok/s)",
                    f"{_WITH_DRAIN}; {_AS_ASKED}",
                ),
                TOTAL: ("Total token throughput (tok/s)", _PLUS_PROMPT),
                REQUESTS: ("Request throughput (req/s)", _WITH_DRAIN),
            },
        ),
    ),
)

GUIDELLM = NumberDialect(
    name="GuideLLM",
    version="0.8.1",
    rules=rules.GUIDELLM_RULES,
    metrics=(
        *latencies(
            views.seen_by_guidellm,
            _as(measured.by_weight, "mean", "p50", "p99"),
            Latency(
                TTFT,
                "time_to_first_token_ms {}",
                measured.ttft,
                f"{_FROM_SENDING}; failures left out",
            ),
            Latency(
                TPOT,
                "time_per_output_token_ms {}",
                measured.tpot_with_ttft,
                "includes TTFT: from sending to last token, over all tokens; weighed by token",
                is_other_kind=True,
            ),
            Latency(
                ITL,
                "inter_token_latency_ms {}",
                measured.itl_by_token,
                f"{_AS_TPOT}; weighed by token",
                like=TPOT,
                is_other_kind=True,
            ),
            Latency(
                E2E,
                "request_latency {}",
                measured.e2e,
                f"{_FROM_SENDING}; {_TO_STREAM_END}; failures left out",
            ),
        ),
        *rates_over(
            views.all_seen_by_guidellm,
            measured.between_tokens,
            {
                OUTPUT: ("output_tokens_per_second mean", _FIRST_TO_LAST),
                TOTAL: (
                    "tokens_per_second mean",
                    f"{_PLUS_PROMPT}; {_FIRST_TO_LAST}",
                ),
            },
        ),
        *rates_over(
            views.all_seen_by_guidellm,
            measured.to_last_close,
            {
                REQUESTS: (
                    "requests_per_second mean",
                    f"{_WITH_DRAIN}; failures too",
                )
            },
        ),
    ),
)

AIPERF = NumberDialect(
    name="AIPerf",
    version="0.13",
    rules=rules.AIPERF_RULES,
    metrics=(
        *latencies(
            views.seen_by_aiperf,
            _as(measured.interpolated, "avg", "p50", "p99"),
            Latency(
                TTFT, "Time to First Token (ms) {}", measured.ttft, f"{_FROM_SENDING}; {_LEFT_OUT}"
            ),
            Latency(
                ITL,
                "Inter Token Latency (ms) {}",
                measured.tpot,
                f"{_AS_TPOT}; its gaps are Inter Chunk Latency; interpolated",
                like=TPOT,
                is_other_kind=True,
            ),
            Latency(E2E, "Request Latency (ms) {}", measured.e2e, f"{_FROM_SENDING}; {_LEFT_OUT}"),
        ),
        *rates_over(
            views.seen_by_aiperf,
            measured.to_last_content,
            {
                OUTPUT: ("Output Token Throughput (tokens/sec)", _OF_OK),
                TOTAL: ("Total Token Throughput (tokens/sec)", _PLUS_PROMPT),
                REQUESTS: ("Request Throughput (requests/sec)", _OF_OK),
            },
        ),
    ),
)

LOADGEN = NumberDialect(
    name="MLPerf",
    version="LoadGen 6.0",
    rules=rules.LOADGEN_RULES,
    metrics=(
        *latencies(
            views.seen_by_loadgen,
            _as(measured.next_higher, "Mean", "50.00 percentile", "99.00 percentile"),
            Latency(
                TTFT,
                "{} first token latency (ns)",
                measured.ttft,
                "from due, as batchmark; percentiles one rank up",
            ),
            Latency(TPOT, "{} time to output token (ns)", measured.tpot_of_loadgen, _TO_COMPLETION),
            Latency(E2E, "{} latency (ns)", measured.e2e, _TO_COMPLETION),
        ),
        rate_of(
            OUTPUT,
            "Completed tokens per second",
            "to the end of the request issued last; backlog: over the longest latency",
            partial(measured.rate_of_loadgen, amount=measured.output_of),
        ),
        rate_of(
            REQUESTS,
            "Completed samples per second",
            "n - 1, to the end of the request issued last; backlog: over the longest latency",
            partial(measured.rate_of_loadgen, amount=measured.one_of),
        ),
    ),
)

DIALECTS: tuple[NumberDialect, ...] = (VLLM_BENCH, SGLANG, GUIDELLM, AIPERF, LOADGEN)


def read_dialects(run: RunFolder) -> tuple[DialectReading, ...]:
    """Every number of every tool, for `run`."""
    whole = replace(
        run, requests=tuple(run.requests)
    )  # records are made of columns once, not often
    return tuple(
        _reading(dialect, metric, metric.function(whole))
        for dialect in DIALECTS
        for metric in dialect.metrics
    )


def _reading(
    dialect: NumberDialect, metric: DialectMetric, found: float | Unmeasured
) -> DialectReading:
    return DialectReading(
        tool=dialect.name,
        version=dialect.version,
        quantity=metric.quantity.name,
        title=metric.title,
        value=None if isinstance(found, Unmeasured) else found,
        unit=metric.quantity.unit,
        reason=found.reason if isinstance(found, Unmeasured) else None,
        beside=metric.beside,
        differs=metric.differs,
        is_other_kind=metric.is_other_kind,
    )
