"""Did both sides of a comparison do the same work? Their answers to the same prompts, compared.

An engine that answers otherwise, shorter, or not at all can look fast. The records hold marks of
each answer (harness.core.marks), so that two answers are told apart without keeping them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analyzer.answer_pairs import first_differences, pairs_with
from harness.analyzer.columns import MISSING, Ints, RecordColumns, columns_of
from harness.analyzer.frame import output_tokens
from harness.analyzer.significance import kolmogorov_smirnov
from harness.core.marks import DIGEST_CHARS
from harness.core.record import Outcome
from harness.core.rundir import RunFolder

# What can be compared, best first, and what a position counts then.
IDS, TEXT = "ids_marks", "text_marks"
UNITS = {IDS: "token", TEXT: "character"}
# The last position of each bin of first differences, all of which have marks; one more has no end.
BIN_ENDS = (1, 4, 15, 63, 235)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one side, over all of its runs, whatever they were asked.

    `answers` are the requests that ended well, and those that failed only because no token came.
    `empty` of them have no text; None where that is not recorded, or the engine sends only ids.
    `tokens_` are how long those are that ended well, and `prompt_tokens_mean` is how long their
    prompts were, as the engine counts them.
    """

    answers: int
    tokens_p50: int | None
    tokens_p99: int | None
    empty: int | None
    tokens_mean: float | None = None
    tokens_p10: int | None = None
    tokens_p90: int | None = None
    prompt_tokens_mean: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the two sides gave the same answers to the same prompts.

    `prompts` were answered well by both sides, and the answers compared by `unit`: by `token` where
    both engines send token ids, else by `character` of the text. `same` of them are equal
    throughout. Each other pair first differs at or before a position that its marks give:
    `first_difference_p50` is the median of those, and `first_differences` is how many lie in each
    bin of BIN_ENDS. `other_length` pairs have unlike numbers of tokens. Where nothing could be
    compared `reason` says why. `lengths_p` is how likely numbers of tokens that part so far are
    where both sides have one distribution of them (Kolmogorov and Smirnov); None where they were
    not asked for alike, or a side has none.
    """

    baseline: Answers
    candidate: Answers
    unit: str | None = None
    prompts: int = 0
    same: int = 0
    first_difference_p50: int | None = None
    first_differences: tuple[int, ...] = ()
    other_length: int = 0
    reason: str | None = None
    lengths_p: float | None = None


def agreement(baseline: Sequence[RunFolder], candidate: Sequence[RunFolder]) -> Agreement:
    """How far the answers of the runs of two sides agree.

    A run is compared with one that was sent the same prompts, by the digest of its workload, and a
    request with the one of its index.
    """
    base, cand = ([columns_of(run.requests) for run in side] for side in (baseline, candidate))
    of_base, of_cand = _kinds(base), _kinds(cand)
    matched = _matched(baseline, candidate)
    known = Agreement(
        _answers(base, of_base),
        _answers(cand, of_cand),
        lengths_p=_lengths_p(tuple(zip(*matched, strict=True)) or _if_alike(baseline, candidate)),
    )
    if not of_base or not of_cand:
        which = "candidate" if of_base else "baseline"
        return replace(known, reason=f"the records of the {which} hold no marks of answers")
    shared = [field for field in UNITS if field in of_base & of_cand]
    if not shared:
        reason = "one side sends token ids and no text, the other text and no token ids"
        return replace(known, reason=reason)
    if not matched:
        seeds = " and ".join(map(_seeds, (baseline, candidate)))
        return replace(known, reason=f"the sides were sent different prompts (seeds {seeds})")
    return _compared(shared[0], matched, known)


def _compared(
    field: str, matched: Sequence[tuple[RecordColumns, RecordColumns]], known: Agreement
) -> Agreement:
    """`known`, with the agreement of runs that can be compared by `field`."""
    positions, other_length = [], 0
    for sides in matched:
        places = pairs_with(field, *sides)
        by_side = list(zip(sides, places, strict=True))
        positions.append(first_differences(*(c.marks[field].take(at) for c, at in by_side)))
        base, cand = (output_tokens(c)[at] for c, at in by_side)
        other_length += int(((base != cand) & (base != MISSING) & (cand != MISSING)).sum())
    found = np.concatenate(positions)
    if not found.size:
        return replace(known, reason="no prompt was answered well by both sides")
    others = found[found > 0]
    bins = np.bincount(np.searchsorted(BIN_ENDS, others), minlength=len(BIN_ENDS) + 1)
    return replace(
        known,
        unit=UNITS[field],
        prompts=found.size,
        same=found.size - others.size,
        first_difference_p50=_percentile(others, 50),
        first_differences=tuple(bins.tolist()),
        other_length=other_length,
    )


def _matched(
    baseline: Sequence[RunFolder], candidate: Sequence[RunFolder]
) -> list[tuple[RecordColumns, RecordColumns]]:
    """Runs of the two sides with the same workload digest; each run is in one pair at most."""
    left: dict[str, list[RunFolder]] = {}
    for run in candidate:
        left.setdefault(run.manifest.workload.digest, []).append(run)
    twins = ((run, left.get(run.manifest.workload.digest)) for run in baseline)
    return [(columns_of(b.requests), columns_of(c.pop(0).requests)) for b, c in twins if c]


def _kinds(side: Sequence[RecordColumns]) -> set[str]:
    """By what the answers of a side can be compared: not by text where only token ids come."""
    lengths = {field: np.concatenate([c.marks[field].lengths for c in side]) for field in UNITS}
    kinds = {field for field, of_field in lengths.items() if of_field.any()}
    has_text = (lengths[TEXT] > DIGEST_CHARS).any()
    return kinds if has_text or IDS not in kinds else {IDS}


def _if_alike(*sides: Sequence[RunFolder]) -> tuple[Sequence[RecordColumns], ...]:
    """All runs of each side, where all of them asked for answers of one shape."""
    shapes = {run.manifest.workload.shape_digest for side in sides for run in side}
    return tuple([columns_of(run.requests) for run in side] for side in sides if len(shapes) == 1)


def _lengths_p(sides: Sequence[Sequence[RecordColumns]]) -> float | None:
    lengths = [np.concatenate([_lengths(columns) for columns in side]) for side in sides]
    if not lengths or not all(side.size for side in lengths):
        return None
    return kolmogorov_smirnov(*lengths)


def _lengths(columns: RecordColumns) -> Ints:
    """Tokens of each answer that ended well, where they were counted."""
    tokens = output_tokens(columns)
    known: Ints = tokens[columns.came_out(Outcome.OK) & (tokens != MISSING)]
    return known


def _answers(side: Sequence[RecordColumns], kinds: set[str]) -> Answers:
    ok = [columns.came_out(Outcome.OK) for columns in side]
    known = np.concatenate([_lengths(columns) for columns in side])
    prompts = np.concatenate(
        [c.numbers["prompt_tokens"][is_ok] for c, is_ok in zip(side, ok, strict=True)]
    )
    no_token = sum(e is not None and e.kind == "empty" for c in side for e in c.errors)
    no_text = sum(int((c.marks[TEXT].lengths == DIGEST_CHARS).sum()) for c in side)
    return Answers(
        answers=sum(int(is_ok.sum()) for is_ok in ok) + no_token,
        tokens_p50=_percentile(known, 50),
        tokens_p99=_percentile(known, 99),
        empty=no_token + no_text if TEXT in kinds else None,
        tokens_mean=_mean(known),
        tokens_p10=_percentile(known, 10),
        tokens_p90=_percentile(known, 90),
        prompt_tokens_mean=_mean(prompts[prompts != MISSING]),
    )


def _mean(values: Ints) -> float | None:
    return float(values.mean()) if values.size else None


def _percentile(values: Ints, percent: int) -> int | None:
    if not values.size:
        return None
    return int(np.quantile(values, percent / 100, method="inverted_cdf"))


def _seeds(side: Sequence[RunFolder]) -> str:
    return ", ".join(str(run.manifest.workload.seed) for run in side)
