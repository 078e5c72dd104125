"""The steps of OpenVINO GenAI's pipeline: orders in, tokens out, in a process of its own.

See openvino_engine for why that is, and for the orders and reports.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai

from engines.hosted.openvino_engine import Begin, Failed, Leave, Stepped, Stop
from engines.hosted.openvino_genai import load
from engines.hosted.options import HostedOptions
from engines.serving.generation import GeneratedToken, GenerationRequest
from harness.core.errors import BatchmarkError

_REASONS = {
    genai.GenerationFinishReason.LENGTH: "length",
    genai.GenerationFinishReason.STOP: "stop",
}


def work(connection: Connection, path: Path, options: HostedOptions) -> None:
    """Load the model, then take orders and steps until told to stop, or nobody listens any more.

    Answers with Loaded, or the error in the way of it, then a Stepped for each step.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal; the server is told, and tells us
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            pipeline, loaded = load(path, options)
        except BatchmarkError as error:
            connection.send(error)
            return
        connection.send(loaded)
        try:
            _Steps(pipeline, options.slots, connection).take()
        except RuntimeError as error:
            connection.send(Failed(f"{type(error).__name__}: {error}"))


@dataclass(slots=True)
class _Running:
    """A request in the pipeline, and the ids that it has made."""

    request: GenerationRequest
    handle: Any
    made: list[int] = field(default_factory=list)

    def rest(self) -> GenerationRequest:
        """A request for what is still to be made."""
        return replace(
            self.request,
            prompt_token_ids=(*self.request.prompt_token_ids, *self.made),
            max_tokens=self.request.max_tokens - len(self.made),
        )


class _Steps:
    """The requests that wait and those in the pipeline, at most `slots`, and its steps.

    The pipeline heeds max_num_seqs only without chunked prefill, so requests wait here.
    """

    def __init__(self, pipeline: Any, slots: int, connection: Connection) -> None:
        self._pipeline = pipeline
        self._slots = slots
        self._connection = connection
        self._end_ids = pipeline.get_config().stop_token_ids
        self._waiting: dict[int, GenerationRequest] = {}
        self._running: dict[int, _Running] = {}

    def take(self) -> None:
        """Step while there are requests, and wait for one when there are none."""
        while self._take_orders():
            self._fill_slots()
            if self._pipeline.has_non_finished_requests():
                self._pipeline.step()
                self._connection.send(self._report())

    def _take_orders(self) -> bool:
        """Carry out what was ordered since the last step; False when told to stop."""
        if not self._waiting and not self._pipeline.has_non_finished_requests():
            self._connection.poll(None)
        while self._connection.poll():
            match self._connection.recv():
                case Begin(number, request):
                    self._waiting[number] = request
                case Leave(number):
                    self._waiting.pop(number, None)
                    if (gone := self._running.pop(number, None)) is not None:
                        gone.handle.cancel()  # the pipeline drops it at the end of the next step
                case Stop():
                    return False
        return True

    def _fill_slots(self) -> None:
        for number in tuple(self._waiting)[: self._slots - len(self._running)]:
            request = self._waiting.pop(number)
            ids = ov.Tensor(np.array([request.prompt_token_ids], dtype=np.int64))
            handle = self._pipeline.add_request(number, ids, _greedy(request, self._end_ids))
            self._running[number] = _Running(request, handle)

    def _report(self) -> Stepped:
        """What the last step made."""
        said = self._pipeline.get_metrics()
        tokens = [made for number in tuple(self._running) for made in self._made(number)]
        self._begin_again(was_alone=said.requests == 1)
        return Stepped(
            tokens=tuple(tokens),
            running=len(self._running),
            kv_share=said.cache_usage / 100,
            kv_bytes=said.cache_size_in_bytes,
        )

    def _made(self, number: int) -> list[tuple[int, GeneratedToken]]:
        """What the last step made of one request, which is forgotten when that was its end."""
        running = self._running[number]
        token_ids, reason = _read(running.handle)
        running.made += token_ids
        if reason is not None:
            del self._running[number]
        reasons = [None] * (len(token_ids) - 1) + [reason]
        return [(number, GeneratedToken(i, r)) for i, r in zip(token_ids, reasons, strict=False)]

    def _begin_again(self, *, was_alone: bool) -> None:
        """Put what the pipeline gave up to the head of the queue, to go on where it was.

        It gives up all requests in a step in which it finds room for none of them, as when one that
        was cancelled still holds the room. Raises RuntimeError when nothing else can have held it.
        """
        running = genai.GenerationStatus.RUNNING
        lost = {n: r for n, r in self._running.items() if r.handle.get_status() != running}
        if lost and was_alone:
            msg = "OpenVINO GenAI found no room for the only request that it had"
            raise RuntimeError(msg)
        self._running = {n: r for n, r in self._running.items() if n not in lost}
        self._waiting = {n: r.rest() for n, r in lost.items()} | self._waiting


def _greedy(request: GenerationRequest, end_ids: set[int]) -> Any:
    config = genai.GenerationConfig()
    config.max_new_tokens = request.max_tokens
    config.ignore_eos = request.ignore_eos
    config.stop_token_ids = end_ids
    config.do_sample = False
    config.apply_chat_template = False
    return config


def _read(handle: Any) -> tuple[list[int], str | None]:
    """The ids made since the last reading, and why the answer has ended, if it has."""
    token_ids: list[int] = []
    reason = None
    while handle.can_read():
        for output in handle.read().values():
            token_ids += output.generated_ids
            reason = _REASONS.get(output.finish_reason, reason)
    return token_ids, reason
