"""Hugging Face `generate` on static batches: the tokens, and who waits for whom."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: huggingface)")
pytest.importorskip("transformers", reason="transformers is not installed (extra: huggingface)")

from engines.hosted.huggingface_static import HuggingFaceStatic, build_engine  # noqa: E402
from engines.hosted.options import HostedOptions  # noqa: E402
from engines.models.identity import model_digest  # noqa: E402
from engines.serving.generation import (  # noqa: E402
    GeneratedToken,
    GenerationRequest,
    RequestRefused,
)
from harness.core.clock import MonotonicClock  # noqa: E402
from harness.core.errors import ModelFileError, UsageError  # noqa: E402
from harness.core.jsonable import from_json  # noqa: E402
from harness.core.record import StepRecord  # noqa: E402
from harness.core.rundir import LineWriter  # noqa: E402
from harness.core.units import NS_PER_MS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers warns about its own plans
OPTIONS = HostedOptions(slots=3, dtype="float32", threads=torch.get_num_threads())
PROMPTS = [tuple(range(10 * n, 10 * n + length)) for n, length in enumerate((1, 7, 30, 2, 15, 4))]
Use = Callable[[HuggingFaceStatic], Coroutine[Any, Any, Any]]


class Gate:
    """A model that holds every forward pass until it is let through, or breaks at one."""

    def __init__(self, model: Any) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.breaks = False
        self.passes = 0
        model.register_forward_pre_hook(self._before)

    def _before(self, *_: object) -> None:
        self.passes += 1
        self.is_open.wait()
        if self.breaks:
            msg = "out of memory"
            raise RuntimeError(msg)


def build(path: Path, window_ms: int | None = 1, log: Any = None, **changes: Any) -> Any:
    window_ns = None if window_ms is None else window_ms * NS_PER_MS
    options = replace(OPTIONS, batch_window_ns=window_ns, **changes)
    return build_engine(path, options, MonotonicClock(), log)


def run(engine: HuggingFaceStatic, use: Use) -> Any:
    """Start `engine`, `use` it, and stop it, whatever happens."""

    async def main() -> Any:
        engine.start()
        try:
            return await asyncio.wait_for(use(engine), 60)
        finally:
            await engine.stop()

    return asyncio.run(main())


async def answer(
    engine: HuggingFaceStatic, prompt: Sequence[int], most: int, *, ignore_eos: bool = True
) -> list[GeneratedToken]:
    request = GenerationRequest(tuple(prompt), most, ignore_eos)
    return [token async for token in engine.generate(request)]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def ids(tokens: Sequence[GeneratedToken]) -> list[int]:
    return [token.token_id for token in tokens]


def alone(path: Path, prompt: Sequence[int], most: int) -> list[int]:
    """What plain `generate` answers to one prompt without padding."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    prompt_ids = torch.tensor([list(prompt)])
    made = model.generate(
        prompt_ids,
        attention_mask=torch.ones_like(
            prompt_ids
        ),  # or else it takes a 0 in the prompt for padding
        max_new_tokens=most,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return made[0, len(prompt) :].tolist()


def steps_of(log: BytesIO) -> list[StepRecord]:
    return [from_json(StepRecord, json.loads(line)) for line in log.getvalue().splitlines()]


def test_each_answer_of_a_padded_batch_is_the_one_that_generate_gives_alone(
    tiny_model: Path,
) -> None:
    lengths = (9, 20, 3, 12, 1, 17)

    async def use(engine: HuggingFaceStatic) -> list[list[GeneratedToken]]:
        requests = zip(PROMPTS, lengths, strict=True)
        return await asyncio.gather(*(answer(engine, p, most) for p, most in requests))

    answers = run(build(tiny_model), use)

    for prompt, most, tokens in zip(PROMPTS, lengths, answers, strict=True):
        assert ids(tokens) == alone(tiny_model, prompt, most), len(prompt)
        assert [t.finish_reason for t in tokens] == [None] * (most - 1) + ["length"]


def test_a_batch_holds_all_slots_until_its_longest_answer_has_ended(tiny_model: Path) -> None:
    log = BytesIO()

    async def use(engine: HuggingFaceStatic) -> None:
        lengths = (2, 5, 3, 4, 4, 4)
        requests = zip(PROMPTS, lengths, strict=True)
        await asyncio.gather(*(answer(engine, p, most) for p, most in requests))
        await until(lambda: engine.gauges()["requests_running"] == 0)

    engine = build(tiny_model, window_ms=None, log=LineWriter(log))
    run(engine, use)
    steps = steps_of(log)

    assert [(s.running, s.padded) for s in steps] == [
        *[(3, 0), (3, 0), (2, 1), (1, 2), (1, 2)],
        *[(3, 0)] * 4,
    ]
    assert [s.index for s in steps] == list(range(1, 10))
    assert [s.waiting for s in steps] == [3] * 5 + [0] * 4
    assert (steps[0].prefill_tokens, steps[0].prefill_padding_tokens) == (1 + 7 + 30, 29 + 23)
    assert [s.prefill_sequences for s in steps] == [3, 0, 0, 0, 0, 3, 0, 0, 0]
    assert [s.decode_tokens for s in steps] == [0, 3, 2, 1, 1, 0, 3, 3, 3]
    assert {s.kv_blocks_used for s in steps} == {None}
    gauges = engine.gauges()
    assert gauges["output_tokens_total"] == 22
    assert gauges["prompt_tokens_total"] == sum(map(len, PROMPTS))
    assert (gauges["requests_total"], gauges["steps_total"]) == (6, 9)


def test_a_batch_that_is_not_full_starts_when_its_first_has_waited_for_the_window(
    tiny_model: Path,
) -> None:
    clock = MonotonicClock()

    async def use(engine: HuggingFaceStatic) -> None:
        asked_ns = clock.now_ns()
        assert len(await answer(engine, (1, 2), 2)) == 2
        assert clock.now_ns() - asked_ns >= 30 * NS_PER_MS

    run(build(tiny_model, window_ms=30), use)


def test_without_a_window_a_batch_waits_until_it_is_full(tiny_model: Path) -> None:
    async def use(engine: HuggingFaceStatic) -> None:
        tasks = [asyncio.create_task(answer(engine, p, 2)) for p in PROMPTS[:2]]
        for _ in range(100):
            await asyncio.sleep(0)
        assert engine.gauges()["requests_waiting"] == 2
        assert engine.gauges()["steps_total"] == 0
        await answer(engine, PROMPTS[2], 2)
        await asyncio.gather(*tasks)

    run(build(tiny_model, window_ms=None), use)


def test_a_batch_that_is_not_full_starts_once_no_more_requests_will_come(tiny_model: Path) -> None:
    async def use(engine: HuggingFaceStatic) -> None:
        task = asyncio.create_task(answer(engine, PROMPTS[0], 2))
        for _ in range(100):
            await asyncio.sleep(0)
        engine.drain()
        assert len(await task) == 2

    run(build(tiny_model, window_ms=None), use)


def test_an_end_token_ends_an_answer_unless_it_is_told_to_ignore_it(
    tiny_model: Path, tmp_path: Path
) -> None:
    free = alone(tiny_model, PROMPTS[1], 8)
    folder = shutil.copytree(tiny_model, tmp_path / "ends")
    config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": free[4]}
    (folder / "config.json").write_text(json.dumps(config))
    made = free.index(free[4]) + 1

    async def use(engine: HuggingFaceStatic) -> Any:
        return await asyncio.gather(
            answer(engine, PROMPTS[1], 8, ignore_eos=False), answer(engine, PROMPTS[1], 8)
        )

    heeding, ignoring = run(build(folder), use)

    assert ids(heeding) == free[:made]
    assert heeding[-1].finish_reason == "stop"
    assert ids(ignoring) == free
    assert ignoring[-1].finish_reason == "length"


def test_what_the_checkpoint_says_of_sampling_changes_no_token(
    tiny_model: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "opinionated")
    opinion = {"repetition_penalty": 5.0, "do_sample": True, "temperature": 2.0, "top_k": 3}
    (folder / "generation_config.json").write_text(json.dumps(opinion))

    tokens = run(build(folder), lambda engine: answer(engine, PROMPTS[2], 12))

    assert ids(tokens) == alone(tiny_model, PROMPTS[2], 12)


def test_a_caller_who_goes_leaves_padding_behind_until_the_batch_ends(tiny_model: Path) -> None:
    log = BytesIO()
    engine = build(tiny_model, log=LineWriter(log))
    gate = Gate(engine._model)
    gate.is_open.clear()

    async def use(engine: HuggingFaceStatic) -> None:
        stays = asyncio.create_task(answer(engine, PROMPTS[0], 4))
        leaves = asyncio.create_task(answer(engine, PROMPTS[1], 50))
        await until(lambda: gate.passes == 1)
        leaves.cancel()
        await asyncio.sleep(0)
        gate.is_open.set()
        assert len(await stays) == 4
        await until(lambda: engine.gauges()["slots_padded"] == 0)

    run(engine, use)

    assert [(s.running, s.padded) for s in steps_of(log)] == [(1, 1)] * 4


def test_a_caller_who_goes_while_waiting_takes_no_slot(tiny_model: Path) -> None:
    log = BytesIO()

    async def use(engine: HuggingFaceStatic) -> None:
        leaves = asyncio.create_task(answer(engine, PROMPTS[0], 9))
        await until(lambda: engine.gauges()["requests_waiting"] == 1)
        leaves.cancel()
        await asyncio.gather(*(answer(engine, p, 2) for p in PROMPTS[:3]))

    run(build(tiny_model, window_ms=None, log=LineWriter(log)), use)

    assert [(s.running, s.padded) for s in steps_of(log)] == [(3, 0)] * 2


def test_a_model_that_breaks_fails_every_request_now_and_later(tiny_model: Path) -> None:
    engine = build(tiny_model)
    Gate(engine._model).breaks = True

    async def use(engine: HuggingFaceStatic) -> None:
        tasks = (answer(engine, p, 5) for p in PROMPTS[:5])
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(o) for o in outcomes] == ["the engine failed: RuntimeError: out of memory"] * 5
        with pytest.raises(RuntimeError, match="out of memory"):
            await answer(engine, (1,), 1)

    run(engine, use)


def test_stopping_ends_the_batch_after_the_step_in_progress_and_may_be_repeated(
    tiny_model: Path,
) -> None:
    engine = build(tiny_model)
    gate = Gate(engine._model)

    async def use(engine: HuggingFaceStatic) -> None:
        tokens: Any = engine.generate(GenerationRequest((1,), 4000, ignore_eos=True))
        await anext(tokens)
        await engine.stop()
        passes = gate.passes
        await engine.stop()
        assert gate.passes == passes < 4000
        with pytest.raises(RuntimeError, match="was stopped"):
            async for _ in tokens:
                pass
        with pytest.raises(RuntimeError, match="was stopped"):
            await answer(engine, (1,), 1)

    run(engine, use)


def test_an_engine_that_never_started_can_be_stopped(tiny_model: Path) -> None:
    asyncio.run(build(tiny_model).stop())


def test_what_can_never_be_served_is_refused_with_the_numbers(tiny_model: Path) -> None:
    async def use(engine: HuggingFaceStatic) -> None:
        with pytest.raises(RequestRefused, match="90 prompt tokens and max_tokens 7 .* 96 tokens"):
            await answer(engine, (1,) * 90, 7)
        with pytest.raises(RequestRefused, match="token id 256; ids are 0 to 255"):
            await answer(engine, (256,), 1)

    run(build(tiny_model, context_tokens=96), use)


def test_facts_name_the_library_the_model_and_every_setting(tiny_model: Path) -> None:
    import transformers

    facts = build(tiny_model, window_ms=30).facts()

    assert facts.version == f"transformers {transformers.__version__}"
    assert (facts.model, facts.dtype, facts.weights) == ("tiny-llama", "float32", "F32 safetensors")
    assert facts.model_digest == model_digest(tiny_model)
    assert facts.context_tokens == 4096
    assert facts.settings == {
        "policy": "static",
        "window_ms": 30.0,
        "slots": 3,
        "pad_prompts": True,
        "threads": OPTIONS.threads,
        "device": "cpu",
        "attention": "sdpa",
    }


def test_the_weights_of_a_gguf_file_are_unpacked_to_the_dtype(tiny_gguf: Path) -> None:
    engine = build(tiny_gguf, dtype="bfloat16")

    assert {p.dtype for p in engine._model.parameters()} == {torch.bfloat16}
    assert engine.facts().dtype == "bfloat16"
    assert engine.facts().weights == "Q8_0 GGUF"
    assert engine.codec.decode(engine.codec.encode("abba")) == "abba"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "int4"}, "unknown dtype 'int4'; choose from bfloat16, float32"),
        ({"device": "tpu"}, "device 'tpu' was asked for; there is cpu"),
        ({"context_tokens": 4097}, "4097 tokens was asked for; the model's is 4096"),
    ],
)
def test_an_option_that_cannot_be_had_is_named(
    tiny_model: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        build(tiny_model, **changes)


def test_a_model_that_transformers_cannot_load_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')

    with pytest.raises(ModelFileError, match=r"transformers cannot load .*no-such-model") as error:
        build(tmp_path)
    assert "\n" not in str(error.value)
