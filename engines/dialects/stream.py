"""The payloads of one answer, added up, whatever the wire that they came over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engines.dialects.chunk import Chunk
from engines.dialects.sse import SseParser
from harness.core.engine import Read
from harness.core.record import RequestError, TokenEvent, TokenSource

# A named tuple's own constructor takes twice the time, and there is one for every token.
_new_tuple = tuple.__new__
_DONE = b"[DONE]"


@dataclass(slots=True)
class Stream:
    """One answer as far as it was read. Reading stops at `is_done`, or at a `fault`.

    `read_chunk` says what a payload proves, and raises ValueError when it is no JSON object.
    `counts_always`: the engine's usage is of the answer up to here in every event, the last one
    included; otherwise a first usage beside the end of the answer is taken as one of all of it.
    """

    read_chunk: Callable[[bytes], Chunk]
    counts_always: bool = False
    events: list[TokenEvent] = field(default_factory=list)
    is_done: bool = False
    fault: RequestError | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    usage_tokens: int | None = None
    running_tokens: int | None = None
    ids: list[int] = field(default_factory=list)
    events_without_ids: int = 0
    first_event_ns: int | None = None
    first_answer_ns: int | None = None

    def read(self, reads: Iterable[Read]) -> None:
        """Add all events of `reads`, each stamped with the read that completed it."""
        parser = SseParser()
        for received_ns, body in reads:
            for payload in parser.feed(body):
                self._add(payload, received_ns)
                if self.is_done or self.fault:
                    return

    @property
    def has_all_ids(self) -> bool:
        """Whether `ids` are those of the whole answer, which has some."""
        return bool(self.events) and not self.events_without_ids

    def count(self) -> tuple[int | None, TokenSource | None]:
        """How many tokens the answer has, by the best source that covers all of it."""
        if self.has_all_ids:
            return len(self.ids), TokenSource.ENGINE_IDS
        if self.running_tokens is not None:
            return self.running_tokens, TokenSource.RUNNING_USAGE
        if self.usage_tokens is not None:
            return self.usage_tokens, TokenSource.FINAL_USAGE
        return (len(self.events), TokenSource.CHUNKS) if self.events else (None, None)

    def _add(self, payload: bytes, received_ns: int) -> None:
        try:
            chunk = self.read_chunk(payload)
        except ValueError as error:
            self._note_other(payload.strip(), error)
            return
        if self.first_event_ns is None:
            self.first_event_ns = received_ns
        ids, text = chunk.ids, chunk.text
        growth = None if chunk.usage_tokens is None else self._usage_growth(chunk)
        tokens = growth if ids is None else len(ids)
        if text or tokens:
            self.events.append(_new_tuple(TokenEvent, (received_ns, tokens, text)))
            if ids is None:
                self.events_without_ids += 1
            else:
                self.ids += ids
            if self.first_answer_ns is None and text and not chunk.is_aside:
                self.first_answer_ns = received_ns
        if (
            chunk.finish_reason is not None
            or chunk.usage_tokens is not None
            or chunk.is_last
            or chunk.fault is not None
        ):
            self._add_rest(chunk)

    def _note_other(self, payload: bytes, error: ValueError) -> None:
        if payload == _DONE:
            self.is_done = True
        elif payload:  # some servers ping with an empty `data:`
            found = payload.decode(errors="replace")
            # transformers serve writes its errors into JSON without escaping them.
            if found.startswith('{"error"'):
                self.fault = RequestError("in_stream_error", found)
            else:
                self.fault = RequestError("bad_json", f"{error}, in: {found}")

    def _usage_growth(self, chunk: Chunk) -> int | None:
        """Tokens that the running usage counts since the chunk before; None when it says nothing.

        The first usage is a final one, not a running one, when it comes with or after the finish
        reason, or without a part of the answer.
        """
        is_finished = chunk.finish_reason is not None or self.finish_reason is not None
        if chunk.usage_tokens is None or chunk.is_total:
            return None
        if is_finished and self.running_tokens is None and not self.counts_always:
            return None
        growth = chunk.usage_tokens - (self.running_tokens or 0)
        self.running_tokens = chunk.usage_tokens
        return growth if growth >= 0 else None

    def _add_rest(self, chunk: Chunk) -> None:
        self.finish_reason = chunk.finish_reason or self.finish_reason
        if chunk.prompt_tokens is not None:
            self.prompt_tokens = chunk.prompt_tokens
        if chunk.cached_tokens is not None:
            self.cached_tokens = chunk.cached_tokens
        if chunk.usage_tokens is not None:
            self.usage_tokens = chunk.usage_tokens
        self.fault = chunk.fault
        self.is_done = chunk.is_last
