"""What tests of several folders share: hand-made runs, scripted answers, small workloads, a model.

Instants are given in milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from engines.scripted import Script, ScriptEnd, chunk, response_head
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.manifest import Counts, MachineFacts, RunManifest, RunStatus, WorkloadFacts
from harness.core.record import Outcome, RequestError, RequestRecord, StepRecord, TokenSource
from harness.core.rundir import (
    MANIFEST,
    REQUESTS,
    STEPS,
    RunFolder,
    create_folder,
    open_lines,
    write_json,
)
from harness.core.units import ms_to_ns
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

BACKLOG = Load(LoadKind.BACKLOG)


class Build:
    """Functions that make records, manifests and runs with plain defaults."""

    def record(
        self,
        index: int = 0,
        events_ms: Sequence[float] = (100, 110),
        *,
        due_ms: float = 0,
        sent_ms: float | None = None,
        tokens: Sequence[int | None] | None = None,
        usage: int | None = None,
        asked: int | None = None,
        outcome: Outcome = Outcome.OK,
        **changes: Any,
    ) -> RequestRecord:
        """A request whose events carry one token each, with a usage that agrees."""
        events_ns = tuple(ms_to_ns(ms) for ms in events_ms)
        carried = (1,) * len(events_ns) if tokens is None else tuple(tokens)
        count = sum(t or 0 for t in carried) if usage is None else usage
        sent_ns = ms_to_ns(due_ms if sent_ms is None else sent_ms)
        plain = RequestRecord(
            index=index,
            label="chat",
            due_ns=ms_to_ns(due_ms),
            sent_ns=sent_ns,
            first_byte_ns=events_ns[0] if events_ns else None,
            events_ns=events_ns,
            events_tokens=carried,
            closed_ns=events_ns[-1] if events_ns else sent_ns,
            prompt_tokens_asked=10,
            output_tokens_asked=count if asked is None else asked,
            prompt_tokens=10,
            output_tokens=count,
            output_tokens_source=TokenSource.FINAL_USAGE,
            finish_reason="length",
            outcome=outcome,
            error=None,
            http_status=200,
            bytes_received=100,
        )
        return replace(plain, **changes)

    def failed(self, index: int = 0, **changes: Any) -> RequestRecord:
        """A request that failed before its first token; it had asked for two."""
        plain = self.record(index, (), asked=2, outcome=Outcome.FAILED)
        error = RequestError("http_503", "busy")
        return replace(plain, error=error, output_tokens=None, http_status=503, **changes)

    def step(self, index: int = 0, started_ms: float = 0, **changes: Any) -> StepRecord:
        """A step of 10 ms with four slots, all of them busy."""
        plain = StepRecord(
            index=index,
            started_ns=ms_to_ns(started_ms),
            duration_ns=ms_to_ns(10),
            slots=4,
            running=4,
            padded=0,
            waiting=0,
            kv_blocks_used=8,
            kv_blocks_total=16,
            prefill_sequences=0,
            prefill_tokens=0,
            prefill_padding_tokens=0,
            decode_tokens=4,
            prefill_ns=0,
            decode_ns=ms_to_ns(8),
        )
        return replace(plain, **changes)

    def workload(self, load: Load = BACKLOG, **changes: Any) -> WorkloadFacts:
        """The facts of eight-agents x4."""
        plain = WorkloadFacts(
            name="eight-agents",
            title=f"eight-agents x4 {load}",
            seed=1,
            repeat_mix=4,
            load=load,
            requests=32,
            prompt_tokens=320,
            output_tokens=64,
            digest="d" * 64,
            shape_digest="5" * 64,
        )
        return replace(plain, **changes)

    def manifest(self, load: Load = BACKLOG, **changes: Any) -> RunManifest:
        """A complete run of inhouse-static without requests."""
        plain = RunManifest(
            run_id="run-1",
            status=RunStatus.COMPLETE,
            created_utc="2030-01-01T00:00:00+00:00",
            tool_version="0.1.0",
            command=("batchmark", "run"),
            clock="monotonic",
            start_ns=0,
            engine=EngineSpec("inhouse", "inhouse-static", "smollm2", policy="static"),
            workload=self.workload(load),
            machine=MachineFacts("AMD EPYC", 2, 8, (), "Linux", "3.11"),
            facts=EngineFacts(
                version="0.1.0",
                model="SmolLM2-135M",
                model_digest="a" * 64,
                dtype="bfloat16",
                weights="safetensors",
            ),
            warmup_requests=2,
        )
        return replace(plain, **changes)

    def run(
        self,
        records: Sequence[RequestRecord],
        steps: Sequence[StepRecord] = (),
        load: Load = BACKLOG,
        **changes: Any,
    ) -> RunFolder:
        """A run that holds `records` and `steps`; its counts are theirs unless given."""
        counts = Counts(planned=len(records), sent=len(records))
        for record in records:
            counts = counts.with_outcome(record.outcome)
        manifest = self.manifest(load, **{"counts": counts, **changes})
        return RunFolder(Path("runs/run-1"), manifest, tuple(records), tuple(steps), ())

    def summary(
        self,
        records: Sequence[RequestRecord],
        steps: Sequence[StepRecord] = (),
        load: Load = BACKLOG,
        **changes: Any,
    ) -> Summary:
        """The summary of `run` with the same arguments."""
        return summarize(self.run(records, steps, load, **changes))

    def folder(self, path: Path, run: RunFolder) -> Path:
        """`run` written to a new folder at `path`."""
        create_folder(path)
        write_json(path / MANIFEST, run.manifest)
        for name, rows in ((REQUESTS, run.requests), (STEPS, run.steps)):
            with open_lines(path / name) as lines:
                for row in rows:
                    lines.append(row)
        return path


@pytest.fixture(scope="session")
def build() -> Build:
    """Makers of hand-made runs."""
    return Build()


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


TINY_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
    "bos_token_id": 0,
    "torch_dtype": "float32",
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder with a random Llama of 2 layers and a tokenizer of single bytes."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: inhouse)")
    save_file = pytest.importorskip("safetensors.torch").save_file
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("model") / "tiny-llama"
    folder.mkdir()
    generator = torch.Generator().manual_seed(3)

    def matrix(*shape: int) -> object:
        return torch.randn(*shape, generator=generator) * 0.2

    weights = {
        "model.embed_tokens.weight": matrix(256, 64),
        "model.norm.weight": torch.ones(64),
    }
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "self_attn.q_proj.weight": matrix(64, 64),
            prefix + "self_attn.k_proj.weight": matrix(32, 64),
            prefix + "self_attn.v_proj.weight": matrix(32, 64),
            prefix + "self_attn.o_proj.weight": matrix(64, 64),
            prefix + "mlp.gate_proj.weight": matrix(96, 64),
            prefix + "mlp.up_proj.weight": matrix(96, 64),
            prefix + "mlp.down_proj.weight": matrix(64, 96),
            prefix + "input_layernorm.weight": torch.ones(64),
            prefix + "post_attention_layernorm.weight": torch.ones(64),
        }
    save_file(weights, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(TINY_LLAMA))
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
