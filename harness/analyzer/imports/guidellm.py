"""Results of GuideLLM: `benchmarks.json`.

Read in 0.8.1, report schema 2: a report holds one benchmark a rate or stream count, each with
distributions by outcome (`successful`, `errored`, `incomplete`, `total`) and requests by outcome,
of which it may keep a sample only. Keys end in `_ms` where they are milliseconds; `request_latency`
and all instants are seconds of the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.dialect_rules import GUIDELLM_RULES
from harness.analyzer.imports.claims import distribution
from harness.analyzer.imports.fields import Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import settings
from harness.analyzer.imports.result import UNITS, Claim, Format, Result, Row, Shape, TokenKind
from harness.core.cautions import Caution
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind

_TIMES = {
    "time_to_first_token_ms": ("ttft_s", "ms"),
    "inter_token_latency_ms": ("tpot_s", "ms"),
    "time_per_output_token_ms": ("per_output_token_s", "ms"),
    "request_latency": ("e2e_s", "s"),
}
_RATES = {
    "output_tokens_per_second": "output_tok_s",
    "tokens_per_second": "total_tok_s",
    "requests_per_second": "request_s",
}
_SUMS = {"output_token_count": "output_tokens", "prompt_token_count": "prompt_tokens"}
_OUTCOMES = {
    "successful": Outcome.OK,
    "errored": Outcome.FAILED,
    "incomplete": Outcome.UNFINISHED,
}
_WITH_TTFT = "includes TTFT: from sending to the last token over all tokens; weighed by token"


def _read(objects: Sequence[Fields]) -> Result:
    report, benchmark = objects
    metrics, config = benchmark.child("metrics"), benchmark.child("config")
    counts = metrics.child("request_totals")
    strategy = config.child("strategy")
    load = _load(strategy)
    return Result(
        tokens=TokenKind.SERVER_OR_CHUNKS,
        load=load,
        claims=tuple(_claims(metrics)),
        rows=tuple(_rows(benchmark.child("requests"), load)),
        settings={
            **settings(strategy, "type_", "rate", "streams", "max_concurrency"),
            **settings(config.child("requests"), "data"),
        },
        model=_model(report, config),
        version=report.child("metadata").text("guidellm_version"),
        completed=counts.count("successful"),
        failed=counts.count("errored"),
        cancelled=counts.count("incomplete") or 0,
        duration_s=benchmark.seconds("duration"),
        rates_tokens_over_duration=False,
        prompt_tokens=metrics.child("prompt_token_count").child("successful").number("total_sum"),
        output_tokens=metrics.child("output_token_count").child("successful").number("total_sum"),
        concurrency=strategy.count("streams") or strategy.count("max_concurrency"),
        cautions=tuple(_cautions(metrics, benchmark)),
    )


def _claims(metrics: Fields) -> Iterator[Claim]:
    for key, (quantity, unit) in _TIMES.items():
        of_ok = metrics.child(key).child("successful")
        yield from distribution(of_ok, quantity, unit)
        seen = {"p50"} if of_ok.has("median") else set()
        for claim in distribution(of_ok.child("percentiles"), quantity, unit):
            if claim.statistic not in seen:
                yield claim
    for key, quantity in _RATES.items():
        of_all = metrics.child(key).child("total")
        if (value := of_all.number("mean")) is not None:
            yield Claim(quantity, "", value, of_all.where("mean"), UNITS[quantity])
    for key, quantity in _SUMS.items():
        of_ok = metrics.child(key).child("successful")
        if (value := of_ok.number("total_sum")) is not None:
            yield Claim(quantity, "", value, of_ok.where("total_sum"), UNITS[quantity])


def _load(strategy: Fields) -> Load | None:
    kind, rate = strategy.text("type_"), strategy.number("rate")
    if kind == "synchronous":
        return Load(LoadKind.CLOSED, concurrency=1)
    if kind in ("constant", "poisson") and rate is not None and rate > 0:
        return Load(LoadKind(kind), rate_rps=rate)
    if kind == "trace":
        return Load(LoadKind.REPLAY, speed=1.0, replayed="trace")
    streams = strategy.count("streams") or strategy.count("max_concurrency")
    if streams:
        return Load(LoadKind.CLOSED, concurrency=streams)
    return Load(LoadKind.BACKLOG) if kind == "throughput" else None


def _model(report: Fields, config: Fields) -> str | None:
    """Where the model stands depends on the version of the report."""
    for key in ("args", "config"):
        if isinstance(model := report.child(key).data.get("model"), str):
            return model
    model = config.child("backend").data.get("model")
    return model if isinstance(model, str) else None


def _rows(requests: Fields, load: Load | None) -> Iterator[Row]:
    is_due = load is not None and load.is_timed
    for key, outcome in _OUTCOMES.items():
        for request in requests.children(key):
            timings = request.child("info").child("timings")
            sent_s = timings.number("request_start")
            yield Row(
                outcome=outcome,
                sent_s=sent_s,
                due_s=timings.number("targeted_start") if is_due else None,
                ttft_s=_since(sent_s, timings, "first_token_iteration"),
                e2e_s=_since(sent_s, timings, "last_token_iteration"),
                prompt_tokens=request.count("prompt_tokens"),
                output_tokens=request.count("output_tokens"),
                error=request.child("info").text("error") or "",
                id=request.text("request_id"),
            )


def _since(sent_s: float | None, timings: Fields, key: str) -> float | None:
    instant_s = timings.number(key)
    if sent_s is None or instant_s is None:
        return None
    if instant_s < sent_s:
        timings.notes.faults.append(f"{timings.where(key)} is before request_start")
        return None
    return instant_s - sent_s


def _cautions(metrics: Fields, benchmark: Fields) -> Iterator[Caution]:
    if metrics.has("time_per_output_token_ms"):
        yield raised(
            Flag.TPOT_OF_ANOTHER_KIND, key="time_per_output_token_ms", definition=_WITH_TTFT
        )
    for warning in benchmark.children("warnings")[:3]:
        said = warning.text("message")
        if said:
            yield raised(Flag.GUIDELLM_WARNS, said=said)


GUIDELLM = Format(
    name="guidellm",
    tool="GuideLLM",
    rules=GUIDELLM_RULES,
    shapes=(Shape(("benchmarks", "metadata"), _read, parts="benchmarks"),),
    tpot="its inter_token_latency: from the first token to the last over the output tokens less "
    "one, weighed by token",
    gaps="not given",
    others={"per_output_token_s": f"its time_per_output_token, which {_WITH_TTFT}"},
)
