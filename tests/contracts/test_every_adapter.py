"""One suite for every adapter, attached to a server that speaks its dialect with its own bytes.

How adapters launch is in test_every_launch.py. A new adapter begins with a row in conftest.py.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.clock import MonotonicClock
from harness.core.errors import EngineFailed, UsageError
from harness.core.manifest import MachineFacts, RunManifest, RunStatus
from harness.core.record import Outcome
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.lifecycle import RunContext, run_engine

JSON = "application/json"
MODEL = "org/model"
CANARY = "sk-canary-4711"


def listed(*names: str, **extra: object) -> list[list[Any]]:
    """The answer of /v1/models."""
    rows = [{"id": name, "object": "model", **extra} for name in names]
    return [[200, JSON, json.dumps({"object": "list", "data": rows})]]


def test_a_server_that_answers_is_ready_and_says_what_it_is(
    row: Any, attach: Any, talk: Any
) -> None:
    facts = asyncio.run(talk.get_ready(attach(row)))

    assert (facts.version, facts.context_tokens) == (row.version, row.context)
    assert {name: facts.settings.get(name) for name in row.settings} == row.settings
    assert facts.served_name == MODEL
    assert "adapter_written_for" not in facts.settings
    assert facts.model_digest is None
    assert ("POST", row.route) in [asked[:2] for asked in attach.asked]


def test_tokens_are_counted_by_the_source_that_the_adapter_promises(
    row: Any, attach: Any, talk: Any
) -> None:
    answer = asyncio.run(talk.ask(attach(row)))

    assert (answer.outcome, answer.output_tokens) == (Outcome.OK, 3)
    assert answer.output_tokens_source is row.counts


def test_several_tokens_in_one_event_are_all_counted(row: Any, attach: Any, talk: Any) -> None:
    answer = asyncio.run(talk.ask(attach(row, row.answers("several"))))

    assert answer.outcome is Outcome.OK
    assert answer.output_tokens > 2
    assert len(answer.events) <= answer.output_tokens


@pytest.mark.parametrize("section", ["error", "overload", "abort", "cut", "refused-json"])
def test_what_is_no_answer_is_a_failure_with_words(
    row: Any, section: str, attach: Any, talk: Any
) -> None:
    answer = asyncio.run(talk.ask(attach(row, row.answers(section))))

    assert answer.outcome is Outcome.FAILED
    assert answer.error.message


@pytest.mark.parametrize("section", ["overload", "refused-json"])
def test_a_healthy_server_that_refuses_to_answer_is_not_ready(
    row: Any, section: str, attach: Any, talk: Any
) -> None:
    said = talk.refusal(EngineFailed, attach(row, row.answers(section)))

    assert "is healthy, but gives no tokens: " in said
    assert "\n" not in said


def test_a_server_whose_stream_is_empty_is_not_ready(row: Any, attach: Any, talk: Any) -> None:
    empty = [[200, "text/event-stream", "data: [DONE]\n\n"]]
    said = talk.refusal(EngineFailed, attach(row, row.answers() | {row.post: empty}))

    assert said.endswith("gives no tokens: the stream carried no token (HTTP 200); read its log")


@pytest.mark.parametrize(("policy", "prompts"), [("static", 3), ("dynamic", 3), ("continuous", 1)])
def test_a_policy_that_waits_for_batches_is_asked_with_a_whole_one(
    batching: Any, policy: str, prompts: int, attach: Any, talk: Any
) -> None:
    asyncio.run(talk.get_ready(attach(batching, policy=policy, slots=3)))

    assert [asked[0] for asked in attach.asked].count("POST") == prompts


@pytest.mark.parametrize(
    "body", ['{"error":"unknown field `foo`"}', '{"detail":"Unexpected fields in the request"}']
)
def test_an_unknown_field_that_is_refused_points_to_another_version(
    row: Any, body: str, attach: Any, talk: Any
) -> None:
    refused = {row.post: [[422, JSON, body]]}
    said = talk.refusal(EngineFailed, attach(row, row.answers() | refused))

    assert "HTTP 422" in said
    assert f"another version than {row.kind} was written for" in said


def test_a_context_that_is_too_short_is_told_in_the_servers_words(
    row: Any, attach: Any, talk: Any
) -> None:
    body = '{"error":{"message":"maximum context length is 64 tokens","code":400}}'
    refused = {row.post: [[400, JSON, body]]}
    answer = asyncio.run(talk.ask(attach(row, row.answers() | refused)))

    assert answer.error.kind == "http_400"
    assert answer.error.message == "maximum context length is 64 tokens"


def test_a_name_that_is_not_served_is_refused_with_those_that_are(
    row: Any, attach: Any, talk: Any
) -> None:
    answers = row.answers() | {"GET /v1/models": listed("one", "two")}
    said = talk.refusal(UsageError, attach(row, answers, served_name="three"))

    assert said.endswith(
        "serves no model 'three'; it serves one, two: choose one with --served-name"
    )


def test_a_404_for_the_model_lists_the_names_that_are_served(
    row: Any, attach: Any, talk: Any
) -> None:
    missing = {row.post: [[404, JSON, '{"error":{"message":"no such model"}}']]}
    said = talk.refusal(UsageError, attach(row, row.answers() | missing))

    assert f"it serves {MODEL}" in said


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_asks_for_a_key_is_told_by_the_flag(
    row: Any, status: int, attach: Any, talk: Any
) -> None:
    closed = [[status, JSON, '{"error":"Unauthorized"}']]
    answers = row.answers() | {row.post: closed, "GET /v1/models": closed}
    said = talk.refusal(UsageError, attach(row, answers))

    assert f"asks for a key (HTTP {status})" in said
    assert "--api-key-env" in said


def test_a_wrong_key_is_told_by_its_variable_and_never_shown(
    row: Any, attach: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", CANARY)
    closed = {row.post: [[401, JSON, json.dumps({"error": f"no such key {CANARY}"})]]}
    said = talk.refusal(UsageError, attach(row, row.answers() | closed, api_key_env="OUR_KEY"))

    assert "refuses the key in OUR_KEY" in said
    assert CANARY not in said
    assert all(asked[2]["Authorization"] == f"Bearer {CANARY}" for asked in attach.asked)


def test_a_missing_key_is_told_before_anything_is_asked(
    row: Any, attach: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUR_KEY", raising=False)
    engine = attach(row, api_key_env="OUR_KEY")

    with pytest.raises(UsageError, match="variable OUR_KEY, .* is not set"):
        engine.check()
    assert attach.asked == []


def test_a_server_without_tls_at_an_https_url_is_told(row: Any, attach: Any, talk: Any) -> None:
    engine = attach(row, scheme="https")
    said = talk.refusal(UsageError, engine)

    assert said.startswith(f"no TLS connection to {engine.plan.base_url}: ")


def test_another_version_is_carried_with_the_facts(versioned: Any, attach: Any, talk: Any) -> None:
    bodies = {path.removeprefix("/"): body for path, body in versioned.other_version.items()}
    facts = asyncio.run(talk.get_ready(attach(versioned, versioned.answers(**bodies))))

    assert facts.version not in (None, versioned.version)
    assert facts.settings["adapter_written_for"]


def test_settings_of_a_server_started_by_somebody_else_are_never_guessed(
    others_front: Any, attach: Any, talk: Any
) -> None:
    row = others_front
    bare = {row.post: [row.stream_of("happy")], f"GET {row.is_ready}": [[200, JSON, "{}"]]}
    facts = asyncio.run(talk.get_ready(attach(row, bare, slots=3, prefix_cache=True)))

    assert (facts.version, facts.model, facts.dtype) == (None, None, None)
    assert {facts.settings[name] for name in ("slots", "prefix_cache", "kv_tokens")} == {None}


def test_a_server_that_was_attached_to_is_left_running(
    row: Any, attach: Any, talk: Any, tmp_path: Path
) -> None:
    engine = attach(row)

    async def use_and_stop() -> Any:
        await talk.start_and_stop(engine)
        engine.raise_if_dead()
        return await talk.ask(engine)

    assert asyncio.run(use_and_stop()).outcome is Outcome.OK
    assert engine.plan.argv == ()
    assert list(tmp_path.iterdir()) == []


def measure(engine: Any, folder: Path) -> RunManifest:
    """One run of three requests."""
    arrivals = tuple(Arrival(0, Request(i, "A", (11, 12, 13 + i), 3)) for i in range(3))
    context = RunContext(
        tool_version="0",
        command=("run",),
        machine=MachineFacts("cpu", 2, 24, (), "Linux", "3.11"),
        clock=MonotonicClock(),
        on_stage=lambda _: None,
        on_progress=lambda _: None,
    )
    work = Workload("small", 0, 1, Load(LoadKind.BACKLOG), arrivals)
    return asyncio.run(run_engine(engine, work, (), folder, context))


def test_a_run_against_each_engine_is_complete_and_holds_no_key(
    row: Any, attach: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is that to the probe; one of the next three repeats the key."""
    monkeypatch.setenv("OUR_KEY", CANARY)
    good = row.stream_of("happy")
    echo = [500, JSON, json.dumps({"error": {"message": f"bad key {CANARY}"}})]
    answers = row.answers() | {row.post: [good, good, echo, good]}
    manifest = measure(attach(row, answers, api_key_env="OUR_KEY", slots=1), tmp_path)

    assert manifest.status is RunStatus.COMPLETE
    assert (manifest.counts.ok, manifest.counts.failed) == (2, 1)
    assert len(manifest.labels["launch"]) == 64
    for file in tmp_path.iterdir():
        assert CANARY not in file.read_text(), file
    assert "bad key <hidden>" in (tmp_path / "requests.jsonl").read_text()


def test_requests_that_do_not_fit_the_context_are_refused_before_measuring(
    any_openai: Any, attach: Any, tmp_path: Path
) -> None:
    answers = any_openai.answers() | {"GET /v1/models": listed(MODEL, max_model_len=5)}
    engine = attach(any_openai, answers)

    with pytest.raises(UsageError, match="needs 6 tokens, but openai has a context of 5; give it"):
        measure(engine, tmp_path)
