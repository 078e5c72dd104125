"""Results of llmperf: `..._summary.json` and `..._individual_responses.json`.

Read in token_benchmark_ray.py and in results that its repository keeps: seconds, flat names such as
`results_ttft_s_quantiles_p99`, whole numbers as text in places; a row a request without instants.
Its inter-token latency is the sum of all gaps, TTFT included, over the tokens of a fixed tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.analyzer.imports.claims import by_pattern, totals
from harness.analyzer.imports.fields import Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import closed, settings
from harness.analyzer.imports.result import Format, Result, Row, Shape, TokenKind
from harness.analyzer.number_dialect import Rules
from harness.core.record import Outcome

_TIMES = {
    "ttft_s": "ttft_s",
    "end_to_end_latency_s": "e2e_s",
    "inter_token_latency_s": "per_output_token_s",
}
_PATTERN = r"results_(?P<quantity>\w+?)_(?:quantiles_)?(?P<statistic>p\d+|mean|min|max)"
_WITH_TTFT = "the sum of all gaps between chunks, TTFT included, over the tokens of its tokenizer"
_RULES = Rules(
    clock_starts="before POST",
    first_token="first chunk",
    request_ends="last chunk",
    rates_over="the length of the run",
    failed_requests="left out",
    one_token_answers="counted as others",
    output_tokens="one Llama tokenizer for all models",
    percentiles="interpolated (pandas linear)",
)


def _summary(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    completed = fields.count("results_num_completed_requests")
    per_minute = fields.number("results_num_completed_requests_per_min")
    each = fields.number("results_number_output_tokens_mean")
    prompts = fields.number("results_number_input_tokens_mean")
    concurrency = fields.count("num_concurrent_requests")
    return Result(
        tokens=TokenKind.CLIENT,
        load=closed(concurrency),
        claims=(
            *by_pattern(fields, _PATTERN, _TIMES, "s"),
            *totals(fields, {"results_mean_output_throughput_token_per_s": "output_tok_s",
                             "results_error_rate": "failure_rate"}),
            *totals(fields, {"results_num_completed_requests_per_min": "request_s"}, scale=1 / 60),
        ),
        settings=settings(
            fields, "mean_input_tokens", "stddev_input_tokens", "mean_output_tokens",
            "stddev_output_tokens",
        ),
        model=fields.text("model"),
        planned=fields.count("results_num_requests_started"),
        completed=completed,
        failed=fields.count("results_number_errors"),
        duration_s=completed / per_minute * 60 if completed and per_minute else None,
        output_tokens=None if each is None or completed is None else each * completed,
        prompt_tokens=None if prompts is None or completed is None else prompts * completed,
        output_tokens_asked=_asked(fields),
        concurrency=concurrency,
        cautions=(
            raised(Flag.TPOT_OF_ANOTHER_KIND, key="inter_token_latency_s", definition=_WITH_TTFT),
        ),
    )  # fmt: skip


def _asked(fields: Fields) -> int | None:
    """The length of all answers, when it was to be the same."""
    is_fixed = fields.number("stddev_output_tokens") == 0
    return fields.count("mean_output_tokens") if is_fixed else None


def _requests(objects: Sequence[Fields]) -> Result:
    return Result.of_rows(tuple(map(_row, objects)))


def _row(row: Fields) -> Row:
    has_failed = row.data.get("error_code") is not None
    return Row(
        outcome=Outcome.FAILED if has_failed else Outcome.OK,
        ttft_s=row.seconds("ttft_s"),
        e2e_s=row.seconds("end_to_end_latency_s"),
        prompt_tokens=row.count("number_input_tokens"),
        output_tokens=row.count("number_output_tokens"),
        error=f"{row.data.get('error_code')}" if has_failed else "",
    )


LLMPERF = Format(
    name="llmperf",
    tool="llmperf",
    rules=_RULES,
    shapes=(
        Shape(("results_num_requests_started", "num_concurrent_requests"), _summary),
        Shape(("ttft_s", "end_to_end_latency_s", "error_code"), _requests, is_of_rows=True),
    ),
    tpot="not given",
    gaps="not given",
    others={"per_output_token_s": f"its inter_token_latency: {_WITH_TTFT}"},
)
