"""What the answers of two sides make doubtful: above all a faster side that did other work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.core.cautions import Caution, Code, caution
from harness.gate import formatting
from harness.gate.agreement import Agreement, Answers
from harness.gate.lengths import are_unlike

SAME_SHARE = 0.9
EMPTY_TOLERANCE = 0.01
# Lengths that part so far come from one distribution in fewer cases than this.
ALIKE_P = 0.01
# What says which side is faster, of what a whole request takes first.
SPEEDS = ("request_s", "e2e_s_p50", "output_tok_s", "tpot_s_p50", "ttft_s_p50")


class Measured(Protocol):
    """One metric of both sides: a row of a comparison, or what a gate decided on."""

    @property
    def metric(self) -> str: ...
    @property
    def baseline(self) -> float | None: ...
    @property
    def candidate(self) -> float | None: ...
    @property
    def is_unclear(self) -> bool: ...


def has_other_lengths(found: Agreement) -> bool:
    """True when answers are shorter here and longer there than chance explains, on average or not.

    By statistics of lengths alone: that means differ is seen in numbers of runs, by `lengths`.
    """
    return found.lengths_p is not None and found.lengths_p < ALIKE_P


def agreement_cautions(
    names: tuple[str, str], found: Agreement, speeds: Sequence[Measured] = ()
) -> Iterator[Caution]:
    """What `found` makes doubtful about a ratio; `names` are those of baseline and candidate.

    `speeds` say which side is the faster one.
    """
    yield from _about_faster(names, found, speeds)
    if found.first_difference_p50 is not None and _has_other_answers(found):
        yield caution(
            Code.ANSWERS_DIFFER,
            same=found.same,
            prompts=found.prompts,
            unit=found.unit,
            position=found.first_difference_p50,
        )
    base, cand = _empty_share(found.baseline), _empty_share(found.candidate)
    if base is not None and cand is not None and abs(base - cand) > EMPTY_TOLERANCE:
        yield caution(
            Code.EMPTY_ANSWERS,
            baseline=names[0],
            of_baseline=base,
            candidate=names[1],
            of_candidate=cand,
        )
    if has_other_lengths(found):
        yield caution(Code.OTHER_LENGTHS, p=found.lengths_p)


def _about_faster(
    names: tuple[str, str], found: Agreement, speeds: Sequence[Measured]
) -> Iterator[Caution]:
    by_name = {speed.metric: speed for speed in speeds}
    for name in SPEEDS:
        lead = _lead(by_name[name]) if name in by_name else None
        if lead is None:
            continue
        is_candidate, ahead = lead
        sides = (found.candidate, found.baseline)
        fast, slow = sides if is_candidate else sides[::-1]
        if work := ", ".join(_other_work(fast, slow, found)):
            yield caution(
                Code.FASTER_DID_OTHER_WORK,
                faster=names[is_candidate],
                other=names[not is_candidate],
                by=f"{formatting.ratio(ahead)} {find_metric(name).title}",
                work=work,
            )
        return


def _lead(speed: Measured) -> tuple[bool, float] | None:
    """Whether the candidate is the faster side, and the faster over the other; None if neither."""
    base, cand = speed.baseline, speed.candidate
    if base is None or cand is None or not 0 < min(base, cand) <= max(base, cand) < math.inf:
        return None
    if speed.is_unclear or not are_unlike(base, cand):
        return None
    is_higher_better = find_metric(speed.metric).better is Better.HIGHER
    is_candidate = (cand > base) == is_higher_better
    return is_candidate, cand / base if is_candidate else base / cand


def _other_work(fast: Answers, slow: Answers, found: Agreement) -> Iterator[str]:
    """What the faster side did otherwise, in words."""
    ours, theirs = fast.tokens_mean, slow.tokens_mean
    if ours is not None and theirs is not None and are_unlike(ours, theirs):
        which = "shorter" if ours < theirs else "longer"
        yield f"its answers are {which}, {ours:,.1f} tokens on average and not {theirs:,.1f}"
    elif has_other_lengths(found):
        yield "its answers have other lengths"
    empty, others_empty = _empty_share(fast), _empty_share(slow)
    if empty is not None and others_empty is not None and empty - others_empty > EMPTY_TOLERANCE:
        yield f"{formatting.share(empty)} are empty and not {formatting.share(others_empty)}"
    if found.unit is not None and _has_other_answers(found):
        others = formatting.share(1 - found.same / found.prompts)
        yield f"{others} have other {found.unit}s"


def _has_other_answers(found: Agreement) -> bool:
    return found.same < SAME_SHARE * found.prompts


def _empty_share(side: Answers) -> float | None:
    return side.empty / side.answers if side.empty is not None and side.answers else None
