"""Does a file agree with itself? What it says against itself, in words; pure.

Each check compares two things that the same file says, so that none needs to know the tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from harness.analyzer.imports.result import Claim, Result, Row
from harness.core.record import Outcome

# Files round, and count the time before the first request and after the last differently.
TOLERANCE = 0.02
# Seconds taken for milliseconds are a factor of 1000, times what the two differ by anyway.
LIKE_1000 = (100.0, 10_000.0)
_LATENCIES = ("ttft_s", "tpot_s", "e2e_s", "inter_chunk_s", "inter_token_s", "per_output_token_s")
_ROUNDING = 1e-6


def faults_of(result: Result) -> tuple[str, ...]:
    """What `result` says against itself, a sentence each."""
    return tuple(
        dict.fromkeys(
            (
                *(fault for quantity in _LATENCIES for fault in _order(result, quantity)),
                *_negative(result.claims),
                *_counts(result),
                *_totals(result),
                *_shares(result),
                *_times(result),
                *_rows_against_claims(result),
            )
        )
    )


def doubtful_units(result: Result) -> tuple[str, ...]:
    """Where two things that the file says differ by about 1000, which is what a unit does."""
    found = []
    whole, first, each = (result.value(q, "mean") for q in ("e2e_s", "ttft_s", "tpot_s"))
    per_request = _per_request(result)
    if whole and first is not None and each is not None and per_request:
        parts = first + each * max(per_request - 1, 0)
        if _is_like_1000(parts, whole):
            found.append(
                f"TTFT and TPOT add up to {parts:.4g} s a request, its latency is {whole:.4g} s"
            )
    if first and whole and _is_like_1000(first, whole) and first > whole:
        found.append(f"mean TTFT {first:.4g} s, mean latency {whole:.4g} s")
    in_flight = _in_flight(result)
    if in_flight and result.concurrency and _is_like_1000(in_flight, result.concurrency):
        found.append(
            f"latency times rate is {in_flight:.4g} requests in flight, of {result.concurrency}"
        )
    return tuple(found)


def _is_like_1000(a: float, b: float) -> bool:
    low, high = LIKE_1000
    return a > 0 and b > 0 and low <= max(a, b) / min(a, b) <= high


def _order(result: Result, quantity: str) -> Iterator[str]:
    """In order: min <= p1 <= ... <= p99 <= max, and the mean between min and max."""
    claims = [claim for claim in result.claims if claim.quantity == quantity]
    ranked = sorted((claim for claim in claims if claim.statistic != "mean"), key=_rank)
    for low, high in pairwise(ranked):
        if _exceeds(low.value, high.value):
            yield f"{low.key} is {low.value:.6g}, more than {high.key}, {high.value:.6g}"
    mean = result.claim(quantity, "mean")
    if mean is None:
        return
    low_claim, high_claim = result.claim(quantity, "min"), result.claim(quantity, "max")
    if high_claim is not None and _exceeds(mean.value, high_claim.value):
        yield f"{mean.key} is {mean.value:.6g}, more than {high_claim.key}, {high_claim.value:.6g}"
    if low_claim is not None and _exceeds(low_claim.value, mean.value):
        yield f"{mean.key} is {mean.value:.6g}, less than {low_claim.key}, {low_claim.value:.6g}"


def _rank(claim: Claim) -> float:
    ends = {"min": -1.0, "max": 101.0}
    return ends[claim.statistic] if claim.statistic in ends else float(claim.statistic[1:])


def _exceeds(a: float, b: float) -> bool:
    return a > b + _ROUNDING * max(abs(a), abs(b))


def _negative(claims: Sequence[Claim]) -> Iterator[str]:
    for claim in claims:
        if claim.value < 0:
            yield f"{claim.key} is {claim.value:g}, which is less than nothing"


def _counts(result: Result) -> Iterator[str]:
    if result.completed is None or result.planned is None:
        return
    ended = result.completed + (result.failed or 0) + result.cancelled
    if ended > result.planned:
        yield f"{ended} requests ended of {result.planned} that were sent"


def _shares(result: Result) -> Iterator[str]:
    claim = result.claim("failure_rate")
    if claim is None or result.completed is None or result.failed is None:
        return
    sent = result.completed + result.failed
    if claim.value > 1:
        yield f"{claim.key} is {claim.value:g}, and no share is above 1"
    elif sent and abs(claim.value - result.failed / sent) > TOLERANCE:
        yield f"{claim.key} is {claim.value:g}, and {result.failed} of {sent} requests failed"


def _totals(result: Result) -> Iterator[str]:
    """Rates are totals over the duration, and the tokens of both kinds add up."""
    if result.duration_s:
        tokens = result.output_tokens if result.rates_tokens_over_duration else None
        counted = {"output_tok_s": tokens, "request_s": _ended(result)}
        for quantity, total in counted.items():
            claim = result.claim(quantity)
            if claim is None or total is None or _agree(claim.value, total / result.duration_s):
                continue
            right = total / result.duration_s
            yield (
                f"{claim.key} is {claim.value:.6g}, and {total:g} over {result.duration_s:.6g} s "
                f"is {right:.6g}"
            )
    both, out = result.claim("total_tok_s"), result.value("output_tok_s")
    if both is not None and out is not None and _exceeds(out, both.value):
        yield f"{both.key} is {both.value:.6g}, less than the output tokens alone, {out:.6g}"


def _ended(result: Result) -> float | None:
    """The requests that its rate counts: failed ones too when that is what fits (said apart)."""
    if result.completed is None:
        return None
    return result.completed + (counted_failures(result) or 0)


def counted_failures(result: Result) -> int | None:
    """How many failed requests the rate of requests counts; None when it counts none."""
    rate, failed = result.value("request_s"), (result.failed or 0) + result.cancelled
    if not rate or not failed or result.completed is None or not result.duration_s:
        return None
    seen = rate * result.duration_s
    counts_them = _agree(seen, result.completed + failed) and not _agree(seen, result.completed)
    return failed if counts_them else None


def _times(result: Result) -> Iterator[str]:
    """No mean latency is longer than the run, nor a first token later than the last."""
    first, whole = result.claim("ttft_s", "mean"), result.claim("e2e_s", "mean")
    if first is not None and whole is not None and first.value > whole.value * (1 + TOLERANCE):
        yield f"{first.key} is {first.value:.6g} s, longer than {whole.key}, {whole.value:.6g} s"
    run_s = result.duration_s
    for claim in (first, whole, result.claim("tpot_s", "mean")):
        if claim is not None and run_s and claim.value > run_s * (1 + TOLERANCE):
            yield f"{claim.key} is {claim.value:.6g} s, and the run took {run_s:.6g} s"
    in_flight = _in_flight(result)
    cap = result.concurrency
    if in_flight is not None and cap and in_flight > cap * (1 + 5 * TOLERANCE):
        yield f"latency times rate is {in_flight:.4g} requests in flight, and {cap} were allowed"


def _in_flight(result: Result) -> float | None:
    """How many requests were in flight on average, by Little's law."""
    rate, whole = result.value("request_s"), result.value("e2e_s", "mean")
    return None if rate is None or whole is None else rate * whole


def _per_request(result: Result) -> float | None:
    if not result.completed or result.output_tokens is None:
        return None
    return result.output_tokens / result.completed


def _rows_against_claims(result: Result) -> Iterator[str]:
    """The means that the file gives are those of the requests in it, and so is their number."""
    ok = [row for row in result.rows if row.outcome is Outcome.OK]
    if not ok or (result.completed is not None and len(ok) != result.completed):
        return
    for quantity in ("ttft_s", "e2e_s"):
        claim = result.claim(quantity, "mean")
        values = [value for row in ok if (value := _of_row(row, quantity)) is not None]
        # The end of a stream may come later than its last token.
        slack = 1.0 if quantity == "ttft_s" else 5.0
        if claim is None or len(values) != len(ok):
            continue
        mean = fmean(values)
        if abs(claim.value - mean) > slack * TOLERANCE * max(claim.value, mean):
            yield f"{claim.key} is {claim.value:.6g} s, the mean of its requests is {mean:.6g} s"
    total = sum(row.output_tokens or 0 for row in ok)
    if result.output_tokens is not None and not _agree(result.output_tokens, total):
        yield f"it counts {result.output_tokens:g} output tokens, and its requests have {total}"


def _of_row(row: Row, quantity: str) -> float | None:
    return row.ttft_s if quantity == "ttft_s" else row.e2e_s


def _agree(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))
