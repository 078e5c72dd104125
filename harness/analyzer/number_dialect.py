"""The nouns of the numbers of other tools, and how a table of them is written.

`dialects` holds the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from harness.analyzer import dialect_measures as measured
from harness.analyzer.dialect_measures import Duration, Sample, Summary, View
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
AMOUNTS = {OUTPUT: measured.output_of, TOTAL: measured.total_of, REQUESTS: measured.one_of}


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
        """The unit of its values: seconds for all latencies."""
        rates = {OUTPUT: "tok/s", TOTAL: "tok/s", REQUESTS: "req/s"}
        return rates.get(self.family, "s")


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
    is_other_kind: bool


def our_metric(family: str, statistic: str) -> str | None:
    """The name of our metric for that number, None when we have none."""
    name = OURS.get(family)
    if name is None or (name == WITHOUT_MEAN and statistic == "mean"):
        return None
    return f"{name}_{statistic}" if statistic else name


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency of a tool: its title with {} for the statistic, and how it is sampled.

    `like` is the family of ours that it stands beside when that is not the one of its name.
    """

    family: str
    title: str
    sample: Sample
    differs: str
    like: str | None = None
    is_other_kind: bool = False


def latencies(
    view: View, summaries: Mapping[str, Summary], *latencies: Latency
) -> tuple[DialectMetric, ...]:
    """Mean, p50 and p99 of each; `summaries` are those three, by the tool's word for each."""
    return tuple(
        DialectMetric(
            quantity=Quantity(latency.family, statistic),
            title=latency.title.format(word),
            beside=our_metric(latency.like or latency.family, statistic),
            differs=latency.differs,
            function=partial(measured.latency, view=view, sample=latency.sample, summary=summary),
            is_other_kind=latency.is_other_kind,
        )
        for latency in latencies
        for statistic, (word, summary) in zip(STATISTICS, summaries.items(), strict=True)
    )


def rates_over(
    view: View, duration: Duration, rates: Mapping[str, tuple[str, str]]
) -> tuple[DialectMetric, ...]:
    """Rates over one duration; `rates` gives the title of each, and how it differs."""
    return tuple(
        rate_of(
            family,
            title,
            differs,
            partial(measured.rate, view=view, amount=AMOUNTS[family], duration=duration),
        )
        for family, (title, differs) in rates.items()
    )


def rate_of(
    family: str, title: str, differs: str, function: Callable[[RunFolder], float | Unmeasured]
) -> DialectMetric:
    """One rate of a tool."""
    return DialectMetric(
        quantity=Quantity(family, ""),
        title=title,
        beside=our_metric(family, ""),
        differs=differs,
        function=function,
        is_other_kind=family == TOTAL,
    )
