"""Dialects of the numbers: one run under the definitions of other tools, one table per tool.

The formulas were read in the public sources of these tools, at the versions named or next to them:

- vLLM bench: vllm/benchmarks/serve.py (`calculate_metrics`, `benchmark`) and
  vllm/benchmarks/lib/endpoint_request_func.py (`async_request_openai_completions`);
- SGLang: sglang/benchmark/serving.py (`async_request_openai_completions`, `calculate_metrics`);
- GuideLLM: guidellm/schemas/base/request_stats.py and statistics.py,
  guidellm/benchmark/schemas/generative/metrics.py, guidellm/backends/openai/http.py;
- AIPerf: aiperf/metrics/types/ (ttft, request_latency, inter_token_latency, min_request,
  max_response) and aiperf/metrics/metric_dicts.py, with `--use-server-token-count`;
- MLPerf LoadGen: loadgen/results.cc, loadgen.cc and logging.cc, with token latencies.

Titles are those that the tool prints, or the names in its report when it prints none. What a record
cannot say is listed in `dialect_views`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from harness.analyzer import dialect_measures as measured
from harness.analyzer import dialect_views as views
from harness.analyzer.dialect_measures import Sample, Summary, View
from harness.analyzer.measures import Unmeasured
from harness.core.rundir import RunFolder

TTFT, TPOT, ITL, E2E = "TTFT", "TPOT", "ITL", "E2E"
OUTPUT, TOTAL, REQUESTS = "output tok/s", "total tok/s", "requests/s"
STATISTICS = ("mean", "p50", "p99")
# What the number of that name is with us: a metric's name, without its statistic if it has one.
OURS = {
    TTFT: "ttft_s",
    TPOT: "tpot_s",
    ITL: "inter_chunk_s",
    E2E: "e2e_s",
    OUTPUT: "output_tok_s",
    REQUESTS: "request_s",
}
WITHOUT_MEAN = "inter_chunk_s"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number under the name that it is published with. `statistic` is empty for a rate."""

    family: str
    statistic: str

    @property
    def name(self) -> str:
        """As in `TTFT mean`."""
        return f"{self.family} {self.statistic}".rstrip()

    @property
    def unit(self) -> str:
        """The unit of its values; it is seconds for all latencies."""
        return "" if self.family in {OUTPUT, TOTAL, REQUESTS} else "s"


QUANTITIES: tuple[Quantity, ...] = (
    *(Quantity(family, word) for family in (TTFT, TPOT, ITL, E2E) for word in STATISTICS),
    *(Quantity(family, "") for family in (OUTPUT, TOTAL, REQUESTS)),
)


@dataclass(frozen=True, slots=True)
class DialectMetric:
    """One number of another tool.

    `beside` is the metric of ours that it is held against, None when we have none. `differs` says
    how it differs from that in one line; `is_other_kind` when it is not the same quantity at all.
    """

    quantity: Quantity
    title: str
    beside: str | None
    differs: str
    function: Callable[[RunFolder], float | Unmeasured]
    is_other_kind: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """How a tool counts, in a few words for each question."""

    clock_starts: str
    first_token: str
    request_ends: str
    rates_over: str
    failed_requests: str
    one_token_answers: str
    output_tokens: str
    percentiles: str


@dataclass(frozen=True, slots=True)
class NumberDialect:
    """A tool, the version that was read, how it counts, and its numbers."""

    name: str
    version: str
    rules: Rules
    metrics: tuple[DialectMetric, ...]


@dataclass(frozen=True, slots=True)
class DialectReading:
    """The value of a number of another tool for a run, or None with the reason."""

    tool: str
    version: str
    quantity: str
    title: str
    value: float | None
    unit: str
    reason: str | None
    beside: str | None
    differs: str


def our_metric(family: str, statistic: str) -> str | None:
    """The name of our metric for that number, None when we have none."""
    name = OURS.get(family)
    if name is None or (name == WITHOUT_MEAN and statistic == "mean"):
        return None
    return f"{name}_{statistic}" if statistic else name


def read_dialects(run: RunFolder) -> tuple[DialectReading, ...]:
    """Every number of every tool, for `run`."""
    return tuple(
        _reading(dialect, metric, metric.function(run))
        for dialect in DIALECTS
        for metric in dialect.metrics
    )


def _reading(
    dialect: NumberDialect, metric: DialectMetric, found: float | Unmeasured
) -> DialectReading:
    is_missing = isinstance(found, Unmeasured)
    return DialectReading(
        tool=dialect.name,
        version=dialect.version,
        quantity=metric.quantity.name,
        title=metric.title,
        value=None if isinstance(found, Unmeasured) else found,
        unit=metric.quantity.unit or metric.quantity.family,
        reason=found.reason if is_missing else None,
        beside=metric.beside,
        differs=metric.differs,
    )


@dataclass(frozen=True, slots=True)
class _Latency:
    """A latency of a tool: its title with {} for the statistic, and how it is sampled.

    `like` is the family of ours that it stands beside when that is not the one of its name.
    """

    family: str
    title: str
    sample: Sample
    differs: str
    like: str | None = None
    is_other_kind: bool = False


def _latencies(
    view: View, summaries: Sequence[tuple[str, Summary]], *latencies: _Latency
) -> tuple[DialectMetric, ...]:
    """Mean, p50 and p99 of each; `summaries` are those three, each with the tool's word for it."""
    return tuple(
        DialectMetric(
            quantity=Quantity(latency.family, statistic),
            title=latency.title.format(word),
            beside=our_metric(latency.like or latency.family, statistic),
            differs=latency.differs,
            function=partial(
                measured.latency, view=view, sample=latency.sample, summary=summary
            ),
            is_other_kind=latency.is_other_kind,
        )
        for latency in latencies
        for statistic, (word, summary) in zip(STATISTICS, summaries, strict=True)
    )


def _rate(
    family: str, title: str, differs: str, function: Callable[[RunFolder], float | Unmeasured]
) -> DialectMetric:
    return DialectMetric(
        Quantity(family, ""), title, our_metric(family, ""), differs, function, family == TOTAL
    )
