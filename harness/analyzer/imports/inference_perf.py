"""Results of inference-perf: `..._lifecycle_metrics.json`, of a whole run, a stage or its requests.

Read in inference_perf/reportgen/base.py of 0.7: seconds throughout, `median` for p50; a goodput of
successful requests only, which is not taken. Tokens are counted by its tokenizer, `output_tokens`
beside them is what the server said. Rows have the instant of every token, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.analyzer.imports.claims import distribution, totals
from harness.analyzer.imports.fields import Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import closed
from harness.analyzer.imports.result import Claim, Format, Result, Row, Shape, TokenKind
from harness.analyzer.number_dialect import Rules
from harness.core.cautions import Caution
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind

_TIMES = {
    "time_to_first_token": "ttft_s",
    "time_per_output_token": "tpot_s",
    "request_latency": "e2e_s",
    "inter_token_latency": "inter_token_s",
    "normalized_time_per_output_token": "per_output_token_s",
}
_RATES = {
    "output_tokens_per_sec": "output_tok_s",
    "total_tokens_per_sec": "total_tok_s",
    "requests_per_sec": "request_s",
}
_TOLERANCE = 0.02
_RULES = Rules(
    clock_starts="request start",
    first_token="first chunk with a token",
    request_ends="last chunk",
    rates_over="first start to last end",
    failed_requests="left out",
    one_token_answers="no TTFT",
    output_tokens="its tokenizer; usage by option",
    percentiles="interpolated (numpy linear)",
)


def _summary(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    good, sent = fields.child("successes"), fields.child("load_summary")
    failures = fields.child("failures")
    planned = sent.count("count")
    completed = good.count("count")
    failed = failures.count("count")
    return Result(
        tokens=TokenKind.CLIENT,
        load=_load(sent),
        claims=(
            *_distributions(good.child("latency")),
            *totals(good.child("throughput"), _RATES),
            *totals(fields, {"benchmark_time_seconds": "makespan_s"}),
        ),
        settings={} if planned is None else {"count": str(planned)},
        planned=planned,
        completed=completed,
        failed=failed,
        duration_s=fields.seconds("benchmark_time_seconds"),
        output_tokens=_product(good.child("output_len").number("mean"), completed),
        prompt_tokens=_product(_prompt_mean(good), completed),
        concurrency=sent.count("concurrency"),
        cautions=tuple(_cautions(good)),
    )


def _distributions(latency: Fields) -> Iterator[Claim]:
    for key, quantity in _TIMES.items():
        yield from distribution(latency.child(key), quantity, "s")


def _load(sent: Fields) -> Load | None:
    if (concurrency := sent.count("concurrency")) is not None:
        return closed(concurrency)
    rate = sent.number("requested_rate")
    # Constant or Poisson is not said, and its constant gaps are exponential as well.
    return Load(LoadKind.POISSON, rate_rps=rate) if rate is not None and rate > 0 else None


def _prompt_mean(good: Fields) -> float | None:
    mean = good.child("prompt_len").number("mean")
    return good.child("prompt_tokens").number("mean") if mean is None else mean


def _product(mean: float | None, count: int | None) -> float | None:
    return None if mean is None or count is None else mean * count


def _cautions(good: Fields) -> Iterator[Caution]:
    pairs = (("prompt_len", "prompt_tokens", "prompt"), ("output_len", "output_tokens", "output"))
    for client_key, server_key, what in pairs:
        client, server = (good.child(key).number("mean") for key in (client_key, server_key))
        if client is not None and server and abs(client - server) > _TOLERANCE * server:
            yield raised(
                Flag.TOKENIZERS_DIFFER, what=f"mean {what} tokens", client=client, server=server,
                used="the client's",
            )  # fmt: skip
    if differ := good.count("token_count_mismatches"):
        yield raised(Flag.TOKEN_COUNTS_UNSURE, tokens=f"its tokenizer: {differ} request(s) differ "
                     "from what the server says")  # fmt: skip


def _requests(objects: Sequence[Fields]) -> Result:
    return Result.of_rows(tuple(map(_row, objects)))


def _row(line: Fields) -> Row:
    info = line.child("info")
    answer = info.child("response_metrics") if info.has("response_metrics") else info
    prompt = info.child("request_metrics").child("text") if answer is not info else info
    sent_s, ended_s = line.number("start_time"), line.number("end_time")
    instants = [instant for instant in answer.numbers("output_token_times") if instant is not None]
    gaps_s = tuple(after - before for before, after in pairwise(instants))
    is_wrong = any(gap < 0 for gap in gaps_s) or (instants and sent_s and instants[0] < sent_s)
    if is_wrong:
        line.notes.faults.append(f"{answer.where('output_token_times')} goes back in time")
    is_timed = bool(instants) and sent_s is not None and not is_wrong
    error = line.child("error")
    return Row(
        outcome=Outcome.FAILED if error.data else Outcome.OK,
        sent_s=sent_s,
        ttft_s=instants[0] - sent_s if is_timed and sent_s is not None else None,
        e2e_s=_between(sent_s, instants[-1] if is_timed else ended_s),
        gaps_s=gaps_s if is_timed else None,
        prompt_tokens=prompt.count("input_tokens"),
        output_tokens=answer.count("output_tokens"),
        error=error.text("error_type") or "",
    )


def _between(start_s: float | None, end_s: float | None) -> float | None:
    if start_s is None or end_s is None or end_s < start_s:
        return None
    return end_s - start_s


INFERENCE_PERF = Format(
    name="inference-perf",
    tool="inference-perf",
    rules=_RULES,
    shapes=(
        Shape(("successes", "load_summary"), _summary),
        Shape(("start_time", "end_time", "info"), _requests, is_of_rows=True),
    ),
    tpot="time from the first to the last token over the output tokens less one, a mean per "
    "request",
    gaps="not given",
    others={
        "inter_token_s": "gaps between tokens after its tokenizer, 0 within a chunk",
        "per_output_token_s": "whole latency over all output tokens",
    },
)
