"""What one payload of a stream proves, in words that all engines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.core.record import RequestError


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """What one payload of a stream proves; by default nothing.

    `text` was generated; `is_aside` when none of it belongs to the answer itself, but to reasoning
    or to a tool call. `ids` are the token ids that came with it, None when the engine sent no list.
    `finish_reason` is `length` or `stop`, or the engine's own word where it is neither.

    `usage_tokens` is how many tokens the engine counts in the answer, up to here or in all;
    `is_total` when it can only be in all, as no part of the answer came with it. `cached_tokens`
    are those of `prompt_tokens` that it had in a cache. `is_last`: nothing that matters follows.
    """

    text: str = ""
    ids: Sequence[int] | None = None
    is_aside: bool = False
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    usage_tokens: int | None = None
    cached_tokens: int | None = None
    is_total: bool = False
    is_last: bool = False
    fault: RequestError | None = None


def odd_chunk(payload: bytes) -> Chunk:
    """The error that `payload` holds, or nothing. Raises ValueError when it is no JSON object."""
    return Chunk(fault=in_stream_error(error_message(json_object(payload))))


def json_object(payload: bytes) -> dict[str, Any]:
    """`payload` as a dict. Raises ValueError when it is not a JSON object."""
    data = msgspec.json.decode(payload)
    if not isinstance(data, dict):
        msg = f"expected a JSON object, found {type(data).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one error type for all malformed payloads
    return data


def in_stream_error(message: str | None) -> RequestError | None:
    """The failure of a request whose answer, begun with status 200, holds an error."""
    return None if message is None else RequestError("in_stream_error", message)


def error_message(data: object) -> str | None:
    """The message of an error object in any of its usual shapes; None when `data` is none.

    Known shapes: ``{"error": {"message": ...}}``, ``{"error": "..."}``,
    ``{"object": "error", "message": ...}`` and ``{"detail": ...}``.
    """
    if not isinstance(data, dict):
        return None
    error = data.get("error") or None
    if error is None and (data.get("object") == "error" or "choices" not in data):
        error = data.get("message") or data.get("detail")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    if error is None or isinstance(error, str):
        return error
    return msgspec.json.encode(error).decode()
