"""Scripted answers and small workloads for the load generator's tests."""

import json
from collections.abc import Callable

import pytest

from engines.scripted import Script, ScriptEnd, chunk, response_head
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload

MS = 1_000_000


def sse(data: object) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return chunk(f"data: {text}\n\n".encode())


@pytest.fixture
def answer() -> Callable[..., Script]:
    """An OpenAI completion stream of `tokens` tokens, `gap_ns` apart after `first_ns`."""

    def make(tokens: int = 2, first_ns: int = 0, gap_ns: int = 0) -> Script:
        pieces = [(first_ns if i == 0 else gap_ns, _token(i)) for i in range(tokens)]
        usage = {"prompt_tokens": 3, "completion_tokens": tokens}
        last = sse({"choices": [{"text": "", "finish_reason": "length"}]})
        tail = last + sse({"choices": [], "usage": usage}) + sse("[DONE]") + chunk(b"")
        return Script(((0, response_head()), *pieces, (0, tail)))

    return make


@pytest.fixture
def cut_answer() -> Script:
    """A stream that closes after its first token."""
    return Script(((0, response_head()), (0, _token(0))))


@pytest.fixture
def silent_answer() -> Script:
    """A stream that sends one token and then nothing, for ever."""
    return Script(((0, response_head()), (0, _token(0))), ScriptEnd.HANG)


@pytest.fixture
def workload() -> Callable[..., Workload]:
    """`count` requests of three prompt tokens and two answer tokens."""

    def make(count: int, load: Load | None = None, due_ns: tuple[int, ...] = ()) -> Workload:
        arrivals = tuple(
            Arrival(due_ns[i] if due_ns else 0, Request(i, "A", (1, 2, i), 2)) for i in range(count)
        )
        return Workload("small", 0, 1, load or Load(LoadKind.BACKLOG), arrivals)

    return make


def _token(index: int) -> bytes:
    return sse({"choices": [{"text": f"t{index}", "finish_reason": None}]})
