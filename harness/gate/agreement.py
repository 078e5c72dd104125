"""Did both sides of a comparison do the same work? Their answers to the same prompts, compared.

An engine that answers otherwise, shorter, or not at all can look fast. The records hold marks of
each answer (harness.core.marks), so that two answers are told apart without keeping them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analyzer.answer_pairs import first_differences, pairs_with
from harness.analyzer.columns import MISSING, Ints, RecordColumns, columns_of
from harness.analyzer.frame import output_tokens
from harness.core.cautions import Caution, Code, caution
from harness.core.marks import DIGEST_CHARS
from harness.core.record import Outcome
from harness.core.rundir import RunFolder

SAME_SHARE = 0.9
EMPTY_TOLERANCE = 0.01
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
    """

    answers: int
    tokens_p50: int | None
    tokens_p99: int | None
    empty: int | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the two sides gave the same answers to the same prompts.

    `prompts` were answered well by both sides, and the answers compared by `unit`: by `token` where
    both engines send token ids, else by `character` of the text. `same` of them are equal
    throughout. Each other pair first differs at or before a position that its marks give:
    `first_difference_p50` is the median of those, and `first_differences` is how many lie in each
    bin of BIN_ENDS. `other_length` pairs have unlike numbers of tokens. Where nothing could be
    compared `reason` says why.
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


def agreement(baseline: Sequence[RunFolder], candidate: Sequence[RunFolder]) -> Agreement:
    """How far the answers of the runs of two sides agree.

    A run is compared with one that was sent the same prompts, by the digest of its workload, and a
    request with the one of its index.
    """
    base, cand = ([columns_of(run.requests) for run in side] for side in (baseline, candidate))
    of_base, of_cand = _kinds(base), _kinds(cand)
    known = Agreement(_answers(base, of_base), _answers(cand, of_cand))
    if not of_base or not of_cand:
        which = "candidate" if of_base else "baseline"
        return replace(known, reason=f"the records of the {which} hold no marks of answers")
    shared = [field for field in UNITS if field in of_base & of_cand]
    if not shared:
        reason = "one side sends token ids and no text, the other text and no token ids"
        return replace(known, reason=reason)
    matched = _matched(baseline, candidate)
    if not matched:
        seeds = " and ".join(map(_seeds, (baseline, candidate)))
        return replace(known, reason=f"the sides were sent different prompts (seeds {seeds})")
    return _compared(shared[0], matched, known)


def agreement_cautions(names: tuple[str, str], found: Agreement) -> Iterator[Caution]:
    """What `found` makes doubtful about a ratio; `names` are those of baseline and candidate."""
    if found.first_difference_p50 is not None and found.same < SAME_SHARE * found.prompts:
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


def _answers(side: Sequence[RecordColumns], kinds: set[str]) -> Answers:
    ok = [columns.came_out(Outcome.OK) for columns in side]
    tokens = np.concatenate([output_tokens(c)[is_ok] for c, is_ok in zip(side, ok, strict=True)])
    known = tokens[tokens != MISSING]
    no_token = sum(e is not None and e.kind == "empty" for c in side for e in c.errors)
    no_text = sum(int((c.marks[TEXT].lengths == DIGEST_CHARS).sum()) for c in side)
    return Answers(
        answers=len(tokens) + no_token,
        tokens_p50=_percentile(known, 50),
        tokens_p99=_percentile(known, 99),
        empty=no_token + no_text if TEXT in kinds else None,
    )


def _percentile(values: Ints, percent: int) -> int | None:
    if not values.size:
        return None
    return int(np.quantile(values, percent / 100, method="inverted_cdf"))


def _empty_share(side: Answers) -> float | None:
    return side.empty / side.answers if side.empty is not None and side.answers else None


def _seeds(side: Sequence[RunFolder]) -> str:
    return ", ".join(str(run.manifest.workload.seed) for run in side)
