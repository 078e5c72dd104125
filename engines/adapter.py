"""What there is to say of an engine that is an HTTP server: data, and pure functions.

An adapter is one `Adapter`. What all servers have in common is in http_server.py: how they are
started, waited for, asked and stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.api_key import ApiKey
from engines.asking import Asker
from engines.knobs import Knob
from engines.prompt_text import PromptText
from harness.core.clock import Clock
from harness.core.engine import Capabilities, Dialect, EngineFacts, EngineSample, EngineSpec
from harness.core.errors import UsageError

# Asks the engine at a base URL, with these headers, for its counters.
Sampler = Callable[[str, Clock, Mapping[str, str] | None], Awaitable[EngineSample | None]]


@dataclass(frozen=True, slots=True)
class Speech:
    """What a dialect needs to know: the engine asked for, our key, and prompts as text if it must.

    `prompt_text` is there exactly when the engine takes no token ids.
    """

    spec: EngineSpec
    key: ApiKey | None = None
    prompt_text: PromptText | None = None

    @property
    def text(self) -> PromptText:
        """Prompts as text, for an engine that takes no token ids."""
        if self.prompt_text is None:
            msg = f"{self.spec.kind} takes no token ids, and no tokenizer was loaded for it"
            raise UsageError(msg)
        return self.prompt_text


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server runs, as it sees it itself; inside a container that is not as we see it.

    `folder` holds the files of its launch plan.
    """

    host: str
    port: int
    model: str
    folder: str


@dataclass(frozen=True, slots=True)
class Container:
    """How the engine's images are run: flags of docker, and what stands before its own words.

    `cache` is where it keeps models that it fetches from a hub; ours is laid there. `cpu_flags` and
    `cpu_words` are for images without GPU support: those with `cpu` in their names, or where
    `is_cpu_by_default` those without `cuda`.
    """

    port: int
    entrypoint: str | None = None
    words: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cpu_flags: tuple[str, ...] = ()
    cpu_words: tuple[str, ...] = ()
    cache: str = "/root/.cache/huggingface"
    is_cpu_by_default: bool = False

    def uses_gpu(self, image: str) -> bool:
        """Whether `image` is one for GPUs."""
        return "cuda" in image if self.is_cpu_by_default else "cpu" not in image


@dataclass(frozen=True, slots=True)
class Adapter:
    """One kind of engine.

    `program` is None for what can only be attached to; `command` gives the words after it. `config`
    is what the file `config_file` always says. `key_variable` is the variable from which the server
    takes a key; where it has none, it is launched without. `reads` is what kind of model it takes:
    `folder` (or a hub's id), `gguf`, or `any`. `sampler` makes what asks for counters, where that
    is more than reading a Prometheus page at /metrics. Under the policies `waits_for_batches` a
    request waits until a batch is full. `version_words` make its program print its version, where
    its server does not say it.
    """

    kind: str
    program: str | None
    capabilities: Capabilities
    dialect: Callable[[Speech], Dialect]
    knobs: Mapping[str, Knob | str]
    facts: Callable[[Asker], Awaitable[EngineFacts]]
    command: Callable[[Place], tuple[str, ...]] = lambda _: ()
    env: Mapping[str, str] = field(default_factory=dict)
    config_file: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    health: str = "/health"
    ready_timeout_s: float = 900.0
    key_variable: str | None = None
    needs_gpu: bool = False
    reads: str = "folder"
    container: Container | None = None
    sampler: Callable[[], Sampler] | None = None
    waits_for_batches: tuple[str | None, ...] = ()
    version_words: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that names the program, such as BATCHMARK_VLLM."""
        return f"BATCHMARK_{self.kind.upper().replace('-', '_')}"
