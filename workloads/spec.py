"""What a workload file says: a mix of requests, distributions of lengths, sessions, or a trace.

One of these tables says what is sent::

    [[requests]]   label, prompt_tokens, output_tokens: sent in this order and over again
    [lengths]      prompt, output: a distribution each, or `pairs` of lengths that belong together
    [sessions]     conversations whose later turns wait for the ones before
    [trace]        the format of a file, which [download] says where to get

`count` is how many requests (or sessions) there are before they are sent over again. [prefix] makes
prompts of a mix, or of drawn lengths, begin alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice

from workloads.download import Download
from workloads.lengths import Lengths, checked, drawer
from workloads.sessions import SessionsSpec, checked_sessions, drawn_sessions, session_shapes
from workloads.shape import PrefixBlocks, Shape
from workloads.streams import stratified, stream_key


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request of a mix: how long its prompt is, and how many tokens it asks for."""

    label: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class LengthsSpec:
    """Distributions that the lengths of a mix are drawn from; either both, or `pairs` of them.

    One length is drawn from each of `count` equal parts of a distribution, in random order, so that
    the mean is what the file says also of few requests. They are drawn with the `seed` here, not
    that of a run: every run and every repeat asks for the same work, of which another seed changes
    the prompts and the due times alone.
    """

    prompt: Lengths | None = None
    output: Lengths | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PrefixSpec:
    """The first `tokens` of each prompt are those of its group; requests take groups in turn."""

    groups: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """A trace of this `format`, one of workloads.importers.formats."""

    format: str
    time_unit: str | None = None


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload file, and `requests`: the rows of its mix, as written or as drawn.

    Of sessions the rows are all their turns, one session after another.

    `token_ids` is the range [first, last) that random prompt tokens are drawn from; the default
    lies inside every vocabulary of 32,000 tokens or more, clear of the special tokens at its start.
    """

    name: str
    description: str
    requests: tuple[RequestSpec, ...] = ()
    token_ids: tuple[int, int] = (1000, 30000)
    count: int | None = None
    lengths: LengthsSpec | None = None
    sessions: SessionsSpec | None = None
    prefix: PrefixSpec | None = None
    trace: TraceSpec | None = None
    download: Download | None = None

    @property
    def is_plain_mix(self) -> bool:
        """True when the requests are written out, and share nothing."""
        return self.lengths is None and self.sessions is None and self.prefix is None

    @property
    def instants(self) -> int:
        """How many due instants the whole mix takes once: one a request, or one a session."""
        return len(self.requests) if self.sessions is None else self.count or 0


def with_rows(spec: WorkloadSpec) -> WorkloadSpec:
    """`spec` with all its rows: drawn, or those that are written, over again up to `count`.

    Raises ValueError naming the key that is missing or wrong.
    """
    _check_tables(spec)
    if spec.count is not None and spec.count < 1:
        msg = f"key 'count' is {spec.count}; it must be at least 1"
        raise ValueError(msg)
    if spec.trace is not None:
        return spec
    rows = _rows(spec)
    for number, row in enumerate(rows, start=1):
        _check_row(spec, number, row)
    first, last = spec.token_ids
    if not 0 <= first < last:
        msg = (
            f"key 'token_ids' is [{first}, {last}]; it must be [first, last) with 0 <= first < last"
        )
        raise ValueError(msg)
    return replace(spec, requests=rows)


def shapes(spec: WorkloadSpec, due_ns: tuple[int, ...]) -> Iterator[Shape]:
    """A request of the mix for each of `due_ns`, in its order and over again."""
    if spec.sessions is not None:
        drawn = drawn_sessions(spec.sessions, spec.instants)
        yield from session_shapes(drawn, spec.sessions.system_tokens, due_ns)
        return
    longest = max(row.prompt_tokens for row in spec.requests)
    for index, (due, row) in enumerate(zip(due_ns, cycle(spec.requests), strict=False)):
        blocks = None
        if spec.prefix is not None:
            blocks = _group_blocks(spec.prefix, index, row.prompt_tokens, longest)
        yield Shape(row.prompt_tokens, row.output_tokens, row.label, due, blocks=blocks)


def _group_blocks(prefix: PrefixSpec, index: int, length: int, longest: int) -> PrefixBlocks:
    """The block of the group that request `index` takes, and blocks that no other request has."""
    first_own = prefix.groups + index * -(-longest // prefix.tokens)
    own = -(-length // prefix.tokens) - 1
    ids = (index % prefix.groups, *range(first_own, first_own + own))
    return PrefixBlocks(ids, prefix.tokens)


def _check_tables(spec: WorkloadSpec) -> None:
    tables = {
        "[[requests]]": spec.requests or None,
        "[lengths]": spec.lengths,
        "[sessions]": spec.sessions,
        "[trace]": spec.trace,
    }
    found = [name for name, table in tables.items() if table is not None]
    if len(found) != 1:
        msg = f"found {' and '.join(found) or 'none'} of {', '.join(tables)}; it takes one of them"
        raise ValueError(msg)
    if spec.prefix is not None and found[0] in {"[sessions]", "[trace]"}:
        msg = f"key 'prefix' says nothing of {found[0]}; leave it out"
        raise ValueError(msg)
    if spec.count is None and found[0] in {"[lengths]", "[sessions]"}:
        msg = f"key 'count' is missing; {found[0]} needs to know how many to draw"
        raise ValueError(msg)


def _rows(spec: WorkloadSpec) -> tuple[RequestSpec, ...]:
    """What is sent once before it is sent over again."""
    if spec.sessions is not None:
        sessions = drawn_sessions(checked_sessions(spec.sessions), spec.instants)
        return tuple(
            RequestSpec(step.label, step.prompt_tokens, step.output_tokens)
            for steps in sessions
            for step in steps
        )
    if spec.lengths is not None:
        return _drawn(spec.name, spec.count or 0, spec.lengths)
    return tuple(islice(cycle(spec.requests), spec.count or len(spec.requests)))


def _drawn(label: str, count: int, lengths: LengthsSpec) -> tuple[RequestSpec, ...]:
    if bool(lengths.pairs) is (lengths.prompt is not None or lengths.output is not None):
        msg = "[lengths] needs either 'prompt' and 'output', or 'pairs'"
        raise ValueError(msg)
    if lengths.pairs:
        pairs = lengths.pairs
        shares = stratified(stream_key(lengths.seed, "lengths.pairs"), count)
        return tuple(RequestSpec(label, *pairs[int(share * len(pairs))]) for share in shares)
    prompt, output = (
        _lengths(side, f"lengths.{name}", lengths.seed, count)
        for name, side in (("prompt", lengths.prompt), ("output", lengths.output))
    )
    return tuple(RequestSpec(label, *pair) for pair in zip(prompt, output, strict=True))


def _lengths(side: Lengths | None, key: str, seed: int, count: int) -> list[int]:
    if side is None:
        msg = f"key '{key}' is missing; [lengths] needs both prompt and output"
        raise ValueError(msg)
    return list(map(drawer(checked(side, key)), stratified(stream_key(seed, key), count)))


def _check_row(spec: WorkloadSpec, number: int, row: RequestSpec) -> None:
    if row.prompt_tokens < 1 or row.output_tokens < 1:
        msg = (
            f"request {number} ({row.label}) has prompt_tokens {row.prompt_tokens} and "
            f"output_tokens {row.output_tokens}; both must be at least 1"
        )
        raise ValueError(msg)
    prefix = spec.prefix
    if prefix is None:
        return
    if prefix.groups < 1 or not 1 <= prefix.tokens < row.prompt_tokens:
        msg = (
            f"[prefix] has {prefix.groups} groups of {prefix.tokens} tokens, and request {number} "
            f"has {row.prompt_tokens}; a group at least, and a prompt longer than what it shares"
        )
        raise ValueError(msg)
