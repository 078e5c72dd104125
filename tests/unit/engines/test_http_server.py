"""What all adapters have in common: counters, text prompts, TLS, how settings are resolved."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from engines.asking import Asker
from engines.http_server import HttpServer
from engines.prompt_text import PromptText, prompt_text_of
from engines.registry import open_engine
from engines.resolved import resolved_facts, settings_by_nature
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineFacts, EngineSpec, LaunchPlan
from harness.core.errors import UsageError

CLOCK = MonotonicClock()
PAGE = "vllm:num_requests_running 3.0\n"


def engine(kind: str, folder: Path, **changes: Any) -> HttpServer:
    spec = EngineSpec(kind=kind, name=kind, **{"model": "org/m", **changes})
    opened = open_engine(spec, folder, CLOCK)
    assert isinstance(opened, HttpServer)
    return opened


async def served(routes: Sequence[web.RouteDef], use: Any) -> Any:
    """What `use(url)` gives while a server of `routes` is up."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        return await use(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


def page(text: str, seen: list[str] | None = None) -> Any:
    async def answer(request: web.Request) -> web.Response:
        if seen is not None:
            seen.append(request.headers.get("Authorization", ""))
        return web.Response(text=text)

    return answer


def test_counters_are_read_from_the_engines_own_page(tmp_path: Path) -> None:
    async def use(url: str) -> Any:
        return await engine("vllm", tmp_path, attach_url=url).sample()

    sample = asyncio.run(served([web.get("/metrics", page(PAGE))], use))

    assert sample.running == 3


def test_counters_are_read_where_the_user_says_with_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", "k1")
    seen: list[str] = []

    async def use(url: str) -> Any:
        spec = {"attach_url": "http://127.0.0.1:1", "metrics_url": f"{url}/own"}
        return await engine("openai", tmp_path, api_key_env="OUR_KEY", **spec).sample()

    sample = asyncio.run(served([web.get("/own", page(PAGE, seen))], use))

    assert (sample.running, seen) == (3, ["Bearer k1"])


def test_the_records_of_tensorrt_llm_are_added_up_over_readings(tmp_path: Path) -> None:
    text = (
        '[{"numActiveRequests":2,"inflightBatchingStats":{"numPausedRequests":1,"numCtxTokens":5}}]'
    )

    async def use(url: str) -> Any:
        opened = engine("tensorrt-llm", tmp_path, attach_url=url)
        return [await opened.sample() for _ in range(2)]

    first, second = asyncio.run(served([web.get("/metrics", page(text))], use))

    assert (first.preemptions_total, second.preemptions_total) == (1, 2)


def test_an_engine_without_counters_is_not_asked_for_any(tmp_path: Path) -> None:
    seen: list[str] = []

    async def use(url: str) -> Any:
        return await engine("transformers", tmp_path, attach_url=url).sample()

    asyncio.run(served([web.get("/metrics", page(PAGE, seen))], use))

    assert seen == []


def test_a_page_that_is_no_counters_is_no_fault(tmp_path: Path) -> None:
    async def use(url: str) -> Any:
        return await engine("sglang", tmp_path, attach_url=url).sample()

    sample = asyncio.run(served([web.get("/metrics", page("<html>"))], use))

    assert sample is None or sample.running is None


def test_a_certificate_that_is_not_trusted_is_told_with_what_to_do(tmp_path: Path) -> None:
    asker = Asker("https://h:1", EngineSpec("vllm", "e", "m"), None, None)
    failed = ssl.SSLCertVerificationError(1, "self-signed certificate")
    error = aiohttp.ClientConnectorCertificateError(None, failed)  # type: ignore[arg-type]

    said = str(asker._no_tls(error))

    assert "no TLS connection to https://h:1: " in said
    assert "self-signed certificate" in said
    assert "SSL_CERT_FILE" in said


def test_what_a_log_said_last_counts(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    asker = Asker("http://h:1", EngineSpec("vllm", "e", "m"), None, log)
    assert asker.logged(r"size: (\d+)") is None

    log.write_text("size: 1\nsize: 22\n")

    assert asker.logged(r"size: (\d+)") == "22"
    assert Asker("http://h:1", EngineSpec("vllm", "e", "m"), None, None).logged("(x)") is None


# --- prompts as text ---


def test_token_ids_become_the_text_that_their_tokenizer_gives(tiny_model: Path) -> None:
    text = prompt_text_of("tgi", str(tiny_model))
    other = text((5, 6, 7))

    assert isinstance(other, str)
    assert len(other) == 3
    assert PromptText(tiny_model / "tokenizer.json") == text


@pytest.mark.parametrize("kind", ["tgi", "transformers"])
def test_an_engine_that_takes_text_needs_the_models_folder(kind: str, tmp_path: Path) -> None:
    opened = engine(kind, tmp_path, attach_url="http://127.0.0.1:1")

    with pytest.raises(
        UsageError, match="is no folder with a tokenizer.json; give the model's fold"
    ):
        opened.check()


def test_a_damaged_tokenizer_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{")

    with pytest.raises(UsageError, match="cannot read the tokenizer .*tokenizer.json"):
        prompt_text_of("tgi", str(tmp_path))


# --- what the settings are ---

SPEC = EngineSpec("vllm", "e", "org/m", slots=8, context_tokens=64)
PLAN = LaunchPlan(
    ("vllm",), {}, "http://h:1", 1.0,
    applied={"slots": "--max-num-seqs 8", "prefix_cache": "off", "context_tokens": "64", "dtype": "b"},
    unsupported={"kv_tokens": "why"},
)  # fmt: skip


def test_what_the_engine_says_goes_before_what_it_was_told() -> None:
    facts = resolved_facts(EngineFacts(settings={"slots": 4, "prefix_cache": None}), SPEC, PLAN)

    assert facts.settings["slots"] == 4
    assert facts.settings["prefix_cache"] is False
    assert facts.settings["kv_tokens"] is None
    assert (facts.dtype, facts.context_tokens, facts.model) == ("bfloat16", 64, "org/m")


def test_what_the_engine_was_not_told_is_not_made_up() -> None:
    bare = LaunchPlan(("vllm",), {}, "http://h:1", 1.0)
    facts = resolved_facts(EngineFacts(), SPEC, bare)

    assert (facts.dtype, facts.context_tokens) == (None, None)
    assert "slots" not in facts.settings


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("huggingface-static", {"prefix_cache": False}),
        ("vllm", {}),
        ("tgi", {"prompts_sent_as": "text"}),
    ],
)
def test_what_an_engine_cannot_have_is_known_whoever_has_started_it(
    kind: str, known: dict[str, object], tmp_path: Path
) -> None:
    opened = engine(kind, tmp_path, attach_url="http://127.0.0.1:1")

    assert settings_by_nature(opened.capabilities) == known


def test_the_probe_is_on_record() -> None:
    assert resolved_facts(EngineFacts(), SPEC, PLAN).settings["probe"]


@pytest.mark.parametrize(
    ("said", "name"),
    [("/models/smol", "smol"), ("smol", "smol"), ("org/smol", "org/smol"), (None, None)],
)
def test_a_model_has_one_name_whether_its_server_says_the_path_or_not(
    said: str | None, name: str | None
) -> None:
    there = LaunchPlan((), {}, "http://h:1", 1.0)

    assert resolved_facts(EngineFacts(model=said), SPEC, there).model == name
