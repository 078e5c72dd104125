"""What a client may ask: a request body, checked and turned into a GenerationRequest. No I/O.

Nothing is dropped in silence: a field that is neither known nor listed as harmless is refused, for
a misspelt `ignore_eos` would otherwise only show as a wrong benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from engines.serving.generation import GenerationRequest, TextCodec

DEFAULT_MAX_TOKENS = 16
ROLES = ("system", "user", "assistant")
_ANY = object()

# Fields of the OpenAI API that change nothing here, with the values that they may have.
HARMLESS: Mapping[str, tuple[object, ...]] = {
    "user": (_ANY,),
    "seed": (_ANY,),
    "n": (None, 1),
    "logprobs": (None, False),
    "top_p": (None, 1),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "stop": (None,),
}
_SHARED_FIELDS = (
    "model",
    "max_tokens",
    "temperature",
    "ignore_eos",
    "stream",
    "stream_options",
    "return_token_ids",
)
COMPLETION_FIELDS = (*_SHARED_FIELDS, "prompt")
CHAT_FIELDS = (*_SHARED_FIELDS, "messages", "max_completion_tokens")


class ApiError(Exception):
    """An answer that is an error: an HTTP status, and the OpenAI error object that goes with it.

    `retry_after_s` is for those that may come again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        """The error as JSON."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": str(self),
            "type": "rate_limit_error" if self.status == 429 else kind,
            "param": self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})


@dataclass(frozen=True, slots=True)
class Call:
    """A request body that is in order: what to generate, and how to write the answer down."""

    generation: GenerationRequest
    is_chat: bool
    is_streamed: bool
    includes_usage: bool
    returns_token_ids: bool


def parse_completion(body: bytes, served_name: str, codec: TextCodec) -> Call:
    """The call that a /v1/completions `body` makes. Raises ApiError naming the faulty field."""
    fields = _fields(body, COMPLETION_FIELDS, served_name)
    max_tokens = _max_tokens(fields, "max_tokens")
    return _call(fields, _prompt_ids(fields.get("prompt"), codec), max_tokens, is_chat=False)


def parse_chat(body: bytes, served_name: str, codec: TextCodec) -> Call:
    """The call that a /v1/chat/completions `body` makes. Raises ApiError naming the fault."""
    fields = _fields(body, CHAT_FIELDS, served_name)
    if fields.get("max_tokens") is not None and fields.get("max_completion_tokens") is not None:
        msg = "give only one of max_tokens and max_completion_tokens"
        raise ApiError(400, msg, param="max_completion_tokens")
    is_new_name = fields.get("max_completion_tokens") is not None
    max_tokens = _max_tokens(fields, "max_completion_tokens" if is_new_name else "max_tokens")
    prompt = codec.encode_chat(_messages(fields.get("messages")))
    return _call(fields, prompt, max_tokens, is_chat=True)


def _fields(body: bytes, known: tuple[str, ...], served_name: str) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ApiError(400, f"the body must be a JSON object, not {_kind(fields)}")
    for name, value in fields.items():
        if name not in known:
            _require_harmless(name, value, known)
    _require_model(fields.get("model"), served_name)
    _require_greedy(fields.get("temperature"))
    return fields


def _require_harmless(name: str, value: object, known: tuple[str, ...]) -> None:
    if name not in HARMLESS:
        msg = f"unknown field {name!r}; known are {', '.join(sorted((*known, *HARMLESS)))}"
        raise ApiError(400, msg, param=name, code="unknown_field")
    allowed = HARMLESS[name]
    # True equals 1 in Python, not in JSON.
    is_allowed = any(isinstance(a, bool) == isinstance(value, bool) and a == value for a in allowed)
    if _ANY not in allowed and not is_allowed:
        msg = f"{name} is {_shown(value)}; only {_shown(allowed[-1])} is implemented"
        raise ApiError(400, msg, param=name, code="unsupported_value")


def _require_model(model: object, served_name: str) -> None:
    if not isinstance(model, str):
        msg = f"model must be a string, not {_kind(model)}; this server serves {served_name!r}"
        raise ApiError(400, msg, param="model")
    if model != served_name:
        msg = f"model {model!r} is not here; this server serves {served_name!r}"
        raise ApiError(404, msg, param="model", code="model_not_found")


def _require_greedy(temperature: object) -> None:
    if temperature is not None and (isinstance(temperature, bool) or temperature != 0):
        msg = (
            f"temperature is {_shown(temperature)}; only greedy decoding is implemented, "
            "which is temperature 0"
        )
        raise ApiError(400, msg, param="temperature", code="unsupported_value")


def _call(
    fields: Mapping[str, Any], prompt: tuple[int, ...], max_tokens: int, *, is_chat: bool
) -> Call:
    is_streamed = _flag(fields, "stream")
    return Call(
        generation=GenerationRequest(prompt, max_tokens, _flag(fields, "ignore_eos")),
        is_chat=is_chat,
        is_streamed=is_streamed,
        includes_usage=_includes_usage(fields.get("stream_options"), is_streamed=is_streamed),
        returns_token_ids=_flag(fields, "return_token_ids"),
    )


def _includes_usage(options: object, *, is_streamed: bool) -> bool:
    if options is None:
        return False
    if not is_streamed:
        raise ApiError(400, "stream_options needs stream to be true", param="stream_options")
    if not isinstance(options, dict):
        msg = f"stream_options must be an object, not {_kind(options)}"
        raise ApiError(400, msg, param="stream_options")
    for name in options:
        if name != "include_usage":
            param = f"stream_options.{name}"
            msg = f"unknown field {param!r}; known is stream_options.include_usage"
            raise ApiError(400, msg, param=param, code="unknown_field")
    return _flag(options, "include_usage")


def _max_tokens(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        return DEFAULT_MAX_TOKENS
    if not _is_whole(value) or value < 1:
        msg = f"{name} is {_shown(value)}; it must be a whole number of at least 1"
        raise ApiError(400, msg, param=name)
    return int(value)


def _prompt_ids(prompt: object, codec: TextCodec) -> tuple[int, ...]:
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], (str, list)):
        if len(prompt) > 1:
            msg = f"prompt holds {len(prompt)} prompts; send one prompt a request"
            raise ApiError(400, msg, param="prompt")
        prompt = prompt[0]
    if isinstance(prompt, str):
        ids = codec.encode(prompt)
    elif isinstance(prompt, list) and all(_is_whole(item) and item >= 0 for item in prompt):
        ids = tuple(prompt)
    else:
        msg = "prompt must be a string, or a list of token ids (whole numbers from 0 on)"
        raise ApiError(400, msg, param="prompt")
    if not ids:
        raise ApiError(400, "prompt is empty; it needs at least one token", param="prompt")
    return ids


def _messages(messages: object) -> list[tuple[str, str]]:
    if not isinstance(messages, list) or not messages:
        msg = "messages must be a list of at least one {role, content} object"
        raise ApiError(400, msg, param="messages")
    return [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _message(message: object, where: str) -> tuple[str, str]:
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        msg = f"{where} must be an object of role and content, and nothing else"
        raise ApiError(400, msg, param=where)
    role, content = message["role"], message["content"]
    if role not in ROLES:
        msg = f"{where}.role is {_shown(role)}; known are {', '.join(ROLES)}"
        raise ApiError(400, msg, param=f"{where}.role")
    if not isinstance(content, str):
        msg = f"{where}.content must be a string, not {_kind(content)}"
        raise ApiError(400, msg, param=f"{where}.content")
    return role, content


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ApiError(400, f"{name} must be true or false, not {_shown(value)}", param=name)
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
