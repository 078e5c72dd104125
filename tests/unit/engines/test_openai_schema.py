"""Request bodies, good and bad, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.serving.generation import GenerationRequest
from engines.serving.openai_schema import ApiError, Call, parse_chat, parse_completion


class ByteCodec:
    """Token ids are bytes."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())

    def encode_chat(self, messages: list[tuple[str, str]]) -> tuple[int, ...]:
        return self.encode("".join(f"[{role}]{content}" for role, content in messages))

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return bytes(token_ids).decode(errors="replace")


def completion(**changes: Any) -> dict[str, Any]:
    """A good body with `changes`; `...` leaves a field out."""
    body = {"model": "m", "prompt": "ab", "max_tokens": 3, **changes}
    return {name: value for name, value in body.items() if value is not ...}


def chat(**changes: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **changes}
    return {name: value for name, value in body.items() if value is not ...}


def parsed(body: object) -> Call:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_completion(data, "m", ByteCodec())


def parsed_chat(body: object) -> Call:
    return parse_chat(json.dumps(body).encode(), "m", ByteCodec())


def test_a_plain_body_asks_for_a_whole_answer() -> None:
    assert parsed(completion(max_tokens=...)) == Call(
        generation=GenerationRequest((97, 98), 16, ignore_eos=False),
        is_chat=False,
        is_streamed=False,
        includes_usage=False,
        returns_token_ids=False,
    )


def test_every_option_is_read() -> None:
    options = {"include_usage": True}
    body = completion(stream=True, stream_options=options, ignore_eos=True, return_token_ids=True)

    assert parsed(body) == Call(
        generation=GenerationRequest((97, 98), 3, ignore_eos=True),
        is_chat=False,
        is_streamed=True,
        includes_usage=True,
        returns_token_ids=True,
    )


@pytest.mark.parametrize("name", ["temperature", "stream", "stream_options", "max_tokens", "stop"])
def test_null_is_as_good_as_absent(name: str) -> None:
    assert parsed(completion(**{name: None})) == parsed(completion(**{name: ...}))


def test_a_chat_is_encoded_with_its_roles() -> None:
    turns = [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]

    call = parsed_chat(chat(messages=turns, max_completion_tokens=5))

    assert call.is_chat
    assert bytes(call.generation.prompt_token_ids) == b"[system]be[user]hi"
    assert call.generation.max_tokens == 5


@pytest.mark.parametrize(
    ("body", "status", "param", "words"),
    [
        (b"{", 400, None, "not valid JSON"),
        (b"[]", 400, None, "must be a JSON object, not a list"),
        (completion(ignore_eso=True), 400, "ignore_eso", "unknown field 'ignore_eso'"),
        (completion(model="other"), 404, "model", "this server serves 'm'"),
        (completion(model=...), 400, "model", "model must be a string, not null"),
        (completion(prompt=""), 400, "prompt", "prompt is empty"),
        (completion(prompt=[]), 400, "prompt", "prompt is empty"),
        (completion(prompt=...), 400, "prompt", "prompt must be a string, or a list"),
        (completion(prompt=["a", "b"]), 400, "prompt", "2 prompts"),
        (completion(prompt=[[1], [2]]), 400, "prompt", "2 prompts"),
        (completion(prompt=[1, "a"]), 400, "prompt", "list of token ids"),
        (completion(prompt=[-1]), 400, "prompt", "list of token ids"),
        (completion(prompt=[True]), 400, "prompt", "list of token ids"),
        (completion(max_tokens=0), 400, "max_tokens", "max_tokens is 0"),
        (completion(max_tokens=1.5), 400, "max_tokens", "max_tokens is 1.5"),
        (completion(max_tokens=True), 400, "max_tokens", "max_tokens is true"),
        (completion(temperature=1), 400, "temperature", "only greedy"),
        (completion(temperature="0"), 400, "temperature", "only greedy"),
        (completion(n=2), 400, "n", "n is 2; only 1"),
        (completion(n=True), 400, "n", "n is true; only 1"),
        (completion(logprobs=0), 400, "logprobs", "logprobs is 0"),
        (completion(top_p=0.5), 400, "top_p", "top_p is 0.5; only 1"),
        (completion(stop=["x"]), 400, "stop", "only null"),
        (completion(stream="yes"), 400, "stream", "stream must be true or false"),
        (completion(stream_options={}), 400, "stream_options", "needs stream"),
        (completion(stream=True, stream_options=1), 400, "stream_options", "an object, not a num"),
        (
            completion(stream=True, stream_options={"x": 1}),
            400,
            "stream_options.x",
            "unknown field 'stream_options.x'",
        ),
    ],
)
def test_a_bad_completion_is_refused_with_the_reason(
    body: object, status: int, param: str | None, words: str
) -> None:
    with pytest.raises(ApiError) as caught:
        parsed(body)

    error = json.loads(caught.value.body())["error"]
    assert caught.value.status == status
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": ...}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "a", "name": "b"}]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content"),
        ({"prompt": "a"}, "prompt"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_completion_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ],
)
def test_a_bad_chat_is_refused_with_the_field(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parsed_chat(chat(**changes))

    assert (caught.value.status, caught.value.param) == (400, param)


def test_our_own_faults_have_another_type_than_the_clients() -> None:
    kinds = [json.loads(ApiError(s, "x").body())["error"]["type"] for s in (404, 500)]

    assert kinds == ["invalid_request_error", "server_error"]
