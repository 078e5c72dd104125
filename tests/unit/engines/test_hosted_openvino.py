"""OpenVINO GenAI behind the TokenEngine protocol: the tokens, the limits, and its process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino_genai", reason="openvino-genai is not installed (extra: openvino)")

from engines.hosted.openvino_engine import OpenVinoEngine, build_engine
from engines.hosted.openvino_genai import load
from engines.hosted.options import HostedOptions
from engines.models.identity import model_digest
from engines.serving.generation import (
    GeneratedToken,
    GenerationRequest,
    RequestRefused,
)
from harness.core.clock import MonotonicClock
from harness.core.errors import EngineFailed, ModelFileError, UsageError

OPTIONS = HostedOptions(slots=4, dtype="float32", threads=1, kv_tokens=400)
# With a beginning in common that fills a block of the KV cache, but none begins with all of another.
START = tuple(range(40, 72))
PROMPTS = [(5,), (6, 7, 8), (*START, 9, 9), (9,) * 7, (*START, *range(100, 180)), (4, 4)]
LENGTHS = (30, 5, 12, 1, 20, 9)
END_ID = 2  # of the tiny model


async def answer(
    engine: OpenVinoEngine, prompt: Sequence[int], most: int, *, ignore_eos: bool = True
) -> list[GeneratedToken]:
    request = GenerationRequest(tuple(prompt), most, ignore_eos)
    return [token async for token in engine.generate(request)]


async def all_answers(engine: OpenVinoEngine) -> list[list[GeneratedToken]]:
    requests = zip(PROMPTS, LENGTHS, strict=True)
    return await asyncio.gather(*(answer(engine, p, most) for p, most in requests))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def ids(tokens: Sequence[GeneratedToken]) -> list[int]:
    return [token.token_id for token in tokens]


class Running:
    """An engine at work, on a loop that lives as long as it does."""

    def __init__(self, path: Path, options: HostedOptions) -> None:
        self.engine = build_engine(path, options, MonotonicClock())
        self._runner = asyncio.Runner()
        self._runner.run(self._start())

    async def _start(self) -> None:
        self.engine.start()

    def run(self, use: Callable[[OpenVinoEngine], Coroutine[Any, Any, Any]]) -> Any:
        return self._runner.run(asyncio.wait_for(use(self.engine), 60))

    def close(self) -> None:
        self._runner.run(self.engine.stop())
        self._runner.close()


@pytest.fixture(scope="module")
def running(tiny_gguf: Path) -> Iterator[Running]:
    running = Running(tiny_gguf, OPTIONS)
    yield running
    running.close()


@pytest.fixture(scope="module")
def prompts_first(tiny_gguf: Path) -> Iterator[Running]:
    """Without chunked prefill, and with a KV cache that grows."""
    changes = {"chunked_prefill": False, "kv_tokens": None, "context_tokens": 200, "slots": 2}
    running = Running(tiny_gguf, replace(OPTIONS, **changes))
    yield running
    running.close()


@pytest.fixture
def own(tiny_gguf: Path) -> Iterator[Callable[..., Running]]:
    """Makes engines that a test may break or configure."""
    made: list[Running] = []

    def make(**changes: Any) -> Running:
        made.append(Running(tiny_gguf, replace(OPTIONS, **changes)))
        return made[-1]

    yield make
    for running in made:
        running.close()


def test_answers_have_exactly_the_tokens_asked_for_and_repeat_themselves(running: Running) -> None:
    first, second = running.run(all_answers), running.run(all_answers)

    assert [len(tokens) for tokens in first] == list(LENGTHS)
    for tokens in first:
        assert [t.finish_reason for t in tokens] == [None] * (len(tokens) - 1) + ["length"]
    assert first == second


def test_in_float32_the_tokens_are_those_of_hugging_face(running: Running, tiny_gguf: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        tiny_gguf.parent,
        gguf_file=tiny_gguf.name,
        dtype=torch.float32,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    for prompt, tokens in zip(PROMPTS, running.run(all_answers), strict=True):
        whole = [*prompt, *ids(tokens)]
        with torch.inference_mode():
            logits = model(torch.tensor([whole[:-1]])).logits[0]
        assert logits[len(prompt) - 1 :].argmax(-1).tolist() == ids(tokens), len(prompt)


def test_an_end_token_ends_an_answer_unless_it_is_told_to_ignore_it(running: Running) -> None:
    async def use(engine: OpenVinoEngine) -> None:
        for start in range(200):
            prompt = (start, start + 1)
            heeding = await answer(engine, prompt, 60, ignore_eos=False)
            if heeding[-1].finish_reason == "stop":
                break
        ignoring = await answer(engine, prompt, 60)
        assert heeding[-1] == GeneratedToken(END_ID, "stop")
        assert END_ID not in ids(heeding[:-1])
        assert len(ignoring) == 60
        assert ids(ignoring[: len(heeding)]) == ids(heeding)

    running.run(use)


def test_a_caller_who_goes_frees_its_slot(running: Running) -> None:
    async def use(engine: OpenVinoEngine) -> None:
        leavers = [asyncio.create_task(answer(engine, (n,), 300)) for n in range(4)]
        await until(lambda: engine.gauges()["requests_running"] == 4)
        for leaver in leavers:
            leaver.cancel()
        assert len(await answer(engine, (9,), 3)) == 3
        gauges = engine.gauges()
        assert gauges["requests_running"] == gauges["requests_waiting"] == gauges["kv_share"] == 0

    running.run(use)


def test_the_largest_request_that_fits_is_served_and_a_larger_one_refused(running: Running) -> None:
    async def use(engine: OpenVinoEngine) -> None:
        assert len(await answer(engine, (1,) * 350, 35)) == 35
        with pytest.raises(
            RequestRefused, match="350 prompt tokens and max_tokens 36 .* cache of 384"
        ):
            await answer(engine, (1,) * 350, 36)
        with pytest.raises(RequestRefused, match="context of 512 tokens"):
            await answer(engine, (1,) * 500, 13)
        with pytest.raises(RequestRefused, match="token id 288; ids are 0 to 287"):
            await answer(engine, (288,), 1)

    running.run(use)


def test_requests_that_outgrow_the_cache_together_still_get_every_token_once(
    running: Running,
) -> None:
    requests = [((n,) * 100, 150) for n in range(3)]

    async def together(engine: OpenVinoEngine) -> list[list[GeneratedToken]]:
        return await asyncio.gather(*(answer(engine, *request) for request in requests))

    async def alone(engine: OpenVinoEngine) -> list[list[GeneratedToken]]:
        return [await answer(engine, *request) for request in requests]

    assert running.run(together) == running.run(alone)


def test_counters_add_up(running: Running) -> None:
    before = running.engine.gauges()
    running.run(all_answers)
    after = running.engine.gauges()

    def grown(name: str) -> float:
        return after[name] - before[name]

    assert grown("output_tokens_total") == sum(LENGTHS)
    assert grown("prompt_tokens_total") == sum(map(len, PROMPTS))
    assert grown("requests_total") == len(PROMPTS)
    assert grown("steps_total") >= max(LENGTHS)
    assert after["kv_bytes"] > 0


def test_facts_say_what_it_really_computes_in(running: Running, tiny_gguf: Path) -> None:
    facts = running.engine.facts()

    assert facts.version == f"openvino-genai {version('openvino-genai')}"
    assert (facts.model, facts.dtype) == ("tiny-llama", "float32")
    assert facts.weights == "Q8_0 GGUF, packed anew"
    assert facts.model_digest == model_digest(tiny_gguf)
    assert facts.context_tokens == 512
    assert facts.settings == {
        "slots": 4,
        "batched_tokens": 256,
        "kv_tokens": 384,
        "block_tokens": 32,
        "chunked_prefill": True,
        "prefix_cache": False,
        "threads": 1,
        "device": "cpu",
        "kv_dtype": "f32",
        "rounds_inputs_to_8_bits": False,
    }


def test_settings_reach_the_scheduler_and_change_no_token(
    running: Running, prompts_first: Running
) -> None:
    settings = prompts_first.engine.facts().settings

    assert settings["slots"] == 2
    assert (settings["chunked_prefill"], settings["batched_tokens"]) == (False, 200)
    assert settings["kv_tokens"] is None
    assert "kv_share" not in prompts_first.engine.gauges()
    assert prompts_first.run(all_answers) == running.run(all_answers)


def test_prompts_with_the_same_beginning_may_share_it_and_get_the_same_tokens(
    running: Running, own: Callable[..., Running]
) -> None:
    other = own(prefix_cache=True, kv_tokens=4000)
    expected = running.run(all_answers)

    assert other.engine.facts().settings["prefix_cache"] is True
    assert [other.run(all_answers) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("name", ["running", "prompts_first"])
def test_no_more_requests_run_than_there_are_slots(
    name: str, request: pytest.FixtureRequest
) -> None:
    running: Running = request.getfixturevalue(name)
    slots = running.engine.facts().settings["slots"]
    seen: set[tuple[float, float]] = set()

    async def watched(engine: OpenVinoEngine, first: int) -> None:
        async for _ in engine.generate(GenerationRequest((first,), 20, ignore_eos=True)):
            gauges = engine.gauges()
            seen.add((gauges["requests_running"], gauges["requests_waiting"]))

    async def use(engine: OpenVinoEngine) -> None:
        await asyncio.gather(*(watched(engine, n) for n in range(10)))
        assert engine.gauges()["requests_running"] == 0

    running.run(use)

    assert max(running for running, _ in seen) == slots
    assert max(waiting for _, waiting in seen) >= 3


def test_a_request_that_is_given_up_because_a_cancelled_one_holds_the_room_goes_on_where_it_was(
    own: Callable[..., Running],
) -> None:
    running = own(slots=2, kv_tokens=128)

    async def use(engine: OpenVinoEngine) -> None:
        alone = await answer(engine, (7,) * 10, 60)
        older: Any = engine.generate(GenerationRequest((8,) * 10, 110, ignore_eos=True))
        for _ in range(30):
            await anext(older)
        younger = asyncio.create_task(answer(engine, (7,) * 10, 60))
        for _ in range(60):  # with 100 tokens the older one has taken the whole cache
            await anext(older)
        await older.aclose()
        assert await younger == alone

    running.run(use)


def test_a_process_that_dies_fails_every_request_now_and_later(own: Callable[..., Running]) -> None:
    running = own()

    async def use(engine: OpenVinoEngine) -> None:
        tokens: Any = engine.generate(GenerationRequest((1,), 300, ignore_eos=True))
        await anext(tokens)
        engine._process.kill()
        with pytest.raises(RuntimeError, match="the engine failed: its process ended"):
            async for _ in tokens:
                pass
        with pytest.raises(RuntimeError, match="its process ended"):
            await answer(engine, (1,), 1)

    running.run(use)


def test_stopping_ends_the_process_fails_what_is_in_flight_and_may_be_repeated(
    own: Callable[..., Running],
) -> None:
    running = own()

    async def use(engine: OpenVinoEngine) -> None:
        tokens: Any = engine.generate(GenerationRequest((1,), 300, ignore_eos=True))
        await anext(tokens)
        await engine.stop()
        await engine.stop()
        assert engine._process.exitcode == 0
        with pytest.raises(RuntimeError, match="was stopped"):
            async for _ in tokens:
                pass
        with pytest.raises(RuntimeError, match="was stopped"):
            await answer(engine, (1,), 1)

    running.run(use)


def test_an_engine_that_never_started_can_be_stopped(tiny_gguf: Path) -> None:
    engine = build_engine(tiny_gguf, OPTIONS, MonotonicClock())

    asyncio.run(engine.stop())

    assert engine._process.exitcode == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "int4"}, "unknown dtype 'int4'; choose from bfloat16, float32"),
        ({"device": "cuda"}, "runs on the CPU here, not on 'cuda'"),
        ({"context_tokens": 513}, "513 tokens was asked for; the model's is 512"),
        ({"kv_tokens": 31}, "a KV cache of 31 tokens is less than a block of 32"),
        (
            {"chunked_prefill": False, "batched_tokens": 511},
            "a step must hold a whole prompt: batched_tokens is 511, the context 512",
        ),
    ],
)
def test_an_option_that_cannot_be_had_is_named(
    tiny_gguf: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        load(tiny_gguf, replace(OPTIONS, **changes))


def test_a_wrong_option_is_told_across_the_process(tiny_gguf: Path) -> None:
    with pytest.raises(UsageError, match="less than a block of 32"):
        build_engine(tiny_gguf, replace(OPTIONS, kv_tokens=31), MonotonicClock())


def test_a_folder_is_refused_with_what_to_give_instead(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="reads a GGUF file, and .* is a folder"):
        load(tmp_path, OPTIONS)


def test_a_model_that_the_library_cannot_load_is_refused_in_one_line(
    tmp_path: Path, tiny_gguf: Path
) -> None:
    path = tmp_path / "strange.gguf"
    path.write_bytes(tiny_gguf.read_bytes().replace(b"llama", b"lemma"))

    with pytest.raises(ModelFileError, match="OpenVINO GenAI cannot load") as error:
        load(path, OPTIONS)
    assert "\n" not in str(error.value)


def test_a_process_that_ends_while_it_loads_is_told_with_its_exit_code(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")  # no interpreter starts with this

    with pytest.raises(EngineFailed, match="ended with exit code 1 while it loaded"):
        build_engine(tiny_gguf, OPTIONS, MonotonicClock())
