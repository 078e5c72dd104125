"""Results of `vllm bench serve`, and of its forerunner `benchmark_serving.py`.

Read in vllm/benchmarks/serve.py of 0.32: one object a run, milliseconds in names that end in `_ms`,
and with `--save-detailed` one list a quantity with an entry a request, in seconds. Older files have
no `failed`. The file says neither the version nor whether a token count is the server's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.dialect_rules import VLLM_RULES
from harness.analyzer.imports.claims import by_pattern, totals
from harness.analyzer.imports.fields import Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import arrivals, settings
from harness.analyzer.imports.result import Format, Result, Shape, TokenKind
from harness.analyzer.imports.rows import streamed_rows
from harness.core.cautions import Caution

_PATTERN = r"(?P<statistic>[a-z0-9.]+)_(?P<quantity>[a-z0-9]+)_ms"
_TIMES = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "inter_chunk_s", "e2el": "e2e_s"}
_TOTALS = {
    "output_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "request_throughput": "request_s",
    "duration": "makespan_s",
    "total_input_tokens": "prompt_tokens",
    "total_output_tokens": "output_tokens",
}


def _read(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    cap = fields.count("max_concurrency")
    return Result(
        tokens=TokenKind.SERVER_OR_CLIENT,
        load=arrivals(fields, "request_rate", cap, fields.number("burstiness")),
        claims=(
            *by_pattern(fields, _PATTERN, _TIMES, "ms"),
            *totals(fields, _TOTALS),
        ),
        rows=tuple(streamed_rows(fields)),
        settings=settings(fields, "num_prompts", "dataset_name", "random_input_len", "best_of"),
        model=fields.text("model_id"),
        workload=fields.text("dataset_name"),
        planned=fields.count("num_prompts"),
        completed=fields.count("completed"),
        failed=fields.count("failed"),
        duration_s=fields.seconds("duration"),
        prompt_tokens=fields.number("total_input_tokens"),
        output_tokens=fields.number("total_output_tokens"),
        concurrency=cap,
        cautions=tuple(_cautions(fields)),
    )


def _cautions(fields: Fields) -> Iterator[Caution]:
    backend = fields.text("backend") or fields.text("endpoint_type") or ""
    if "chat" in backend:
        yield raised(Flag.FIRST_CHUNK_MAY_BE_EMPTY, tool=VLLM_BENCH.tool)


VLLM_BENCH = Format(
    name="vllm-bench",
    tool="vLLM bench",
    rules=VLLM_RULES,
    shapes=(Shape(("model_id", "completed", "request_throughput"), _read),),
    tpot="time from TTFT to the last chunk over the output tokens less one, a mean per request",
    gaps="gaps between chunks, whatever they carry",
)
