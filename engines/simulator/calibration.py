"""The cost model of an engine, fitted to the step log of a run of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engines.simulator.cost_model import CostModel
from engines.simulator.least_squares import Floats, columns_told_apart, robust_fit
from harness.core.cautions import Caution, Code, caution
from harness.core.errors import UsageError
from harness.core.record import StepRecord

PREFILL_STEPS_LEAST = 4
DECODE_STEPS_LEAST = 20
_MISS_MOST = 0.1
_TIME_LEFT_OUT_MOST = 0.05
_SLACK = 1.1


@dataclass(frozen=True, slots=True)
class Fit:
    """How well one half of the steps, their reading or their decoding, is described.

    `miss_median` is the median of |predicted / measured - 1| over its `steps`, and
    `held_out_miss_median` that of every second step, predicted by a fit to the others.
    `predicted_share` is the sum of predicted times over that of measured ones: below 1 by what held
    steps up.
    """

    steps: int
    miss_median: float
    held_out_miss_median: float
    predicted_share: float


@dataclass(frozen=True, slots=True)
class Span:
    """From the least to the most of something that the steps of a log did."""

    title: str
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted cost model, how well it describes the two halves of a step, and what is doubtful.

    `source` names what it was fitted to, in words. `spans` say what the steps of that were; the
    model is untried beyond them.
    """

    source: str
    cost: CostModel
    prefill: Fit
    decode: Fit
    spans: tuple[Span, ...]
    cautions: tuple[Caution, ...]


@dataclass(frozen=True, slots=True)
class _Half:
    """One half of a step: the steps that have it, its measured time, and the counts behind it.

    The first of `costs` takes what the others cannot be told apart from.
    """

    name: str
    is_in: Callable[[StepRecord], bool]
    time_ns: Callable[[StepRecord], int]
    costs: tuple[tuple[str, str, Callable[[StepRecord], int]], ...]


# Reading is mostly bound by arithmetic, so that a prompt token takes what is not told apart;
# decoding by reading the weights, so that the pass does.
_PREFILL = _Half(
    "prefill",
    lambda step: step.prefill_sequences > 0,
    lambda step: step.prefill_ns,
    (
        (
            "prefill_token_ns",
            "prompt token",
            lambda step: step.prefill_tokens + step.prefill_padding_tokens,
        ),
        ("prefill_pass_ns", "prefill pass", lambda _: 1),
        (
            "prefill_context_token_ns",
            "context token of a prompt",
            lambda step: step.prefill_context_tokens or 0,
        ),
    ),
)
_DECODE = _Half(
    "decode",
    lambda step: step.decode_tokens + step.padded > 0,
    lambda step: step.decode_ns,
    (
        ("decode_pass_ns", "decode pass", lambda _: 1),
        ("decode_row_ns", "decode row", lambda step: step.decode_tokens + step.padded),
        (
            "decode_context_token_ns",
            "context token of a decode row",
            lambda step: step.decode_context_tokens or 0,
        ),
    ),
)


_SPANS: tuple[tuple[str, _Half, Callable[[StepRecord], float]], ...] = (
    (
        "tokens of a prompt read in a step",
        _PREFILL,
        lambda step: (step.prefill_tokens + step.prefill_padding_tokens) / step.prefill_sequences,
    ),
    ("rows decoded in a step", _DECODE, lambda step: step.decode_tokens + step.padded),
    (
        "tokens of context of a decoded row",
        _DECODE,
        lambda step: (step.decode_context_tokens or 0) / (step.decode_tokens + step.padded),
    ),
)


def fit_cost(steps: Sequence[StepRecord], source: str) -> Calibration:
    """The cost model that describes `steps`, which are of one engine on one machine: `source`.

    Raises UsageError when there are too few steps of a kind, or some without counts of context.
    """
    _require_enough(steps)
    prefill_costs, prefill, prefill_doubts = _fit_half(_PREFILL, steps)
    decode_costs, decode, decode_doubts = _fit_half(_DECODE, steps)
    return Calibration(
        source=source,
        cost=CostModel(_outside_ns(steps), **prefill_costs, **decode_costs),
        prefill=prefill,
        decode=decode,
        spans=_spans(steps),
        cautions=(*prefill_doubts, *decode_doubts),
    )


def cost_rows(cost: CostModel) -> tuple[tuple[str, float], ...]:
    """What costs how many ns in `cost`, one row a coefficient, in words."""
    halves = (_PREFILL, _DECODE)
    named = ((title, name) for half in halves for name, title, _ in half.costs)
    rows = ((f"each {title}", float(getattr(cost, name))) for title, name in named)
    return (("each step, outside the model", cost.step_fixed_ns), *rows)


def beyond(calibration: Calibration, simulated: Sequence[StepRecord]) -> tuple[Caution, ...]:
    """A caution for each thing of which the `simulated` steps leave the span by over a tenth."""
    known = {span.title: span for span in calibration.spans}
    doubts = []
    for span in _spans(simulated):
        fitted = known[span.title]
        if span.least < fitted.least / _SLACK or span.most > fitted.most * _SLACK:
            what = f"{_text(span)} (fitted to {fitted.least:,.0f} to {fitted.most:,.0f})"
            doubts.append(caution(Code.BEYOND_CALIBRATION, what=what))
    return tuple(doubts)


def _text(span: Span) -> str:
    return f"{span.least:,.0f} to {span.most:,.0f} {span.title}"


def _spans(steps: Sequence[StepRecord]) -> tuple[Span, ...]:
    seen = (
        (title, [amount(step) for step in steps if half.is_in(step)])
        for title, half, amount in _SPANS
    )
    return tuple(Span(title, min(amounts), max(amounts)) for title, amounts in seen if amounts)


def _require_enough(steps: Sequence[StepRecord]) -> None:
    for step in steps:
        contexts = (step.prefill_context_tokens, step.decode_context_tokens, step.outside_ns)
        if None in contexts:
            msg = (
                f"step {step.index} does not say how many tokens of context it read, as another "
                "engine or an older batchmark wrote it; repeat the run with this inhouse engine"
            )
            raise UsageError(msg)
    prefills, decodes = (sum(map(half.is_in, steps)) for half in (_PREFILL, _DECODE))
    if prefills < PREFILL_STEPS_LEAST or decodes < DECODE_STEPS_LEAST:
        msg = (
            f"{prefills} steps that read prompts and {decodes} that decode are too few to fit a "
            f"cost model to ({PREFILL_STEPS_LEAST} and {DECODE_STEPS_LEAST} needed); calibrate "
            "with a run of inhouse, and a larger --repeat-mix"
        )
        raise UsageError(msg)


def _outside_ns(steps: Sequence[StepRecord]) -> float:
    """The median time that a step takes outside the model, up to the start of the next one.

    Steps that waited for an arrival before the next began say nothing of that.
    """
    spent = [
        after.started_ns - step.started_ns - step.prefill_ns - step.decode_ns
        for step, after in pairwise(steps)
        if after.index == step.index + 1 and (step.waiting or _DECODE.is_in(after))
    ]
    return float(np.median(spent or [step.outside_ns or 0 for step in steps]))


def _fit_half(
    half: _Half, steps: Sequence[StepRecord]
) -> tuple[dict[str, float], Fit, list[Caution]]:
    """The costs of `half` by the names of CostModel, how well they fit, and what is doubtful."""
    rows = [step for step in steps if half.is_in(step)]
    features = np.array([[float(count(row)) for _, _, count in half.costs] for row in rows])
    times = np.maximum([float(half.time_ns(row)) for row in rows], 1.0)
    kept = columns_told_apart(features, times)
    coefficients = _fit_columns(features, times, kept)
    expected = features @ coefficients
    known = _fit_columns(features[::2], times[::2], kept)
    fit = Fit(
        steps=len(rows),
        miss_median=_miss_median(expected, times),
        held_out_miss_median=_miss_median(features[1::2] @ known, times[1::2]),
        predicted_share=float(expected.sum() / times.sum()),
    )
    titles = [title for _, title, _ in half.costs]
    doubts = [
        caution(Code.COST_NOT_TOLD_APART, cost=title, other=titles[0], steps=len(rows))
        for column, title in enumerate(titles)
        if column not in kept
    ]
    if fit.held_out_miss_median > _MISS_MOST:
        share = fit.held_out_miss_median
        doubts.append(caution(Code.COST_FITS_BADLY, half=half.name, share=share))
    if 1 - fit.predicted_share > _TIME_LEFT_OUT_MOST:
        share = 1 - fit.predicted_share
        doubts.append(caution(Code.COST_LEAVES_TIME_OUT, half=half.name, share=share))
    names = (name for name, _, _ in half.costs)
    return dict(zip(names, coefficients.tolist(), strict=True)), fit, doubts


def _fit_columns(features: Floats, times: Floats, kept: tuple[int, ...]) -> Floats:
    coefficients = np.zeros(features.shape[1])
    coefficients[list(kept)] = robust_fit(features[:, kept], times)
    return coefficients


def _miss_median(expected: Floats, times: Floats) -> float:
    return float(np.median(np.abs(expected / times - 1)))
