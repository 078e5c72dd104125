"""What was observed: of one request, and of one step of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """How a request that was sent came out. Each has exactly one."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNFINISHED = "unfinished"


class TokenSource(StrEnum):
    """Where a token count comes from, best first."""

    ENGINE_IDS = "engine_ids"
    RUNNING_USAGE = "running_usage"
    FINAL_USAGE = "final_usage"
    CHUNKS = "chunks"


class TokenEvent(NamedTuple):
    """One event of a stream that carried generated payload."""

    received_ns: int
    tokens: int | None
    text: str


@dataclass(frozen=True, slots=True)
class RequestError:
    """Why a request did not end well. `kind` is one of a small set; `message` is the server's."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a dialect read out of a capture: the tokens, the counts, and how it ended.

    `first_event_ns` is the first event of any kind, which may name a role and carry no token.
    `first_answer_ns` is the first event that carries text of the answer itself, not of reasoning;
    None when no event says which it is. `usage_tokens` is what the engine's last usage counts,
    whatever source `output_tokens` was taken from; `cached_tokens` how many of the prompt's tokens
    it says it had in a cache. `token_ids` are those of the whole answer; None when a part of it
    came without.
    """

    events: tuple[TokenEvent, ...]
    prompt_tokens: int | None
    output_tokens: int | None
    output_tokens_source: TokenSource | None
    finish_reason: str | None
    outcome: Outcome
    error: RequestError | None = None
    first_event_ns: int | None = None
    first_answer_ns: int | None = None
    usage_tokens: int | None = None
    cached_tokens: int | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Everything observed about one request. Instants are ns from the start of the run.

    `events_ns[i]` is when the i-th event with generated payload was read, `events_tokens[i]` how
    many tokens it carried (None: the engine does not say). `closed_ns` is the end of the stream,
    which may lie after the last token. `retries` counts attempts on a kept connection that the
    server closed before any byte came back; `sent_ns` is of the first.

    `ids_marks` and `text_marks` stand for the answer itself: harness.core.marks makes them of its
    token ids and of its text, so that two answers can be compared. None where the engine sends no
    ids, and of an answer that did not end well.

    `session` and `turn` are those of its Request. `after` is the index of the request whose end it
    waited for; `due_ns` is then the instant that this end, and the delay after it, allowed.
    """

    index: int
    label: str
    due_ns: int
    sent_ns: int
    first_byte_ns: int | None
    events_ns: tuple[int, ...]
    events_tokens: tuple[int | None, ...]
    closed_ns: int | None
    prompt_tokens_asked: int
    output_tokens_asked: int
    prompt_tokens: int | None
    output_tokens: int | None
    output_tokens_source: TokenSource | None
    finish_reason: str | None
    outcome: Outcome
    error: RequestError | None
    http_status: int | None
    bytes_received: int
    retries: int = 0
    first_event_ns: int | None = None
    first_answer_ns: int | None = None
    usage_tokens: int | None = None
    cached_tokens: int | None = None
    ids_marks: str | None = None
    text_marks: str | None = None
    session: str | None = None
    turn: int = 0
    after: int | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of an engine that logs its steps. Instants are CLOCK_MONOTONIC, or virtual, ns.

    Of `slots`, `running` worked for some answer in this step, reading or decoding, `padded` were
    held by requests that had already ended, and the rest were empty. `prefill_padding_tokens` were
    computed only because prompts of one batch are padded to the longest. The KV blocks are None
    where the engine has none that are counted.

    `prefill_context_tokens` and `decode_context_tokens`: tokens that rows attend to, summed over
    the rows of each half. `outside_ns` of the duration went neither to reading nor to decoding: to
    scheduling, and to handing tokens on. `kv_tokens_stored` hold keys and values;
    `kv_tokens_unfilled` are the free rest of their blocks, `kv_tokens_over_reserved` lie in blocks
    that hold none yet; `kv_blocks_stranded` are free and enough for the next request, but not in
    one run. `preempted` sequences lost their blocks to this step. `read_bytes` must at least be
    read from memory (weights, keys and values) and `flops` computed, padding rows included. All of
    these are None where the engine does not say.
    """

    index: int
    started_ns: int
    duration_ns: int
    slots: int
    running: int
    padded: int
    waiting: int
    kv_blocks_used: int | None
    kv_blocks_total: int | None
    prefill_sequences: int
    prefill_tokens: int
    prefill_padding_tokens: int
    decode_tokens: int
    prefill_ns: int
    decode_ns: int
    prefill_context_tokens: int | None = None
    decode_context_tokens: int | None = None
    outside_ns: int | None = None
    kv_tokens_stored: int | None = None
    kv_tokens_unfilled: int | None = None
    kv_tokens_over_reserved: int | None = None
    kv_blocks_stranded: int | None = None
    preempted: int | None = None
    prefix_hit_tokens: int | None = None
    read_bytes: int | None = None
    flops: int | None = None
