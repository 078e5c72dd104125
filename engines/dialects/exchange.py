"""Both ends of an exchange, alike for every wire: the POST that asks, and the Answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from engines.api_key import ApiKey
from engines.dialects.outcome import judge
from engines.dialects.stream import Stream
from harness.core.engine import Capture, WireRequest
from harness.core.record import Answer, RequestError

MESSAGE_CHARACTERS = 300


def post(path: str, body: Mapping[str, object], key: ApiKey | None) -> WireRequest:
    """A POST of `body` as JSON that is to be answered with an event stream."""
    headers: tuple[tuple[str, str], ...] = (
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
    )
    if key is not None:
        headers = (*headers, key.header)
    return WireRequest("POST", path, headers, msgspec.json.encode(body))


def read_answer(capture: Capture, stream: Stream, key: ApiKey | None) -> Answer:
    """What `capture` says, read into the empty `stream`.

    The same however the body was cut into reads, stamps apart. Errors are on one line, shortened,
    and never hold the key, whatever the server repeats.
    """
    if capture.status in (None, 200):
        stream.read(capture.reads)
    outcome, error = judge(capture, stream)
    output_tokens, source = stream.count()
    return Answer(
        events=tuple(stream.events),
        prompt_tokens=stream.prompt_tokens,
        output_tokens=output_tokens,
        output_tokens_source=source,
        finish_reason=stream.finish_reason,
        outcome=outcome,
        error=error and _presentable(error, key),
        first_event_ns=stream.first_event_ns,
        first_answer_ns=stream.first_answer_ns,
        usage_tokens=stream.usage_tokens,
        cached_tokens=stream.cached_tokens,
        token_ids=tuple(stream.ids) if stream.has_all_ids else None,
    )


def one_line(text: str) -> str:
    """`text` on one line, shortened to 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def _presentable(error: RequestError, key: ApiKey | None) -> RequestError:
    # Hidden before it is shortened, for half a key is a secret too.
    message = error.message if key is None else key.hide(error.message)
    return replace(error, message=one_line(message))
