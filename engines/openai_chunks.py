"""One payload of an OpenAI-compatible stream, and what it proves whatever its server's habits."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamChunk(msgspec.Struct, frozen=True):
    """One payload of a stream, as far as measuring needs it.

    `ids` is the number of token ids that came with it, None when the server sent no list.
    """

    has_choices: bool
    text: str
    ids: int | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    error: str | None


class _Choice(msgspec.Struct):
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    delta: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Usual(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    error: Any = None
    object: Any = None


_usual = msgspec.json.Decoder(_Usual)
_NO_USAGE = _Usage()


def read_chunk(payload: bytes) -> StreamChunk:
    """What `payload` says. Raises ValueError when it is not a JSON object."""
    try:
        chunk = _usual.decode(payload)
    except msgspec.ValidationError:
        return read_unusual_chunk(payload)
    if len(chunk.choices) > 1 or chunk.error is not None or chunk.object == "error":
        return read_unusual_chunk(payload)
    usage = chunk.usage or _NO_USAGE
    if not chunk.choices:
        return _without_choices(usage)
    (choice,) = chunk.choices
    if choice.delta is not None:
        return read_unusual_chunk(payload)
    return StreamChunk(
        has_choices=True,
        text=choice.text or "",
        ids=None if choice.token_ids is None else len(choice.token_ids),
        finish_reason=choice.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        error=None,
    )


def _without_choices(usage: _Usage) -> StreamChunk:
    return StreamChunk(
        has_choices=False,
        text="",
        ids=None,
        finish_reason=None,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        error=None,
    )


def read_unusual_chunk(payload: bytes) -> StreamChunk:
    """The same for any JSON, whatever is missing, null or of another type; slower."""
    data = msgspec.json.decode(payload)
    if not isinstance(data, dict):
        msg = f"expected a JSON object, found {type(data).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one error type for all malformed payloads
    choices = _objects(data.get("choices"))
    usage = _object(data.get("usage"))
    id_lists = [c["token_ids"] for c in choices if isinstance(c.get("token_ids"), list)]
    reasons = [c["finish_reason"] for c in choices if isinstance(c.get("finish_reason"), str)]
    return StreamChunk(
        has_choices=bool(choices),
        text="".join(_generated_text(choice) for choice in choices),
        ids=sum(map(len, id_lists)) if id_lists else None,
        finish_reason=reasons[0] if reasons else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        error=error_message(data),
    )


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


def _generated_text(choice: dict[str, Any]) -> str:
    """What the model wrote in `choice`: text, reasoning, or pieces of tool calls."""
    delta = _object(choice.get("delta"))
    calls = (_object(call.get("function")) for call in _objects(delta.get("tool_calls")))
    pieces = [
        choice.get("text"),
        delta.get("reasoning") or delta.get("reasoning_content"),
        delta.get("content"),
        *(piece for call in calls for piece in (call.get("name"), call.get("arguments"))),
    ]
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
