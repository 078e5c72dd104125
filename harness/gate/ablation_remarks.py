"""Which factors of an ablation were not at work, and how that can be seen.

A ratio of 1 then says something about the workload, and nothing about the factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness.core.ablation_plan import Level
from harness.core.engine import EngineSpec
from harness.core.rundir import RunFolder
from harness.core.workload import LoadKind, Workload
from harness.gate import formatting


@dataclass(frozen=True, slots=True)
class Observed:
    """What the step logs of a level's runs say, all of its rounds together.

    `waited_for_memory`: while a slot was free a request waited, or one lost its blocks.
    `padded` counts slot-steps held by answers that had ended. None where nothing says it.
    """

    kv_share_max: float | None
    waited_for_memory: bool
    padded: int
    prefix_hit_tokens: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """What decides whether a factor can be at work: of the workload, and of the engine."""

    load: LoadKind
    requests: int
    prompt_tokens_longest: int
    slots: int
    step_tokens: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    """One factor's step up the ladder; `before` None where nothing is known of that side."""

    before: Observed | None
    here: Observed
    sent: Sent


def sent_of(workload: Workload, spec: EngineSpec) -> Sent:
    """What `workload` asks of the engine `spec`."""
    return Sent(
        load=workload.load.kind,
        requests=len(workload.arrivals),
        prompt_tokens_longest=max(
            (len(arrival.request.prompt_token_ids) for arrival in workload.arrivals), default=0
        ),
        slots=spec.slots,
        step_tokens=spec.batched_tokens,
    )


def shares_prefixes(workload: Workload, block_tokens: int = 16) -> bool:
    """Whether a prompt begins with a full block that an earlier one begins with too."""
    seen: set[tuple[int, ...]] = set()
    for arrival in workload.arrivals:
        beginning = arrival.request.prompt_token_ids[:block_tokens]
        if beginning in seen:
            return True
        if len(beginning) == block_tokens:
            seen.add(beginning)
    return False


def observe(folders: Iterable[RunFolder]) -> Observed | None:
    """What the measured steps of these runs say; None when there are none."""
    steps = [
        step
        for folder in folders
        for step in folder.steps
        if step.started_ns >= folder.manifest.start_ns
    ]
    if not steps:
        return None
    shares = [
        step.kv_blocks_used / step.kv_blocks_total
        for step in steps
        if step.kv_blocks_used is not None and step.kv_blocks_total
    ]
    hits = [s.prefix_hit_tokens for s in steps if s.prefix_hit_tokens is not None]
    return Observed(
        kv_share_max=max(shares, default=None),
        waited_for_memory=any(
            (s.waiting > 0 and s.running + s.padded < s.slots) or s.preempted for s in steps
        ),
        padded=sum(s.padded for s in steps),
        prefix_hit_tokens=sum(hits) if hits else None,
    )


def remarks(
    factors: tuple[Level, ...], before: Observed | None, here: Observed | None, sent: Sent
) -> tuple[str, ...]:
    """Which of `factors`, which the level `here` has more than `before`, were not at work.

    Nothing is said of a level that has no run to look at.
    """
    if here is None:
        return ()
    # Where rungs were left out, the level before is not the one just below a factor.
    below = before if len(factors) == 1 else None
    return tuple(_said(factors, _Step(below, here, sent)))


def _said(factors: tuple[Level, ...], step: _Step) -> Iterator[str]:
    for factor in factors:
        if (why := _IDLE[factor.key](step)) is not None:
            yield f"{factor.adds} was not at work: {why}"


def _dynamic(step: _Step) -> str | None:
    if step.sent.load is not LoadKind.BACKLOG:
        return None
    rest = step.sent.requests % step.sent.slots
    last = f", but for the last one of {rest}" if rest else ""
    return f"in a backlog every batch is full at once{last}, so no window is waited for"


def _continuous(step: _Step) -> str | None:
    if step.before is None or step.before.padded:
        return None
    return "no answer of the level before waited for a longer one of its batch"


def _paged(step: _Step) -> str | None:
    sides = [step.here] if step.before is None else [step.before, step.here]
    shares = [side.kv_share_max for side in sides if side.kv_share_max is not None]
    if not shares or any(side.waited_for_memory for side in sides):
        return None
    most = formatting.share(max(shares))
    return f"the KV cache was never short, {most} used at most; give it less with --kv-tokens"


def _chunked(step: _Step) -> str | None:
    longest, budget = step.sent.prompt_tokens_longest, step.sent.step_tokens
    if budget is None or longest > budget:
        return None
    return (
        f"no prompt was longer than the budget (longest {longest}, --batched-tokens {budget} "
        "tokens), so one was cut only where several came at once"
    )


def _prefix(step: _Step) -> str | None:
    if step.here.prefix_hit_tokens != 0:
        return None
    return "no prompt began like one that was still in the cache"


_IDLE: dict[str, Callable[[_Step], str | None]] = {
    "dynamic": _dynamic,
    "continuous": _continuous,
    "paged": _paged,
    "chunked": _chunked,
    "prefix": _prefix,
}
