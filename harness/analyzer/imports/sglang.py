"""Results of SGLang's `bench_serving`.

Read in sglang/bench_serving.py and sglang/benchmark/serving.py (0.5): one object a run, appended to
a file of lines; milliseconds in names that end in `_ms`; with `--output-details` a list for each
quantity with an entry a request, in seconds, without the instants of sending. It may write a bare
Infinity.
It never says how many requests were planned or failed, nor the model before 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.dialect_rules import SGLANG_RULES
from harness.analyzer.imports.claims import by_pattern, totals
from harness.analyzer.imports.fields import Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import arrivals, settings
from harness.analyzer.imports.result import Format, Result, Shape, TokenKind
from harness.analyzer.imports.rows import streamed_rows
from harness.core.cautions import Caution

_TIMES = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "inter_chunk_s", "e2e_latency": "e2e_s"}
_TOTALS = {
    "output_throughput": "output_tok_s",
    "total_throughput": "total_tok_s",
    "request_throughput": "request_s",
    "duration": "makespan_s",
    "total_input_tokens": "prompt_tokens",
    "total_output_tokens": "output_tokens",
}
_SETTINGS = (
    "dataset_name",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "sharegpt_output_len",
    "num_prompts",
)
_TOLERANCE = 0.05


def _read(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    cap = fields.count("max_concurrency")
    rows = tuple(streamed_rows(fields))
    return Result(
        tokens=TokenKind.SERVER_OR_ASKED,
        load=arrivals(fields, "request_rate", cap),
        claims=(
            *by_pattern(fields, r"(?P<statistic>[a-z0-9.]+?)_(?P<quantity>\w+)_ms", _TIMES, "ms"),
            *totals(fields, _TOTALS),
        ),
        rows=rows,
        settings=settings(fields, *_SETTINGS),
        model=fields.text("model_id") or fields.text("model"),
        workload=fields.text("dataset_name"),
        planned=fields.count("num_prompts") or (len(rows) or None),
        completed=fields.count("completed"),
        failed=fields.count("failed"),
        duration_s=fields.seconds("duration"),
        prompt_tokens=fields.number("total_input_tokens"),
        output_tokens=fields.number("total_output_tokens"),
        output_tokens_asked=_asked(fields),
        concurrency=cap,
        cautions=tuple(_cautions(fields)),
    )


def _asked(fields: Fields) -> int | None:
    """Of random prompts with a range ratio of 1 all answers are to have the same length."""
    is_fixed = "random" in (fields.text("dataset_name") or "")
    is_fixed &= fields.number("random_range_ratio") == 1
    return fields.count("random_output_len") if is_fixed else None


def _cautions(fields: Fields) -> Iterator[Caution]:
    server, client = (
        fields.number(key) for key in ("total_output_tokens", "total_output_tokens_retokenized")
    )
    if server and client is not None and abs(client - server) > _TOLERANCE * server:
        yield raised(
            Flag.TOKENIZERS_DIFFER, what="output tokens", client=client, server=server,
            used="the server's",
        )  # fmt: skip


SGLANG = Format(
    name="sglang",
    tool="SGLang",
    rules=SGLANG_RULES,
    shapes=(Shape(("mean_e2e_latency_ms", "completed", "request_throughput"), _read),),
    tpot="time from TTFT to the end of the stream over the output tokens less one, a mean per "
    "request",
    gaps="gaps between chunks, each shared out among its tokens on the native backend",
)
