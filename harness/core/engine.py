"""The seam between the harness and an engine: a lifecycle, and a pure dialect of its wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from harness.core.record import Answer
from harness.core.workload import Request


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine as the user asks for it, in words that all engines share.

    `name` is what the run is called when compared (`inhouse-static`). `policy` is the batching
    policy where the engine has several; `batch_window_ms` how long a batch policy waits for a full
    batch (None: the policy's own default). `model` is a catalogue name, a path, or a hub id.
    `slots` is how many sequences run at once. `threads` None means all cores. `port` None means any
    free one.

    The knobs `context_tokens`, `batched_tokens` (per step), `kv_tokens`, `chunked_prefill` and
    `speculative` are left at the engine's default when None. `prefix_cache` is off unless asked
    for: with it a workload that repeats prompts measures the cache.

    `attach_url` names a server that somebody else has started; nothing is launched then.
    `image` launches in a container; `program` is the server's program where it is not on the PATH.
    `api_key_env` is the name of the environment variable that holds the key, never the key. `args`
    and `env` go to the engine as they are, after ours.
    """

    kind: str
    name: str
    model: str
    policy: str | None = None
    slots: int = 8
    dtype: str = "bfloat16"
    threads: int | None = None
    pad_prompts: bool = True
    batch_window_ms: float | None = None
    port: int | None = None
    context_tokens: int | None = None
    batched_tokens: int | None = None
    kv_tokens: int | None = None
    chunked_prefill: bool | None = None
    prefix_cache: bool = False
    speculative: str | None = None
    served_name: str | None = None
    attach_url: str | None = None
    metrics_url: str | None = None
    api_key_env: str | None = None
    image: str | None = None
    program: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How a server is started: everything that decides its behaviour, and nothing secret.

    `argv` is empty when the engine is attached to. `files` are written into the run's folder before
    the start, by name. `applied` says for each knob of EngineSpec what the engine was told, in its
    own words; `unsupported` for each knob that has no effect on this engine, why. `keys` are those
    variables of the server that get a secret at the start, each with the variable of ours that
    holds it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    base_url: str
    ready_timeout_s: float
    files: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


class ExactLength(StrEnum):
    """What an engine does when it is told to ignore the end of sequence."""

    CONTINUES_PAST_EOS = "continues past EOS"  # logits untouched
    BANS_EOS = "bans EOS"  # another token stream than the model's own
    NONE = "cannot ignore EOS"


class FirstEvent(StrEnum):
    """What an engine's first event proves."""

    TOKEN = "a token"
    BEFORE_COMPUTE = "nothing: it is sent before any compute"
    TOKEN_WITHOUT_TEXT = "a token whose text comes later"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do over its wire; `cannot_equal` says in words what cannot be made equal.

    `counts` is the best source of token counts: `ids`, `running usage`, `event`, `final usage`.
    """

    takes_token_ids: bool
    counts: str
    exact_length: ExactLength
    first_event: FirstEvent
    has_metrics: bool
    has_prefix_cache: bool
    refuses_unknown_fields: bool
    cannot_equal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One reading of an engine's own counters, in names that all engines share.

    None where this engine does not say. `kv_share` is 0 to 1. The `_total` are counters since the
    engine started. A histogram is its cumulative Prometheus buckets by upper bound in seconds.
    `gpu` holds readings of each GPU, as `0.utilisation_share`.
    """

    at_ns: int
    running: float | None = None
    waiting: float | None = None
    kv_share: float | None = None
    preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    prefix_query_tokens_total: float | None = None
    prefix_hit_tokens_total: float | None = None
    requests_total: float | None = None
    ttft_s_buckets: Mapping[str, float] | None = None
    ttft_s_sum: float | None = None
    e2e_s_buckets: Mapping[str, float] | None = None
    e2e_s_sum: float | None = None
    gpu: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine says about itself once it is ready. None where it does not say."""

    version: str | None = None
    model: str | None = None
    model_digest: str | None = None
    dtype: str | None = None
    weights: str | None = None
    served_name: str | None = None
    context_tokens: int | None = None
    settings: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WireRequest:
    """An HTTP request as a dialect writes it; the wire adds Host, Content-Length and its own."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Read(NamedTuple):
    """Body bytes that one read of the socket delivered, chunk framing removed, and when."""

    received_ns: int
    body: bytes


class Ending(StrEnum):
    """How an exchange ended, as the socket saw it."""

    COMPLETE = "complete"
    CONNECT_FAILED = "connect_failed"
    CUT = "cut"
    RESET = "reset"
    BAD_FRAMING = "bad_framing"
    TOO_LARGE = "too_large"
    CLIENT_FILES_EXHAUSTED = "client_files_exhausted"
    CLIENT_PORTS_EXHAUSTED = "client_ports_exhausted"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"


@dataclass(frozen=True, slots=True)
class Capture:
    """One exchange as the wire saw it, uninterpreted. Instants are ns of the run's clock.

    `detail` is the operating system's or the parser's own words when `ending` is a fault. `retries`
    counts attempts that the server closed before any byte came back; `sent_ns` is of the first.
    """

    sent_ns: int
    status: int | None
    headers: tuple[tuple[str, str], ...]
    first_byte_ns: int | None
    reads: tuple[Read, ...]
    closed_ns: int | None
    ending: Ending
    detail: str = ""
    bytes_received: int = 0
    retries: int = 0


class Dialect(Protocol):
    """How one family of engines speaks. Both methods are pure."""

    def encode(self, request: Request, model: str) -> WireRequest:
        """The HTTP request that asks for `request` with streaming on."""
        ...

    def decode(self, capture: Capture) -> Answer:
        """What the capture says; the same however the body was cut into reads, stamps apart."""
        ...


class Engine(Protocol):
    """An engine's lifecycle: started, ready once it answers, asked for facts, stopped."""

    @property
    def spec(self) -> EngineSpec: ...

    @property
    def dialect(self) -> Dialect: ...

    @property
    def plan(self) -> LaunchPlan:
        """How this engine is launched."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def start(self) -> None:
        """Start the server process. Raises EngineFailed when it cannot be started."""
        ...

    async def wait_until_ready(self) -> None:
        """Return once the server answers a health check. Raises EngineFailed when it dies first."""
        ...

    async def facts(self) -> EngineFacts:
        """What the ready server says about itself."""
        ...

    async def sample(self) -> EngineSample | None:
        """The engine's own counters now; None when it has none. Never raises for a bad answer."""
        ...

    def raise_if_dead(self) -> None:
        """Raise EngineFailed, with the log's last lines, when the server has ended by itself."""
        ...

    async def stop(self) -> None:
        """End the server's whole process group. Safe to call twice, and before `start`."""
        ...


@runtime_checkable
class Checked(Protocol):
    """An engine that can tell before any start that it cannot be started here."""

    def check(self) -> None:
        """Raise UsageError or EngineFailed when it is known that the start would fail."""
        ...
