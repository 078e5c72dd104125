"""The seam between the harness and an engine: a lifecycle, and a pure dialect of its wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from harness.core.record import Answer
from harness.core.workload import Request


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine as the user asks for it.

    `name` is what the run is called when compared (`inhouse-static`). `policy` is the batching
    policy where the engine has several; `batch_window_ms` how long a batch policy waits for a full
    batch (None: the policy's own default). `model` is a catalogue name, or a path. `threads` None
    means all cores. `port` None means any free one.
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


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How a server is started: everything that decides its behaviour, and nothing secret."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    base_url: str
    ready_timeout_s: float


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

    async def start(self) -> None:
        """Start the server process. Raises EngineFailed when it cannot be started."""
        ...

    async def wait_until_ready(self) -> None:
        """Return once the server answers a health check. Raises EngineFailed when it dies first."""
        ...

    async def facts(self) -> EngineFacts:
        """What the ready server says about itself."""
        ...

    def raise_if_dead(self) -> None:
        """Raise EngineFailed, with the log's last lines, when the server has ended by itself."""
        ...

    async def stop(self) -> None:
        """End the server's whole process group. Safe to call twice, and before `start`."""
        ...
