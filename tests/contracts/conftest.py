"""What the suite of all adapters shares: a row for each, and servers that speak their dialects.

A new adapter begins with a row here. The streams are those of streams/*.txt.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engines import http_server
from engines.http_server import HttpServer
from engines.registry import open_engine
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.errors import BatchmarkError
from harness.core.record import Answer, TokenSource
from harness.core.workload import Request

HERE = Path(__file__).parent
CLOCK = MonotonicClock()
JSON = "application/json"
MODEL = "org/model"
REQUEST = Request(0, "A", (11, 12, 13), 3)

Answers = dict[str, list[Any]]


def models(*names: str, **extra: object) -> dict[str, Any]:
    """The body of /v1/models."""
    return {"object": "list", "data": [{"id": name, "object": "model", **extra} for name in names]}


@dataclass(frozen=True)
class Row:
    """An adapter: whose bytes it reads, on which route, what its server says, and what is made of it.

    `counts` is the source of tokens; `says` are bodies by path; `is_ready` is the health route.
    """

    kind: str
    stream: str
    route: str
    counts: TokenSource
    says: dict[str, Any] = field(default_factory=dict)
    is_ready: str = "/health"
    version: str | None = None
    other_version: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    context: int | None = None
    takes_key: bool = False
    needs_gpu: bool = False
    policy: str | None = None

    @property
    def post(self) -> str:
        return f"POST {self.route}"

    def stream_of(self, section: str) -> list[Any]:
        """Status, content type, body and ending of one section of the engine's streams."""
        text = (HERE / "streams" / f"{self.stream}.txt").read_text(encoding="utf-8")
        for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
            head, _, body = part.partition("\n")
            name, status, content_type, ending = head.split(" | ")
            if name == section:
                return [int(status), content_type, body, ending]
        raise KeyError(section)

    def answers(self, section: str = "happy", **changes: Any) -> Answers:
        """What its server answers; `changes` are bodies of GET by path, without the slash."""
        given = {f"/{path}": body for path, body in changes.items()}
        says = {self.is_ready: {}, "/v1/models": models(MODEL), **self.says, **given}
        bodies = {p: b if isinstance(b, str) else json.dumps(b) for p, b in says.items()}
        answers: Answers = {f"GET {path}": [[200, JSON, body]] for path, body in bodies.items()}
        return {**answers, self.post: [self.stream_of(section)]}


COMPLETIONS = "/v1/completions"
CACHE_INFO = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="False",num_gpu_blocks="64",cache_dtype="auto"} 1.0\n'
IDS, RUNNING, FINAL, _ = TokenSource
INHOUSE_SAYS = {
    "version": "batchmark 1",
    "model": "M",
    "context_tokens": 64,
    "settings": {"slots": 8},
}
ROWS = (
    Row("inhouse", "vllm", COMPLETIONS, IDS, {"/server_info": INHOUSE_SAYS}, version="batchmark 1", context=64, settings={"slots": 8}, policy="continuous"),
    Row("huggingface-static", "vllm", COMPLETIONS, IDS, {"/server_info": INHOUSE_SAYS}, version="batchmark 1", context=64, settings={"slots": 8}),
    Row("openvino", "vllm", COMPLETIONS, IDS, {"/server_info": INHOUSE_SAYS}, version="batchmark 1", context=64, settings={"slots": 8}),
    Row(
        "vllm", "vllm", COMPLETIONS, IDS,
        {
            "/version": {"version": "0.32.0"},
            "/v1/models": models(MODEL, root="org/model", max_model_len=2048),
            "/server_info": {"vllm_config": {
                "model_config": {"dtype": "torch.bfloat16"},
                "scheduler_config": {"max_num_seqs": 8, "max_num_batched_tokens": 2048, "enable_chunked_prefill": True},
                "speculative_config": None,
            }},
            "/metrics": CACHE_INFO,
        },
        version="0.32.0", context=2048, takes_key=True, other_version={"/version": {"version": "0.19.1"}},
        settings={"slots": 8, "batched_tokens": 2048, "chunked_prefill": True, "kv_tokens": 1024, "prefix_cache": False},
    ),
    Row(
        "tgi", "tgi", "/generate_stream", IDS,
        {"/info": {"version": "3.3.7", "model_id": MODEL, "model_sha": "abc", "max_total_tokens": 4096}},
        version="3.3.7", context=4096, takes_key=True, needs_gpu=True, settings={"model_revision": "abc"},
        other_version={"/info": {"version": "2.4.0", "model_id": MODEL}},
    ),
    Row(
        "tensorrt-llm", "tensorrt-llm", COMPLETIONS, RUNNING, {"/version": {"version": "1.2.1"}},
        version="1.2.1", needs_gpu=True, policy="STATIC_BATCH", other_version={"/version": {"version": "0.20.0"}},
    ),
    Row(
        "sglang", "sglang", "/generate", IDS,
        {
            "/v1/models": models(MODEL, max_model_len=2048),
            "/server_info": {
                "version": "0.5.23", "model_path": MODEL, "dtype": "bfloat16", "max_running_requests": 8,
                "chunked_prefill_size": 512, "disable_radix_cache": True, "max_prefill_tokens": 512, "page_size": 1,
            },
        },
        is_ready="/ready", version="0.5.23", context=2048, needs_gpu=True,
        settings={"slots": 8, "batched_tokens": 512, "chunked_prefill": True, "prefix_cache": False},
        other_version={"/server_info": {"version": "0.4.9"}},
    ),
    Row(
        "llama-cpp", "llama-cpp", "/completion", RUNNING,
        {"/props": {
            "total_slots": 8, "model_path": "/m/x.gguf", "build_info": "b11434-abc", "model_ftype": "BF16",
            "default_generation_settings": {"n_ctx": 512},
        }},
        version="b11434", context=512, takes_key=True, settings={"slots": 8, "kv_tokens": 4096},
        other_version={"/props": {"build_info": "b4000-abc"}},
    ),
    Row("transformers", "transformers", COMPLETIONS, FINAL),
    Row("openai", "vllm", COMPLETIONS, IDS, {"/v1/models": models(MODEL, max_model_len=2048)}, is_ready="/v1/models", context=2048),
)  # fmt: skip


def rows_fixture(name: str, rows: list[Row]) -> Any:
    return pytest.fixture(name=name, params=rows, ids=[row.kind for row in rows])(_row)


def _row(request: pytest.FixtureRequest) -> Row:
    return request.param


OWN_FRONT = ("inhouse", "huggingface-static", "openvino")
LAUNCHED = [row for row in ROWS if row.kind != "openai"]
row = rows_fixture("row", list(ROWS))
launched = rows_fixture("launched", LAUNCHED)
any_openai = rows_fixture("any_openai", [row for row in ROWS if row.kind == "openai"])
batching = rows_fixture("batching", [row for row in ROWS if row.policy == "continuous"])
others_front = rows_fixture("others_front", [row for row in ROWS if row.kind not in OWN_FRONT])
versioned = rows_fixture("versioned", [row for row in ROWS if row.other_version])
for_gpus = rows_fixture("for_gpus", [row for row in ROWS if row.needs_gpu])
keyed = rows_fixture("keyed", [row for row in LAUNCHED if row.takes_key])
keyless = rows_fixture("keyless", [row for row in LAUNCHED if not row.takes_key])
contained = rows_fixture(
    "contained", [row for row in LAUNCHED if row.kind not in (*OWN_FRONT, "transformers")]
)


class Talk:
    """What tests do with an engine."""

    async def ask(self, engine: HttpServer) -> Answer:
        """What the engine's dialect makes of the server's answer to one request."""
        capture = await engine._asker.exchange(engine.dialect.encode(REQUEST, MODEL), CLOCK)
        return engine.dialect.decode(capture)

    async def get_ready(self, engine: HttpServer) -> EngineFacts:
        await engine.start()
        await engine.wait_until_ready()
        return await engine.facts()

    async def start_and_stop(self, engine: HttpServer) -> EngineFacts:
        try:
            return await self.get_ready(engine)
        finally:
            await engine.stop()

    def refusal(self, kind: type[BatchmarkError], engine: HttpServer) -> str:
        """What is raised, of that kind, while the engine is started and waited for."""
        with pytest.raises(kind) as caught:
            asyncio.run(self.get_ready(engine))
        return str(caught.value)


@pytest.fixture(scope="session")
def talk() -> Talk:
    return Talk()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a model's, with a tokenizer of words; beside it model.gguf."""
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("models") / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    vocabulary = {f"w{i}": i for i in range(256)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder.parent / "model.gguf").write_bytes(b"GGUF")
    return folder


class Attach:
    """Engines attached to servers of given answers, each in a thread; `asked` is what they got."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        self.closers: list[Any] = []
        self._folder = folder
        self._model = model
        spec = importlib.util.spec_from_file_location("stand_in", HERE / "stand_in.py")
        self._stand_in: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._stand_in)

    def __call__(
        self, row: Row, answers: Answers | None = None, scheme: str = "http", **changes: Any
    ) -> HttpServer:
        """The adapter of `row`, attached to a new server of `answers`; `changes` are of its spec."""
        server = self._stand_in.make_server(row.answers() if answers is None else answers)
        self.asked = server.asked
        self.closers += [server.shutdown, server.server_close]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        name = str(self._model) if row.kind in ("tgi", "transformers") else MODEL
        url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        spec = EngineSpec(row.kind, row.kind, **{"model": name, "attach_url": url, **changes})
        engine = open_engine(spec, self._folder, CLOCK)
        assert isinstance(engine, HttpServer)
        return engine


@pytest.fixture
def attach(tmp_path: Path, model_folder: Path) -> Iterator[Attach]:
    attach = Attach(tmp_path, model_folder)
    yield attach
    for close in attach.closers:
        close()


@dataclass
class Bench:
    """A folder with a stand-in for the programs of engines, and of docker."""

    folder: Path
    model: Path
    run: Path

    def engine(self, row: Row, answers: Any = None, **changes: Any) -> HttpServer:
        """The adapter of `row`, to be launched as the stand-in that gives `answers`."""
        given = row.answers() if answers is None else answers
        (self.folder / "answers.json").write_text(json.dumps(given))
        model = self.model.parent / "model.gguf" if row.kind == "llama-cpp" else self.model
        program = str(self.folder / "program")
        plain = {"model": str(model), "program": program, "policy": row.policy, **changes}
        engine = open_engine(EngineSpec(row.kind, row.kind, **plain), self.run, CLOCK)
        assert isinstance(engine, HttpServer)
        return engine

    def started(self) -> dict[str, Any]:
        """How the stand-in was started: argv and env."""
        return json.loads((self.folder / "started.json").read_text())


@pytest.fixture
def bench(tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    folder, run = tmp_path / "bin", tmp_path / "run"
    folder.mkdir()
    run.mkdir()
    program = folder / "program"
    program.write_text(f"#!{sys.executable}\n" + (HERE / "stand_in.py").read_text())
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(http_server, "has_gpu", lambda: True)
    return Bench(folder, model_folder, run)
