"""OpenVINO GenAI as a TokenEngine: its pipeline takes its steps in a process of its own.

A step of the pipeline keeps Python's lock from beginning to end. In one process with the server
nothing could be read, stamped or written meanwhile: requests would seem to arrive late, and tokens
to be made late, by up to a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from engines.hosted.options import HostedOptions
from engines.models.tokenizer import load_codec
from engines.serving.generation import GeneratedToken, GenerationRequest, TextCodec
from engines.serving.in_flight import InFlight, Served, Ticket
from engines.serving.request_limits import RequestLimits
from engines.serving.timings import Histogram
from harness.core.clock import Clock
from harness.core.engine import EngineFacts
from harness.core.errors import BatchmarkError, EngineFailed

_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Begin:
    """Order: answer `request`, which is called `number`."""

    number: int
    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Leave:
    """Order: nobody waits for the rest of this request; unknown and ended ones are left alone."""

    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Order: end after the step in progress."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Report: the model is there. `limits` bound what may be asked of it."""

    facts: EngineFacts
    limits: RequestLimits


@dataclass(frozen=True, slots=True)
class Stepped:
    """Report of one step: the tokens made, by request, and how much is in the pipeline after it.

    `kv_share` is of what is allocated so far.
    """

    tokens: tuple[tuple[int, GeneratedToken], ...] = ()
    running: int = 0
    kv_share: float = 0.0
    kv_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """Report: the pipeline takes no further step, and why."""

    reason: str


class OpenVinoEngine:
    """Hands requests to the pipeline in `process`, and what it makes to those who wait."""

    def __init__(
        self, process: BaseProcess, connection: Connection, served: Served, clock: Clock
    ) -> None:
        self._process = process
        self._connection = connection
        self._served = served
        self._in_flight = InFlight(served.limits, clock)
        self._tickets: dict[int, Ticket] = {}
        self._steps = 0
        self._latest = Stepped()
        # Orders are taken between steps; until then a full pipe holds up whoever sends.
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="openvino-orders")
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def codec(self) -> TextCodec:
        """The tokenizer of the model."""
        return self._served.codec

    def facts(self) -> EngineFacts:
        """What the engine is: library, model, precisions, limits and settings."""
        return self._served.facts

    def gauges(self) -> Mapping[str, float]:
        """Prometheus sample names to values after the latest step.

        The share of the KV cache is there only where its size is fixed.
        """
        present = len(self._tickets)
        running = min(self._latest.running, present)
        gauges = {
            "requests_running": running,
            "requests_waiting": present - running,
            "kv_bytes": self._latest.kv_bytes,
            "steps_total": self._steps,
            **self._in_flight.totals(),
        }
        if self._served.limits.kv_tokens is not None:
            gauges["kv_share"] = self._latest.kv_share if present else 0.0
        return gauges

    def histograms(self) -> Sequence[Histogram]:
        """None: its front times all that can be seen from outside."""
        return ()

    def drain(self) -> None:
        """Nothing to do: no request waits for another here."""

    def start(self) -> None:
        """Begin to listen to the pipeline, on the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._connection.fileno(), self._read)

    async def stop(self) -> None:
        """End after the step in progress; requests in flight fail."""
        if self._loop is not None:
            self._loop.remove_reader(self._connection.fileno())
            self._loop = None
        await asyncio.to_thread(self._end_process)
        self._in_flight.fail("the engine was stopped")

    def generate(self, request: GenerationRequest) -> AsyncIterator[GeneratedToken]:
        """Tokens of the answer as they are made. Closing the iterator cancels the request."""
        return self._in_flight.answer(request, self._begin, self._leave)

    def _begin(self, ticket: Ticket) -> None:
        self._tickets[ticket.number] = ticket
        self._sender.submit(self._connection.send, Begin(ticket.number, ticket.request))

    def _leave(self, ticket: Ticket) -> None:
        if self._tickets.pop(ticket.number, None) is not None and self._loop is not None:
            self._sender.submit(self._connection.send, Leave(ticket.number))

    def _read(self) -> None:
        """Take in what the pipeline has reported."""
        try:
            while self._loop is not None and self._connection.poll():
                self._take(self._connection.recv())
        except (EOFError, OSError):
            self._fail(f"its process ended {_how(self._process)}")

    def _take(self, report: object) -> None:
        match report:
            case Stepped(tokens=tokens):
                self._steps += 1
                self._latest = report
                for number, token in tokens:
                    self._deliver(number, token)
            case Failed(reason=reason):
                self._fail(reason)

    def _deliver(self, number: int, token: GeneratedToken) -> None:
        if (ticket := self._tickets.get(number)) is None:
            return
        self._in_flight.deliver(ticket, token)
        if token.finish_reason is not None:
            del self._tickets[number]

    def _fail(self, reason: str) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._connection.fileno())
            self._loop = None
        self._in_flight.fail(f"the engine failed: {reason}")

    def _end_process(self) -> None:
        """Wait for the step in progress, but not for ever."""
        with contextlib.suppress(RuntimeError):  # it was shut down before
            self._sender.submit(self._connection.send, Stop())
        self._sender.shutdown(wait=False)
        self._process.join(_STOP_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def build_engine(path: Path, options: HostedOptions, clock: Clock) -> OpenVinoEngine:
    """Load the GGUF file at `path` in a process of its own, and put the engine together around it.

    Raises ModelFileError when the model cannot be read, UsageError when an option is wrong, and
    EngineFailed when the process ends before it has loaded the model.
    """
    codec = load_codec(path)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, path, options), daemon=True)
    process.start()
    theirs.close()
    try:
        report = ours.recv()
    except EOFError:
        process.join()
        msg = f"OpenVINO GenAI ended {_how(process)} while it loaded {path}; read the log"
        raise EngineFailed(msg) from None
    if isinstance(report, BatchmarkError):
        raise report
    return OpenVinoEngine(process, ours, Served(codec, report.facts, report.limits), clock)


def _work(connection: Connection, path: Path, options: HostedOptions) -> None:
    """What the process does; only there the library is imported."""
    from engines.hosted.openvino_steps import work  # noqa: PLC0415

    work(connection, path, options)


def _how(process: BaseProcess) -> str:
    return "by itself" if process.exitcode is None else f"with exit code {process.exitcode}"
