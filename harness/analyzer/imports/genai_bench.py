"""Results of genai-bench: the file of one run, `SCENARIO_..._num_concurrency_N_time_Ns.json`.

Read in 0.0.5: aggregates, and a row a request without instants, in `_time_unit`. The model stands
in `experiment_metadata.json` beside it, which may hold connection settings and is not read. What it
calls `output_throughput` of a request leaves out TTFT and is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analyzer.imports.claims import distribution, totals
from harness.analyzer.imports.fields import UNITS_S, Fields
from harness.analyzer.imports.loads import closed, settings
from harness.analyzer.imports.result import Claim, Format, Result, Row, Shape, TokenKind
from harness.analyzer.number_dialect import Rules
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind

_TIMES = {"ttft": "ttft_s", "tpot": "tpot_s", "e2e_latency": "e2e_s"}
_TOTALS = {
    "mean_output_throughput_tokens_per_s": "output_tok_s",
    "mean_total_tokens_throughput_tokens_per_s": "total_tok_s",
    "requests_per_second": "request_s",
    "run_duration": "makespan_s",
    "error_rate": "failure_rate",
}
_RULES = Rules(
    clock_starts="before POST",
    first_token="first chunk with content",
    request_ends="end of the stream",
    rates_over="the length of the run",
    failed_requests="left out",
    one_token_answers="TPOT 0",
    output_tokens="usage, else its tokenizer",
    percentiles="interpolated (numpy linear)",
)


def _read(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    unit = fields.text("_time_unit") or "s"
    if unit not in UNITS_S:
        fields.refuse("_time_unit", f"one of {', '.join(UNITS_S)}")
    overall = fields.child("aggregated_metrics")
    stats = overall.child("stats")
    return Result(
        tokens=TokenKind.SERVER_OR_CLIENT,
        load=_load(overall),
        claims=(
            *_distributions(stats, unit),
            *totals(overall, _TOTALS),
            *_sums(stats),
        ),
        rows=tuple(_row(row, unit) for row in fields.children("individual_request_metrics")),
        settings=settings(overall, "scenario", "batch_size", "iteration_type"),
        workload=overall.text("scenario"),
        completed=overall.count("num_completed_requests"),
        failed=overall.count("num_error_requests"),
        duration_s=overall.seconds("run_duration"),
        prompt_tokens=stats.child("num_input_tokens").number("sum"),
        output_tokens=stats.child("num_output_tokens").number("sum"),
        concurrency=overall.count("num_concurrency"),
    )


def _distributions(stats: Fields, unit: str) -> Iterator[Claim]:
    for key, quantity in _TIMES.items():
        yield from distribution(stats.child(key), quantity, unit)


def _sums(stats: Fields) -> Iterator[Claim]:
    sums: Mapping[str, str] = {
        "num_input_tokens": "prompt_tokens",
        "num_output_tokens": "output_tokens",
    }
    for key, quantity in sums.items():
        yield from totals(stats.child(key), {"sum": quantity})


def _load(overall: Fields) -> Load | None:
    rate = overall.number("request_rate")
    if rate is not None and rate > 0:
        return Load(LoadKind.CONSTANT, rate_rps=rate)
    return closed(overall.count("num_concurrency"))


def _row(row: Fields, unit: str) -> Row:
    has_failed = row.data.get("error_code") is not None
    return Row(
        outcome=Outcome.FAILED if has_failed else Outcome.OK,
        ttft_s=row.seconds("ttft", unit),
        e2e_s=row.seconds("e2e_latency", unit),
        prompt_tokens=row.count("num_input_tokens"),
        output_tokens=row.count("num_output_tokens"),
        error=f"{row.data.get('error_code')}" if has_failed else "",
    )


GENAI_BENCH = Format(
    name="genai-bench",
    tool="genai-bench",
    rules=_RULES,
    shapes=(Shape(("aggregated_metrics", "individual_request_metrics"), _read),),
    tpot="time from TTFT to the end of the stream over the output tokens less one, a mean per "
    "request",
    gaps="not given",
)
