"""How long prompts and answers really were, on both sides: not how long they were asked to be."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from harness.analyzer.summary import Summary

# Means that differ by more are of other work. MLPerf tolerates 10 %.
TOLERANCE = 0.02
# Of a side that answers with more or fewer tokens these say nothing, nor do they when scaled by
# the lengths: other sequences were batched together.
BOUND_TO_LENGTH = ("output_tok_s", "request_s", "makespan_s", "e2e_s", "goodput_req_s")
UNLIKE_WORK = "the sides answered with different numbers of tokens, so it compares unlike work"
PROMPTS, ANSWERS = "prompt_tokens", "output_tokens"


def mean_tokens(run: Summary, metric: str) -> float | None:
    """Tokens of a request that did not fail, on average, by `metric`: PROMPTS or ANSWERS.

    None where that was not measured, or every request failed.
    """
    counts = run.manifest.counts
    tokens = next((value.value for value in run.values if value.metric == metric), None)
    requests = counts.sent - counts.failed
    return tokens / requests if tokens is not None and requests > 0 else None


def mean_of_side(runs: Sequence[Summary], metric: str) -> float | None:
    """The mean over the runs of a side, each weighing the same; None where one does not say."""
    means = [mean_tokens(run, metric) for run in runs]
    known = [mean for mean in means if mean is not None]
    return fmean(known) if known and len(known) == len(means) else None


def are_unlike(baseline: float | None, candidate: float | None) -> bool:
    """True when both are known, and differ by more than the tolerance."""
    if baseline is None or candidate is None:
        return False
    return abs(candidate - baseline) > TOLERANCE * max(baseline, candidate)


def is_bound_to_length(metric: str) -> bool:
    """True when `metric` compares like with like only where answers are equally long."""
    return metric.startswith(BOUND_TO_LENGTH)
