"""The wire format of OpenAI-compatible servers: bytes in, an Answer out. Pure, no I/O.

Reading order: SseParser (bytes to payloads), openai_chunks.py (a payload to what it proves),
`_Stream` (all chunks of one answer), OpenAICompletionsDialect (the exchange, and how it came out).

The rules that decide a measurement:

- An event counts as a token event when it carries generated text, or token ids, or when the running
  usage grew with it. A chunk that only names the role, or is empty, is none.
- An event is stamped with the read that completed it, that is, that brought its blank line.
- Success needs tokens, and `[DONE]` or a finish reason. After `[DONE]` it no longer matters whether
  the connection was closed well; after a finish reason alone it does, for the usage may be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from engines.openai_chunks import StreamChunk, error_message, read_chunk
from harness.core.engine import Capture, Ending, Read, WireRequest
from harness.core.record import Answer, Outcome, RequestError, TokenEvent, TokenSource
from harness.core.workload import Request

MESSAGE_CHARACTERS = 300
_LINE_END = re.compile(rb"\r\n|\n|\r")
# A named tuple's own constructor takes twice the time, and there is one for every token.
_new_tuple = tuple.__new__
_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_ABORT_REASONS = ("error", "abort")


class SseParser:
    """Server-sent events out of bytes that may be cut anywhere (WHATWG HTML, section 9.2).

    Payloads are bytes, so that a character cut between two reads is whole again. Only `data` is
    kept; comments and the other fields are read over.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._is_first_line = True
        self._skips_lf = False
        self._is_between_events = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads of the events that `chunk` completes, each the joined `data` lines."""
        if (
            # The shape of nearly every read of a stream: one `data` line, and a blank one.
            self._is_between_events
            and chunk[:6] == b"data: "
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk[-1:] == b"\n"
            and chunk.find(b"\r") < 0
        ):
            self._is_first_line = False
            return [chunk[6:-2]]
        payloads = self._feed_any(chunk)
        self._is_between_events = not (self._data or self._skips_lf or any(self._line))
        return payloads

    def _feed_any(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._skips_lf:  # the last read ended between \r and \n
            chunk = chunk.removeprefix(b"\n")
        self._skips_lf = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        payloads = []
        for piece in ended:
            line = b"".join((*self._line, piece))
            self._line.clear()
            payload = self._end_line(line)
            if payload is not None:
                payloads.append(payload)
        self._line.append(rest)
        return payloads

    def _end_line(self, line: bytes) -> bytes | None:
        if self._is_first_line:
            line = line.removeprefix(_BOM)
            self._is_first_line = False
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        if not self._data:
            return None
        payload = b"\n".join(self._data)
        self._data.clear()
        return payload


@dataclass(slots=True)
class _Stream:
    """The chunks of one answer, added up. Reading stops at `is_done`, or at a `fault`."""

    events: list[TokenEvent] = field(default_factory=list)
    is_done: bool = False
    fault: RequestError | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    usage_tokens: int | None = None
    running_tokens: int | None = None
    id_tokens: int = 0
    events_without_ids: int = 0
    first_event_ns: int | None = None

    def read(self, reads: Iterable[Read]) -> None:
        """Add all events of `reads`, each stamped with the read that completed it."""
        parser = SseParser()
        for received_ns, body in reads:
            for payload in parser.feed(body):
                self._add(payload, received_ns)
                if self.is_done or self.fault:
                    return

    def count(self) -> tuple[int | None, TokenSource | None]:
        """How many tokens the answer has, by the best source that covers all of it."""
        if self.events and not self.events_without_ids:
            return self.id_tokens, TokenSource.ENGINE_IDS
        if self.running_tokens is not None:
            return self.running_tokens, TokenSource.RUNNING_USAGE
        if self.usage_tokens is not None:
            return self.usage_tokens, TokenSource.FINAL_USAGE
        return (len(self.events), TokenSource.CHUNKS) if self.events else (None, None)

    def _add(self, payload: bytes, received_ns: int) -> None:
        chunk = self._parse(payload)
        if chunk is None:
            return
        if self.first_event_ns is None:
            self.first_event_ns = received_ns
        ids, text = chunk.ids, chunk.text
        growth = None if chunk.completion_tokens is None else self._usage_growth(chunk)
        tokens = growth if ids is None else ids
        if text or tokens:
            self.events.append(_new_tuple(TokenEvent, (received_ns, tokens, text)))
            if ids is None:
                self.events_without_ids += 1
            else:
                self.id_tokens += ids
        if chunk.finish_reason is not None or chunk.completion_tokens is not None:
            self._add_totals(chunk)

    def _parse(self, payload: bytes) -> StreamChunk | None:
        """The chunk in `payload`; None when it is none, which is noted."""
        try:
            chunk = read_chunk(payload)
        except ValueError as error:
            self._note_other(payload.strip(), error)
            return None
        if chunk.error is not None:
            self.fault = RequestError("in_stream_error", one_line(chunk.error))
            return None
        return chunk

    def _note_other(self, payload: bytes, error: ValueError) -> None:
        if payload == _DONE:
            self.is_done = True
        elif payload:  # some servers ping with an empty `data:`
            found = payload.decode(errors="replace")
            self.fault = RequestError("bad_json", one_line(f"{error}, in: {found}"))

    def _usage_growth(self, chunk: StreamChunk) -> int | None:
        """Tokens that the running usage counts since the chunk before; None when it says nothing.

        The first usage is a final one, not a running one, when it comes with or after the finish
        reason, or without choices.
        """
        is_finished = chunk.finish_reason is not None or self.finish_reason is not None
        if chunk.completion_tokens is None or not chunk.has_choices:
            return None
        if is_finished and self.running_tokens is None:
            return None
        growth = chunk.completion_tokens - (self.running_tokens or 0)
        self.running_tokens = chunk.completion_tokens
        return growth if growth >= 0 else None

    def _add_totals(self, chunk: StreamChunk) -> None:
        self.finish_reason = chunk.finish_reason or self.finish_reason
        if chunk.prompt_tokens is not None:
            self.prompt_tokens = chunk.prompt_tokens
        if chunk.completion_tokens is not None:
            self.usage_tokens = chunk.completion_tokens


@dataclass(frozen=True, slots=True)
class OpenAICompletionsDialect:
    """POST /v1/completions with the prompt as token ids, streamed.

    `asks_token_ids` adds `return_token_ids`, for servers that know it: then every token is counted
    by its id. Others may refuse the field.
    """

    asks_token_ids: bool = False

    def encode(self, request: Request, model: str) -> WireRequest:
        """The HTTP request for a greedy answer of exactly `request.max_tokens` tokens."""
        body: dict[str, Any] = {
            "model": model,
            "prompt": list(request.prompt_token_ids),
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.asks_token_ids:
            body["return_token_ids"] = True
        headers = (("Content-Type", "application/json"), ("Accept", "text/event-stream"))
        return WireRequest("POST", "/v1/completions", headers, msgspec.json.encode(body))

    def decode(self, capture: Capture) -> Answer:
        """What `capture` says; the same however the body was cut into reads, stamps apart."""
        stream = _Stream()
        if capture.status in (None, 200):
            stream.read(capture.reads)
        outcome, error = _judge(capture, stream)
        output_tokens, source = stream.count()
        return Answer(
            events=tuple(stream.events),
            prompt_tokens=stream.prompt_tokens,
            output_tokens=output_tokens,
            output_tokens_source=source,
            finish_reason=stream.finish_reason,
            outcome=outcome,
            error=error,
            first_event_ns=stream.first_event_ns,
        )


def one_line(text: str) -> str:
    """`text` on one line, shortened to 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def _judge(capture: Capture, stream: _Stream) -> tuple[Outcome, RequestError | None]:
    """How the request came out: what the server said goes before how the connection ended."""
    error = _server_error(capture, stream)
    if error is None and capture.ending is Ending.CANCELLED:
        return Outcome.CANCELLED, None
    if error is None and capture.ending is Ending.NOT_ENDED:
        return Outcome.UNFINISHED, None
    error = error or _broken(capture, stream) or _incomplete(capture, stream)
    return (Outcome.FAILED, error) if error else (Outcome.OK, None)


def _server_error(capture: Capture, stream: _Stream) -> RequestError | None:
    if capture.status not in (None, 200):
        return RequestError(f"http_{capture.status}", _http_message(capture))
    if stream.fault is None and stream.finish_reason in _ABORT_REASONS:
        message = f"the server ended the answer with finish_reason {stream.finish_reason!r}"
        return RequestError("aborted", message)
    return stream.fault


def _broken(capture: Capture, stream: _Stream) -> RequestError | None:
    match capture.ending:
        case Ending.CONNECT_FAILED:
            return RequestError("connect", one_line(capture.detail or "cannot connect"))
        case (
            Ending.TOO_LARGE | Ending.CLIENT_FILES_EXHAUSTED | Ending.CLIENT_PORTS_EXHAUSTED as end
        ):
            return RequestError(end.value, one_line(capture.detail))
        case Ending.BAD_FRAMING:
            return RequestError("bad_framing", one_line(capture.detail or "not HTTP"))
        case Ending.RESET if not stream.is_done:
            return RequestError("reset", one_line(capture.detail or "connection reset"))
        case Ending.CUT if not stream.is_done:
            return RequestError("cut", one_line(capture.detail or "connection closed too early"))
        case _:
            return None


def _incomplete(capture: Capture, stream: _Stream) -> RequestError | None:
    if not stream.events:
        return _no_tokens(capture, stream)
    if not stream.is_done and stream.finish_reason is None:
        return RequestError("cut", "the stream ended without [DONE] and without a finish reason")
    return None


def _no_tokens(capture: Capture, stream: _Stream) -> RequestError:
    content_type = {k.lower(): v for k, v in capture.headers}.get("content-type", "")
    is_stream = not content_type or content_type.lower().startswith("text/event-stream")
    if is_stream or stream.is_done:
        return RequestError("empty", "the stream carried no token")
    message = f"the body is {content_type}, not an event stream: {_body_text(capture)}"
    return RequestError("not_event_stream", one_line(message))


def _http_message(capture: Capture) -> str:
    text = _body_text(capture)
    try:
        data = msgspec.json.decode(text)
    except ValueError:
        return one_line(text or "the server gave no reason")
    said = error_message(data)
    return one_line(said or text)


def _body_text(capture: Capture) -> str:
    return b"".join(read.body for read in capture.reads).decode(errors="replace")
