"""Rows of a trace or a specification to requests that can be sent: their prompts are made here.

Each prompt depends on the seed and on its own number (or the ids of its blocks), never on those
before it: any part of a workload can be made alone, and is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from harness.core.errors import UsageError
from harness.core.workload import After, Arrival, Request
from workloads.exact_text import Residue, Tokenizer, counted_as_text, lasting
from workloads.natural_text import NaturalText
from workloads.prompts import PromptSource, random_source
from workloads.shape import Message, Shape
from workloads.streams import stream_key

# So many prompt tokens are made at a time: enough to be quick, few enough to stay in the caches.
_TOKENS_AT_ONCE = 1 << 13
_ROWS_AT_ONCE = 1 << 12
_ID_BITS = (1 << 64) - 1

Segment = tuple[int, int, int]
"""A part of a prompt: the key of its stream, its id, and its length in tokens."""


class PromptKind(StrEnum):
    """What prompts are made of when only their length is known."""

    RANDOM = "random"
    NATURAL = "natural"


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How prompts are made.

    Random ones are of the range [first, last) `token_ids`; with a `tokenizer`, their text has as
    many tokens as they do. Natural ones need it, and so do texts of a trace. `chat_text` makes one
    text of messages. `output_tokens` is asked for where a trace does not say how many.
    """

    token_ids: tuple[int, int] = (1000, 30000)
    kind: PromptKind = PromptKind.RANDOM
    tokenizer: Tokenizer | None = None
    chat_text: Callable[[Sequence[Message]], str] | None = None
    output_tokens: int | None = None


def materialise(
    shapes: Iterable[Shape],
    options: PromptOptions,
    seed: int,
    residue: Residue | None = None,
    first_id: int = 0,
) -> Iterator[Arrival]:
    """The requests that `shapes` describe, in their order, due when they say.

    A row without a time is due with the turn before it, or at 0. Prompts that are only lengths are
    all different: no two begin alike. Those with blocks have equal tokens where the ids are equal.
    `residue` counts the prompts whose text has another number of tokens. Prompt i is made from the
    id `first_id` + i. Raises UsageError when a row cannot be made into a request.
    """
    maker = _Maker(options, seed, Residue() if residue is None else residue)
    turns: dict[str, tuple[int, int]] = {}
    index = 0
    for chunk in _chunks(shapes):
        for shape, prompt in zip(chunk, maker.prompts(chunk, first_id + index), strict=True):
            yield _arrival(shape, prompt, (index, maker.output_tokens(shape)), turns)
            index += 1


def _arrival(
    shape: Shape,
    prompt: tuple[int, ...],
    asked: tuple[int, int | None],
    turns: dict[str, tuple[int, int]],
) -> Arrival:
    """The request number `asked[0]`; `turns` knows the last one of each session, and when due."""
    index, output_tokens = asked
    if output_tokens is None:
        msg = f"request {index} does not say how many tokens it asks for; give --output-tokens"
        raise UsageError(msg)
    if not prompt or output_tokens < 1:
        msg = f"request {index} has {len(prompt)} prompt tokens and asks for {output_tokens}"
        raise UsageError(f"{msg}; both must be at least 1")
    before = None if shape.session is None else turns.get(shape.session)
    due_ns = shape.due_ns
    if due_ns is None:
        due_ns = 0 if before is None else before[1]
    if shape.session is not None:
        turns[shape.session] = (index, due_ns)
    request = Request(index, shape.label, prompt, output_tokens, shape.session, shape.turn)
    return Arrival(due_ns, request, None if before is None else After(before[0], shape.delay_ns))


class _Maker:
    """Makes the prompts of rows, many at a time."""

    def __init__(self, options: PromptOptions, seed: int, residue: Residue) -> None:
        self._options = options
        self._residue = residue
        self._prompt_key = stream_key(seed, "prompts")
        self._block_key = stream_key(seed, "blocks")
        self._spare_key = stream_key(seed, "spare")

    def prompts(self, shapes: Sequence[Shape], first_id: int) -> Iterator[tuple[int, ...]]:
        """The prompt of each row; the first is made from the id `first_id`."""
        made = iter(self._made(shapes, first_id))
        for offset, shape in enumerate(shapes):
            if shape.text is not None or shape.messages:
                yield self._of_text(shape, first_id + offset)
            else:
                prompt = next(made)
                yield prompt if self._is_plain else self._as_text(prompt, shape, first_id + offset)

    def output_tokens(self, shape: Shape) -> int | None:
        """How many tokens to ask for: as the row says, as its answer has, or as the options say."""
        if shape.output_tokens is not None:
            return shape.output_tokens
        tokenizer = self._options.tokenizer
        if shape.answer is None or tokenizer is None:
            return self._options.output_tokens
        return len(tokenizer.encode(shape.answer))

    @cached_property
    def _source(self) -> PromptSource:
        return _source(self._options)

    @property
    def _is_plain(self) -> bool:
        return self._options.tokenizer is None or self._source.is_exact

    def _made(self, shapes: Sequence[Shape], first_id: int) -> list[tuple[int, ...]]:
        """The prompts of the rows that give only a length."""
        segments: list[Segment] = []
        lengths: list[int] = []
        for offset, shape in enumerate(shapes):
            if shape.text is None and not shape.messages:
                own = self._segments(shape, first_id + offset)
                segments += own
                lengths.append(sum(tokens for _, _, tokens in own))
        tokens = self._tokens(segments)
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        return [tuple(tokens[end - n : end]) for n, end in zip(lengths, ends, strict=True)]

    def _segments(self, shape: Shape, prompt_id: int) -> list[Segment]:
        length = shape.prompt_tokens
        if length is None:
            msg = f"request {prompt_id} has neither a prompt nor its length; leave it out"
            raise UsageError(msg)
        if shape.blocks is None:
            return [(self._prompt_key, prompt_id, length)]
        size = shape.blocks.tokens
        return [
            (self._block_key, block & _ID_BITS, min(size, length - place * size))
            for place, block in enumerate(shape.blocks.ids)
        ]

    def _tokens(self, segments: Sequence[Segment]) -> list[int]:
        if not segments:
            return []
        keys, ids, lengths = zip(*segments, strict=True)
        tokens: list[int] = self._source.tokens(
            np.array(keys, dtype=np.uint64),
            np.array(ids, dtype=np.uint64),
            np.array(lengths, dtype=np.int64),
        ).tolist()
        return tokens

    def _of_text(self, shape: Shape, prompt_id: int) -> tuple[int, ...]:
        tokenizer, chat_text = self._options.tokenizer, self._options.chat_text
        if tokenizer is None:
            msg = f"request {prompt_id} is a text, and no tokenizer is known; give --tokenizer"
            raise UsageError(msg)
        if shape.text is not None:
            return tuple(tokenizer.encode(shape.text))
        if chat_text is None:
            msg = f"request {prompt_id} has messages of a chat; give --chat-form"
            raise UsageError(msg)
        return tuple(tokenizer.encode(chat_text(shape.messages)))

    def _as_text(self, prompt: tuple[int, ...], shape: Shape, prompt_id: int) -> tuple[int, ...]:
        """`prompt`, made to last as text; what blocks share is left alone, and only counted."""
        tokenizer = self._options.tokenizer
        assert tokenizer is not None  # noqa: S101 - see _is_plain
        if shape.blocks is None:
            spare = self._tokens([(self._spare_key, prompt_id, len(prompt))])
            kept = lasting(prompt, spare, tokenizer)
        else:
            kept = prompt
        self._residue.add(len(prompt), counted_as_text(kept, tokenizer))
        return kept


def _source(options: PromptOptions) -> PromptSource:
    if options.kind is PromptKind.RANDOM:
        return random_source(options.token_ids, options.tokenizer)
    if options.tokenizer is None:
        msg = "natural prompts are counted by the model's tokenizer; give --tokenizer"
        raise UsageError(msg)
    return NaturalText(options.tokenizer)


def _chunks(shapes: Iterable[Shape]) -> Iterator[list[Shape]]:
    """`shapes` in lists of about `_TOKENS_AT_ONCE` prompt tokens."""
    chunk: list[Shape] = []
    tokens = 0
    for shape in shapes:
        chunk.append(shape)
        tokens += shape.prompt_tokens or 0
        if tokens >= _TOKENS_AT_ONCE or len(chunk) >= _ROWS_AT_ONCE:
            yield chunk
            chunk, tokens = [], 0
    if chunk:
        yield chunk
