"""A key goes to the server in a header, and nowhere else, whatever the server answers."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

from engines.api_key import ApiKey
from engines.dialects.llama_completion import LlamaCppDialect
from engines.dialects.openai_completions import OpenAICompletionsDialect
from engines.dialects.sglang_generate import SglangDialect
from engines.dialects.tgi_generate import TgiDialect
from harness.core.engine import Capture, Dialect, Ending, Read
from harness.core.jsonable import to_json
from harness.core.workload import Request

CANARY = 'sk-canary/4+7="<&>'
KEY = ApiKey(CANARY)
DIALECTS = [
    OpenAICompletionsDialect(key=KEY),
    TgiDialect(str, key=KEY),
    SglangDialect(key=KEY),
    LlamaCppDialect(key=KEY),
]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: type(d).__name__)
REQUEST = Request(index=0, label="a", prompt_token_ids=(5,), max_tokens=1)


@each_dialect
def test_the_key_is_sent_in_the_header_of_the_request_alone(dialect: Dialect) -> None:
    wire = dialect.encode(REQUEST, "m")

    assert dict(wire.headers)["Authorization"] == f"Bearer {CANARY}"
    assert "canary" not in wire.body.decode() + wire.path


def test_without_a_key_there_is_no_such_header() -> None:
    wire = OpenAICompletionsDialect().encode(REQUEST, "m")

    assert "Authorization" not in dict(wire.headers)


@each_dialect
def test_a_dialect_that_is_printed_or_kept_shows_no_key(dialect: Dialect) -> None:
    assert dataclasses.is_dataclass(dialect)
    assert not isinstance(dialect, type)
    shown = [repr(dialect), str(dialect), repr(dataclasses.asdict(dialect)), repr(to_json(dialect))]

    assert "canary" not in "".join(shown)
    assert "key=<hidden>" in repr(dialect)


@each_dialect
def test_a_dialect_keeps_its_key_on_the_way_to_another_process(dialect: Dialect) -> None:
    there = pickle.loads(pickle.dumps(dialect))

    assert dict(there.encode(REQUEST, "m").headers)["Authorization"] == f"Bearer {CANARY}"


def answer_to(dialect: Dialect, body: bytes, status: int, content_type: str, detail: str) -> str:
    headers = (("content-type", content_type),)
    ending = Ending.RESET if detail else Ending.COMPLETE
    capture = Capture(0, status, headers, 1, (Read(1, body),), 2, ending, detail)
    return repr(dialect.decode(capture))


@each_dialect
@pytest.mark.parametrize("spelling", ["plain", "json", "json with escaped slashes", "url", "html"])
@pytest.mark.parametrize(
    "place", ["401", "in the stream", "in bad JSON", "a page", "detail", "long"]
)
def test_an_error_that_repeats_the_key_does_not_show_it(
    dialect: Dialect, spelling: str, place: str
) -> None:
    """Hyperloom#1072: the server's 401 repeats the key."""
    spelt = {
        "plain": CANARY,
        "json": json.dumps(CANARY)[1:-1],
        "json with escaped slashes": json.dumps(CANARY)[1:-1].replace("/", "\\/"),
        "url": "sk-canary%2F4%2B7%3D%22%3C%26%3E",
        "html": "sk-canary/4+7=&quot;&lt;&amp;&gt;",
    }[spelling].encode()
    body, status, content_type, detail = {
        "401": (b"Invalid key Bearer " + spelt, 401, "text/plain", ""),
        "in the stream": (
            b'data: {"error": "key ' + spelt + b' is wrong"}\n\n',
            200,
            "text/event-stream",
            "",
        ),
        "in bad JSON": (b"data: {" + spelt + b"\n\n", 200, "text/event-stream", ""),
        "a page": (b"<html>" + spelt + b"</html>", 200, "text/html", ""),
        "detail": (b"", 200, "text/event-stream", "reset by " + spelt.decode()),
        "long": (b"x" * 290 + spelt, 401, "text/plain", ""),
    }[place]

    shown = answer_to(dialect, body, status, content_type, detail)

    assert "canary" not in shown
    assert "hidden" in shown or place == "long"
