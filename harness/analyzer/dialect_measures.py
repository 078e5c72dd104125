"""What other tools make of the requests they see: samples, summaries and rates.

A sample takes values out of one request, a summary makes one number of many. None of this is a
metric of ours; `dialects.DIALECTS` gives the numbers their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.analyzer.dialect_views import Seen, seen_by_loadgen
from harness.analyzer.measures import Unmeasured
from harness.core.rundir import RunFolder
from harness.core.units import ns_to_s
from harness.core.workload import LoadKind

Weighted = tuple[float, float]
View = Callable[[RunFolder], Sequence[Seen] | Unmeasured]
Sample = Callable[[Seen], Sequence[Weighted] | Unmeasured]
Summary = Callable[[Sequence[Weighted]], float]
Amount = Callable[[Seen], int | Unmeasured]
Duration = Callable[[RunFolder, Sequence[Seen]], float]


# ---- samples: (value in seconds, weight)


def ttft(seen: Seen) -> Sequence[Weighted]:
    """From the start of the tool's clock to the first token event."""
    return ((seen.first_s - seen.start_s, 1.0),)


def e2e(seen: Seen) -> Sequence[Weighted]:
    """From the start of the tool's clock to its end."""
    return ((seen.end_s - seen.start_s, 1.0),)


def tpot(seen: Seen) -> Sequence[Weighted] | Unmeasured:
    """What is left of the latency after TTFT, over the tokens less one; none for one token."""
    if isinstance(seen.tokens, Unmeasured):
        return seen.tokens
    if seen.tokens < 2:
        return ()
    return (((seen.end_s - seen.first_s) / (seen.tokens - 1), 1.0),)


def tpot_of_loadgen(seen: Seen) -> Sequence[Weighted] | Unmeasured:
    """As `tpot`, but an answer of one token is an error that the run is rejected for."""
    found = tpot(seen)
    if isinstance(found, Unmeasured) or found:
        return found
    return Unmeasured("an answer has fewer than 2 tokens, which LoadGen logs as an error")


def tpot_with_ttft(seen: Seen) -> Sequence[Weighted] | Unmeasured:
    """From start to last token over all tokens, a token weighing one: GuideLLM's TPOT."""
    if isinstance(seen.tokens, Unmeasured):
        return seen.tokens
    if seen.tokens < 1:
        return ()
    return (((seen.last_s - seen.start_s) / seen.tokens, float(seen.tokens)),)


def itl_by_token(seen: Seen) -> Sequence[Weighted] | Unmeasured:
    """From first to last token over the tokens less one, each weighing one: GuideLLM's ITL."""
    if isinstance(seen.tokens, Unmeasured):
        return seen.tokens
    if seen.tokens < 2:
        return ()
    return (((seen.last_s - seen.first_s) / (seen.tokens - 1), float(seen.tokens - 1)),)


def chunk_gaps(seen: Seen) -> Sequence[Weighted]:
    """The gaps between token events, each weighing one."""
    return tuple((gap_s, 1.0) for gap_s in seen.gaps_s)


# ---- summaries


def mean(values: Sequence[Weighted]) -> float:
    """The weighted mean."""
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def interpolated(values: Sequence[Weighted], percent: int) -> float:
    """The percentile as numpy has it by default: linear between two observations."""
    ordered = sorted(value for value, _ in values)
    place, part = divmod((len(ordered) - 1) * percent, 100)
    above = ordered[min(place + 1, len(ordered) - 1)]
    return ordered[place] + (above - ordered[place]) * part / 100


def by_weight(values: Sequence[Weighted], percent: int) -> float:
    """The smallest value that, with those below it, holds `percent` % of the weight."""
    whole, below = sum(weight for _, weight in values), 0.0
    for value, weight in sorted(values):
        below += weight
        if below * 100 >= whole * percent:
            return value
    return max(values)[0]


def next_higher(values: Sequence[Weighted], percent: int) -> float:
    """The observation at rank floor(n * percent / 100) counted from 0: LoadGen's percentile."""
    return sorted(value for value, _ in values)[len(values) * percent // 100]


def latency(run: RunFolder, *, view: View, sample: Sample, summary: Summary) -> float | Unmeasured:
    """`summary` of the samples of every request in `view`, in seconds."""
    seen = view(run)
    if isinstance(seen, Unmeasured):
        return seen
    values: list[Weighted] = []
    for one in seen:
        found = sample(one)
        if isinstance(found, Unmeasured):
            return found
        values += found
    if not values:
        return Unmeasured("n/a (0 samples): no answer has two tokens")
    return summary(values)


# ---- rates


def output_of(seen: Seen) -> int | Unmeasured:
    """Output tokens."""
    return seen.tokens


def total_of(seen: Seen) -> int | Unmeasured:
    """Prompt tokens and output tokens."""
    for count in (seen.tokens, seen.prompt_tokens):
        if isinstance(count, Unmeasured):
            return count
    return seen.tokens + seen.prompt_tokens  # type: ignore[operator]  # both are counts by now


def one_of(_seen: Seen) -> int:
    """The request itself."""
    return 1


def to_last_close(run: RunFolder, _seen: Sequence[Seen]) -> float:
    """Seconds from the start of the run until the last stream ended, whatever came of it."""
    return max((ns_to_s(r.closed_ns) for r in run.requests if r.closed_ns is not None), default=0.0)


def to_last_content(_run: RunFolder, seen: Sequence[Seen]) -> float:
    """Seconds from the first sending to the last content."""
    return max(one.end_s for one in seen) - min(one.start_s for one in seen)


def between_tokens(_run: RunFolder, seen: Sequence[Seen]) -> float:
    """Seconds from the first token event of all to the last."""
    return max(one.last_s for one in seen) - min(one.first_s for one in seen)


def rate(run: RunFolder, *, view: View, amount: Amount, duration: Duration) -> float | Unmeasured:
    """The sum of `amount` over the requests in `view`, a second of `duration`."""
    seen = view(run)
    if isinstance(seen, Unmeasured):
        return seen
    return _per_second(_total(seen, amount), duration(run, seen))


def rate_of_loadgen(run: RunFolder, *, amount: Amount) -> float | Unmeasured:
    """As the Server scenario has it for Poisson arrivals, and the Offline one for a backlog.

    Server divides by the end of the request issued last, so that much of the drain does not count,
    and n requests span n - 1 gaps. Offline divides by the longest latency.
    """
    seen = seen_by_loadgen(run)
    if isinstance(seen, Unmeasured):
        return seen
    total = _total(seen, amount)
    match run.manifest.workload.load.kind:
        case LoadKind.BACKLOG:
            return _per_second(total, max(one.end_s - one.start_s for one in seen))
        case LoadKind.POISSON:
            if amount is one_of:
                total = len(seen) - 1
            return _per_second(total, max(seen, key=lambda one: one.start_s).end_s)
        case LoadKind.CLOSED:
            return Unmeasured("LoadGen has no closed loop of several requests in flight")
        case _:
            return Unmeasured("LoadGen's arrivals over time are always a Poisson process")


def _total(seen: Sequence[Seen], amount: Amount) -> int | Unmeasured:
    total = 0
    for one in seen:
        count = amount(one)
        if isinstance(count, Unmeasured):
            return count
        total += count
    return total


def _per_second(total: int | Unmeasured, seconds: float) -> float | Unmeasured:
    if isinstance(total, Unmeasured):
        return total
    if seconds <= 0 or total <= 0:
        return Unmeasured("the run is too short for a rate: one request, or one instant")
    return total / seconds
