"""One payload of an OpenAI-compatible stream, and what it proves whatever its server's habits."""

from __future__ import annotations

from typing import Any

import msgspec

from engines.dialects.chunk import Chunk, error_message, in_stream_error, json_object


class _Choice(msgspec.Struct):
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    delta: Any = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Usual(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    error: Any = None
    object: Any = None


_usual = msgspec.json.Decoder(_Usual)
_NO_CHOICE = _Choice()


def read_chunk(payload: bytes) -> Chunk:
    """What `payload` says. Raises ValueError when it is not a JSON object."""
    try:
        chunk = _usual.decode(payload)
    except msgspec.ValidationError:
        return read_unusual_chunk(payload)
    if len(chunk.choices) > 1 or chunk.error is not None or chunk.object == "error":
        return read_unusual_chunk(payload)
    choice = chunk.choices[0] if chunk.choices else _NO_CHOICE
    if choice.delta is not None:
        return read_unusual_chunk(payload)
    text, reason, is_total = choice.text or "", choice.finish_reason, not chunk.choices
    ids, usage = choice.token_ids, chunk.usage
    if usage is None:
        return Chunk(text=text, ids=ids, finish_reason=reason, is_total=is_total)
    details = usage.prompt_tokens_details
    return Chunk(
        text=text,
        ids=ids,
        finish_reason=reason,
        prompt_tokens=usage.prompt_tokens,
        usage_tokens=usage.completion_tokens,
        cached_tokens=None if details is None else details.cached_tokens,
        is_total=is_total,
    )


def read_unusual_chunk(payload: bytes) -> Chunk:
    """The same for any JSON, whatever is missing, null or of another type; slower."""
    data = json_object(payload)
    choices = _objects(data.get("choices"))
    usage = _object(data.get("usage"))
    id_lists = [ids for c in choices if (ids := _ids(c.get("token_ids"))) is not None]
    reasons = [c["finish_reason"] for c in choices if isinstance(c.get("finish_reason"), str)]
    texts = [_texts(choice) for choice in choices]
    text = "".join(map("".join, texts))
    return Chunk(
        text=text,
        ids=[token_id for ids in id_lists for token_id in ids] if id_lists else None,
        is_aside=bool(text) and not any(answer for _, answer, _ in texts),
        finish_reason=reasons[0] if reasons else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        usage_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
        is_total=not choices,
        fault=in_stream_error(error_message(data)),
    )


def _texts(choice: dict[str, Any]) -> tuple[str, str, str]:
    """What the model wrote in `choice`: reasoning, the answer itself, pieces of tool calls."""
    delta = _object(choice.get("delta"))
    calls = [_object(call.get("function")) for call in _objects(delta.get("tool_calls"))]
    return (
        _joined(delta.get("reasoning") or delta.get("reasoning_content")),
        _joined(choice.get("text"), delta.get("content")),
        _joined(*(piece for call in calls for piece in (call.get("name"), call.get("arguments")))),
    )


def _joined(*pieces: object) -> str:
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _ids(value: object) -> list[int] | None:
    is_list = isinstance(value, list) and all(_count(item) is not None for item in value)
    return value if is_list else None  # type: ignore[return-value]  # all are counted as int


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
