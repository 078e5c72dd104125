"""Conversations and agents from a specification: turns whose context grows by what was said.

A prompt holds the system prompt and all messages, answers and results of tools before it, so it is
longer than the one before by that turn's answer and what is new, and begins with it token by token.
The answers in it are scripted: made of the seed like all else, not those that the engine gave. So
what is sent does not depend on the engine, and a prefix cache knows a prompt as far as the one
before it, not the answer to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as counting
from itertools import cycle

from harness.core.units import NS_PER_MS
from workloads.lengths import Lengths, checked, drawer
from workloads.shape import PrefixBlocks, Shape
from workloads.streams import stream_key, uniforms

USER, TOOL = "user", "tool"
_BLOCK_TOKENS = 256  # without a system prompt
_DRAWN_AT_ONCE = 16
_LENGTHS = ("turns", "user", "answer", "calls", "tool", "think_ms", "tool_ms")


@dataclass(frozen=True, slots=True)
class SessionsSpec:
    """What conversations are like. Lengths are in tokens, or what their names say.

    All sessions share a system prompt of `system_tokens`. Each has `turns` messages of a person, of
    `user` tokens, and after an answer the person thinks for `think_ms`. An agent calls tools
    `calls` times for each message: a call is an answer too, and its result, of `tool` tokens, is
    there `tool_ms` later. Every answer has `answer` tokens. Where a request and its answer would
    need more than `most_tokens`, the session ends before it. All is drawn with the `seed` here, not
    that of a run: every run asks for the same work.
    """

    turns: Lengths
    user: Lengths
    answer: Lengths
    system_tokens: int = 0
    calls: Lengths | None = None
    tool: Lengths | None = None
    think_ms: Lengths | None = None
    tool_ms: Lengths | None = None
    most_tokens: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a session: who waits for it, its lengths in tokens, and what it waits for.

    `delay_ns` is the time from the end of the answer before to this request.
    """

    label: str
    prompt_tokens: int
    output_tokens: int
    delay_ns: int


def checked_sessions(spec: SessionsSpec) -> SessionsSpec:
    """`spec`, if it can be drawn. Raises ValueError naming the key that is missing or wrong."""
    for name in _LENGTHS:
        lengths: Lengths | None = getattr(spec, name)
        if lengths is not None:
            checked(lengths, f"sessions.{name}")
    if (spec.calls is None) is not (spec.tool is None):
        missing = "calls" if spec.calls is None else "tool"
        msg = f"key 'sessions.{missing}' is missing; an agent has both calls and tool"
        raise ValueError(msg)
    if spec.tool_ms is not None and spec.tool is None:
        msg = "key 'sessions.tool_ms' says nothing without sessions.tool; leave it out"
        raise ValueError(msg)
    if spec.system_tokens < 0:
        msg = f"key 'sessions.system_tokens' is {spec.system_tokens}; it must be 0 or more"
        raise ValueError(msg)
    return spec


def drawn_sessions(spec: SessionsSpec, count: int) -> tuple[tuple[Step, ...], ...]:
    """The requests of `count` sessions; those of a session need none of the others.

    Raises ValueError when `most_tokens` leaves a session none.
    """
    drawers: dict[str, Callable[[float], int]] = {}
    for name in _LENGTHS:
        lengths: Lengths | None = getattr(spec, name)
        drawers[name] = _nothing if lengths is None else drawer(lengths)
    return tuple(_steps(spec, drawers, number) for number in range(count))


def _steps(
    spec: SessionsSpec, drawers: Mapping[str, Callable[[float], int]], number: int
) -> tuple[Step, ...]:
    draw = {
        name: _draws(value, stream_key(spec.seed, f"sessions.{name}/{number}"))
        for name, value in drawers.items()
    }
    steps: list[Step] = []
    context = spec.system_tokens
    for label in _labels(draw):
        new, delay_ms = (
            (draw["user"], draw["think_ms"]) if label == USER else (draw["tool"], draw["tool_ms"])
        )
        context += next(new)
        answer = next(draw["answer"])
        if spec.most_tokens is not None and context + answer > spec.most_tokens:
            break
        steps.append(Step(label, context, answer, next(delay_ms) * NS_PER_MS if steps else 0))
        context += answer
    if not steps:
        msg = f"key 'sessions.most_tokens' is {spec.most_tokens}; session {number} has no room"
        raise ValueError(msg)
    return tuple(steps)


def session_shapes(
    sessions: Sequence[tuple[Step, ...]], system_tokens: int, due_ns: Sequence[int]
) -> Iterator[Shape]:
    """A session for each instant of `due_ns`, when its first request is due; in order, over again.

    All that is said is different in each, but for the first `system_tokens`.
    """
    size = system_tokens or _BLOCK_TOKENS
    blocks_each = max(-(-steps[-1].prompt_tokens // size) for steps in sessions)
    shared = (0,) if system_tokens else ()
    for number, (due, steps) in enumerate(zip(due_ns, cycle(sessions), strict=False)):
        first_id = 1 + number * blocks_each
        for turn, step in enumerate(steps):
            own = -(-step.prompt_tokens // size) - len(shared)
            yield Shape(
                prompt_tokens=step.prompt_tokens,
                output_tokens=step.output_tokens,
                label=step.label,
                due_ns=due if turn == 0 else None,
                blocks=PrefixBlocks((*shared, *range(first_id, first_id + own)), size),
                session=str(number),
                turn=turn,
                delay_ns=step.delay_ns,
            )


def _labels(draw: dict[str, Iterator[int]]) -> Iterator[str]:
    """What each request of a session brings: a message, or the result of a call."""
    for _ in range(next(draw["turns"])):
        yield USER
        yield from [TOOL] * next(draw["calls"])


def _draws(value: Callable[[float], int], key: int) -> Iterator[int]:
    """Values at the numbers of the stream of `key`, without end."""
    for start in counting(step=_DRAWN_AT_ONCE):
        yield from map(value, uniforms(key, start, _DRAWN_AT_ONCE))


def _nothing(_: float) -> int:
    return 0
