"""What a workload would ask of an engine, in figures: how many, how long, how bursty, how alike.

Works on the rows of a trace as well as on made requests, one at a time: it keeps three numbers of
each, never a prompt.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.core.units import NS_PER_S
from harness.core.workload import Arrival
from workloads.replay import detect_tick
from workloads.shape import Shape

# Windows, in seconds, in which arrivals are counted for the index of dispersion.
WINDOWS_S = (1, 10, 60)
# Below this many whole windows a variance of counts says nothing.
_FEWEST_WINDOWS = 10
# A cache finds prompts in blocks of this many tokens, where no trace says another number.
BLOCK_TOKENS = 16
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity is spread: its mean, standard deviation, extremes, and percentiles.

    Percentiles are numpy's default: between two values in proportion.
    """

    count: int
    mean: float
    sd: float
    least: float
    most: float
    percentiles: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Pace:
    """When requests are due. Rates and gaps are those of the first turns of sessions.

    `cv` is the coefficient of variation of the gaps (1: Poisson), None where all are due at once.
    `dispersion` is variance over mean of the counts in windows of so many seconds (1: Poisson),
    None where the span has too few of them; `peak_to_mean` is of the longest window that has one.
    `tick_s` is that of a clock too coarse to be replayed as it is, None of a fine one.
    """

    span_s: float
    rate_rps: float | None
    gaps_s: Spread
    cv: float | None
    dispersion: Mapping[int, float | None]
    peak_to_mean: float | None
    tick_s: float | None
    due_s: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sharing:
    """How much of the prompts is the same.

    `seen_share` is the share of prompt blocks that stand, after the same beginning, in a prompt
    before: what a prefix cache without a limit would find. None where prompts are not known.
    """

    distinct_prompts: int
    blocks: int
    seen_share: float | None
    block_tokens: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """A workload in figures. A part is None where no request has what it is made of.

    `text_outputs` are requests whose source has the answer, as a text that only a tokenizer can
    count.
    """

    requests: int
    sessions: int
    turns: Spread | None
    prompt: Spread | None
    output: Spread | None
    prompt_lengths: NDArray[np.int64]
    output_lengths: NDArray[np.int64]
    text_outputs: int
    pace: Pace | None
    sharing: Sharing

    @property
    def unknown_prompts(self) -> int:
        """Requests whose prompt only a tokenizer can count."""
        return self.requests - len(self.prompt_lengths)

    @property
    def unknown_outputs(self) -> int:
        """Requests whose source neither has the answer nor says how long it is."""
        return self.requests - len(self.output_lengths) - self.text_outputs

    def offered_tok_s(self, lengths: NDArray[np.int64]) -> float | None:
        """`lengths` in all over the time in which requests are due; None when due at once."""
        if self.pace is None or not self.pace.span_s:
            return None
        return float(lengths.sum()) / self.pace.span_s


def preview_shapes(shapes: Iterable[Shape]) -> Preview:
    """The figures of rows of a trace, or of a specification, before prompts are made.

    Prompts that a row gives only a length of are different ones, as they will be made so.
    """
    tally = _Tally()
    for shape in shapes:
        tally.add(shape.prompt_tokens, shape.output_tokens, shape.session)
        tally.text_outputs += shape.output_tokens is None and shape.answer is not None
        if shape.due_ns is not None and shape.turn == 0:
            tally.due_ns.append(shape.due_ns)
        if shape.blocks is not None:
            tally.add_blocks(shape.blocks.ids, shape.prompt_tokens, shape.blocks.tokens)
        elif shape.text is not None or shape.messages:
            tally.add_text(shape.text if shape.text is not None else shape.messages)
        else:
            tally.unique += 1
            tally.blocks += -(-(shape.prompt_tokens or 0) // BLOCK_TOKENS)
    return tally.preview()


def preview_arrivals(arrivals: Iterable[Arrival]) -> Preview:
    """The figures of requests that are made, token by token."""
    tally = _Tally()
    for arrival in arrivals:
        request = arrival.request
        ids = request.prompt_token_ids
        tally.add(len(ids), request.max_tokens, request.session)
        if arrival.after is None:
            tally.due_ns.append(arrival.due_ns)
        cut = range(0, len(ids), BLOCK_TOKENS)
        tally.add_blocks([ids[i : i + BLOCK_TOKENS] for i in cut], len(ids), BLOCK_TOKENS)
    return tally.preview()


@dataclass(slots=True)
class _Tally:
    """What is kept while requests pass by."""

    requests: int = 0
    prompt: array[int] = field(default_factory=lambda: array("q"))
    output: array[int] = field(default_factory=lambda: array("q"))
    due_ns: array[int] = field(default_factory=lambda: array("q"))
    text_outputs: int = 0
    sessions: Counter[str] = field(default_factory=Counter)
    unique: int = 0
    prompts: set[int] = field(default_factory=set)
    chains: set[int] = field(default_factory=set)
    blocks: int = 0
    seen: int = 0
    has_text: bool = False
    block_tokens: set[int] = field(default_factory=set)

    def add(self, prompt: int | None, output: int | None, session: str | None) -> None:
        """Count a request and its lengths."""
        self.requests += 1
        if prompt is not None:
            self.prompt.append(prompt)
        if output is not None:
            self.output.append(output)
        if session is not None:
            self.sessions[session] += 1

    def add_blocks(self, ids: Iterable[Hashable], length: int | None, block_tokens: int) -> None:
        """Count the blocks of a prompt, and those that follow a beginning seen before."""
        self.block_tokens.add(block_tokens)
        chain = block_tokens
        for block in ids:
            chain = hash((chain, block))
            self.blocks += 1
            self.seen += chain in self.chains
            self.chains.add(chain)
        self.prompts.add(hash((chain, length)))

    def add_text(self, text: Hashable) -> None:
        """Count a prompt that is a text, whose tokens are not known."""
        self.has_text = True
        self.prompts.add(hash(text))

    def preview(self) -> Preview:
        """The figures of all that was added."""
        prompt, output = (np.array(kept, dtype=np.int64) for kept in (self.prompt, self.output))
        shares = self.seen / self.blocks if self.blocks and not self.has_text else None
        of_one_size = len(self.block_tokens) == 1
        return Preview(
            requests=self.requests,
            sessions=len(self.sessions),
            turns=_spread(np.array(list(self.sessions.values()))) if self.sessions else None,
            prompt=_spread(prompt) if len(prompt) else None,
            output=_spread(output) if len(output) else None,
            prompt_lengths=prompt,
            output_lengths=output,
            text_outputs=self.text_outputs,
            pace=_pace(np.array(self.due_ns, dtype=np.int64)) if len(self.due_ns) > 1 else None,
            sharing=Sharing(
                distinct_prompts=self.unique + len(self.prompts),
                blocks=self.blocks,
                seen_share=shares,
                block_tokens=min(self.block_tokens) if of_one_size else None,
            ),
        )


def _spread(values: NDArray[np.int64] | NDArray[np.float64]) -> Spread:
    points = (25, 50, 75, 90, 95, 99)
    return Spread(
        count=len(values),
        mean=float(values.mean()),
        sd=float(values.std()),
        least=float(values.min()),
        most=float(values.max()),
        percentiles=dict(zip(points, np.percentile(values, points).tolist(), strict=True)),
    )


def _pace(due_ns: NDArray[np.int64]) -> Pace:
    due_ns = np.sort(due_ns) - due_ns.min()
    due_s = due_ns / NS_PER_S
    tick_ns = detect_tick(due_ns.tolist())
    gaps = np.diff(due_s)
    span_s = float(due_s[-1])
    counts = {window: _counts(due_s, window) for window in WINDOWS_S}
    longest = max((w for w, of_window in counts.items() if len(of_window)), default=None)
    return Pace(
        span_s=span_s,
        rate_rps=len(gaps) / span_s if span_s else None,
        gaps_s=_spread(gaps),
        cv=float(gaps.std() / gaps.mean()) if span_s else None,
        dispersion={w: _of(c, lambda n: n.var() / n.mean()) for w, c in counts.items()},
        peak_to_mean=None
        if longest is None
        else _of(counts[longest], lambda n: n.max() / n.mean()),
        tick_s=None if tick_ns is None else tick_ns / NS_PER_S,
        due_s=due_s,
    )


def _counts(due_s: NDArray[np.float64], window_s: int) -> NDArray[np.int64]:
    """Arrivals in each whole window from the first arrival; empty where there are too few."""
    windows = int(due_s[-1] // window_s)
    if windows < _FEWEST_WINDOWS:
        return np.zeros(0, dtype=np.int64)
    counted: NDArray[np.int64] = np.bincount((due_s // window_s).astype(np.int64))[:windows]
    return counted


def _of(
    counts: NDArray[np.int64], figure: Callable[[NDArray[np.int64]], np.floating]
) -> float | None:
    return float(figure(counts)) if len(counts) else None


def histogram(
    values: Sequence[float] | NDArray[np.generic], buckets: int
) -> list[tuple[float, float, int]]:
    """`values` counted in `buckets` equal parts of their range: (from, to, how many) each."""
    counted, edges = np.histogram(np.asarray(values, dtype=np.float64), bins=buckets)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), counted.tolist(), strict=True))
