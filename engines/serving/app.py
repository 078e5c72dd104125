"""An OpenAI-compatible HTTP server over any TokenEngine: its routes.

One event per token, written as soon as the token is made. The status line goes out with the first
token, so that a request that the engine refuses is answered with a 4xx, and nothing that a client
could take for a first token is sent before there is one.

A client that stops reading stops nobody else: what writes to it waits, while its tokens, never more
than it asked for, are made all the same and wait with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import cached_property, partial
from itertools import count
from math import ceil
from typing import cast

import msgspec
from aiohttp import web

from engines.serving.generation import (
    GeneratedToken,
    GenerationRequest,
    QueueFull,
    RequestRefused,
    TextCodec,
    TokenEngine,
)
from engines.serving.incremental_text import IncrementalText
from engines.serving.openai_answers import AnswerWriter, answer_writer, error_event
from engines.serving.openai_schema import ApiError, Call, parse_chat, parse_completion
from engines.serving.timings import Histogram
from harness.core.clock import Clock, MonotonicClock, utc_now
from harness.core.jsonable import to_json
from harness.core.units import ns_to_s

# What a body may have: room for its other fields, and for each token of the context more than any
# token has characters. Beyond that it is too long in any case, and reading it would cost time.
_FRAME_BYTES = 2**16
_BYTES_PER_TOKEN = 128
_MOST_BODY_BYTES = 16 * 2**20
# Beyond this a text takes so long to be cut into tokens that other answers would wait for it.
_LONG_BODY_BYTES = 2**14
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_PROMETHEUS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_NO_HEADERS: Mapping[str, str] = {}
_CLOCK = MonotonicClock()

Parse = Callable[[bytes, str, TextCodec], Call]


class OpenAIFront:
    """The routes over one engine. `failure` is why the engine can answer no more, once it has."""

    def __init__(self, engine: TokenEngine, clock: Clock = _CLOCK) -> None:
        self.failure: str | None = None
        self._engine = engine
        self._clock = clock
        self._numbers = count(1)
        self._most_body_bytes = most_body_bytes(engine.facts().context_tokens)
        self._leaving_s: int | None = None
        self._answering = 0
        self._when_idle: Callable[[], None] | None = None
        self._ttft = Histogram("batchmark_ttft_seconds", "From a request to its first token.")
        self._e2e = Histogram("batchmark_e2e_seconds", "From a request to its last token.")

    @cached_property
    def served_name(self) -> str:
        """The model name that a request must give."""
        facts = self._engine.facts()
        return facts.served_name or facts.model or "model"

    def app(self) -> web.Application:
        """The application that has all routes; it neither starts nor stops the engine."""
        app = web.Application(middlewares=[_errors_as_json], client_max_size=self._most_body_bytes)
        app.router.add_post("/v1/completions", partial(self._answer, parse_completion))
        app.router.add_post("/v1/chat/completions", partial(self._answer, parse_chat))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/server_info", self._server_info)
        return app

    def drain(self, most_s: float, when_idle: Callable[[], None]) -> None:
        """Take no more requests, and call `when_idle` once all that came have been answered.

        Those that come from now on are told to come back after `most_s`.
        """
        self._leaving_s = max(1, ceil(most_s))
        self._when_idle = when_idle
        self._engine.drain()
        self._call_when_idle()

    def _call_when_idle(self) -> None:
        if not self._answering and self._when_idle is not None:
            self._when_idle()

    async def _answer(self, parse: Parse, request: web.Request) -> web.StreamResponse:
        self._require_open()
        self._answering += 1
        try:
            return await self._answer_call(parse, request)
        finally:
            self._answering -= 1
            self._call_when_idle()

    def _require_open(self) -> None:
        if self._leaving_s is not None:
            msg = "the server is stopping and takes no more requests"
            raise ApiError(503, msg, code="stopping", retry_after_s=self._leaving_s)

    async def _answer_call(self, parse: Parse, request: web.Request) -> web.StreamResponse:
        arrived_ns = self._clock.now_ns()
        body = await self._read_body(request)
        said = (body, self.served_name, self._engine.codec)
        is_long = len(body) > _LONG_BODY_BYTES
        call = await asyncio.to_thread(parse, *said) if is_long else parse(*said)
        created_s = int(utc_now().timestamp())
        writer = answer_writer(call, next(self._numbers), self.served_name, created_s)
        async with aclosing(self._tokens(call.generation, arrived_ns)) as tokens:
            if call.is_streamed:
                return await self._stream(request, writer, tokens)
            return await self._whole(writer, tokens)

    async def _tokens(
        self, request: GenerationRequest, arrived_ns: int
    ) -> AsyncGenerator[GeneratedToken, None]:
        """The engine's tokens up to the finish reason. Raises ApiError when the engine fails."""
        is_first = True
        try:
            # The protocol promises that closing the iterator cancels the request.
            made = cast("AsyncGenerator[GeneratedToken, None]", self._engine.generate(request))
            async with aclosing(made):
                async for token in made:
                    if is_first:
                        self._ttft.observe(ns_to_s(self._clock.now_ns() - arrived_ns))
                        is_first = False
                    if token.finish_reason is not None:
                        self._e2e.observe(ns_to_s(self._clock.now_ns() - arrived_ns))
                    yield token
                    if token.finish_reason is not None:
                        return
        except RuntimeError as error:
            self.failure = str(error) or type(error).__name__
            raise ApiError(500, f"the engine failed: {self.failure}", code="engine") from error
        raise ApiError(500, "the engine ended an answer without a finish reason", code="engine")

    async def _stream(
        self,
        request: web.Request,
        writer: AnswerWriter,
        tokens: AsyncIterator[GeneratedToken],
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_EVENT_STREAM)
        text = IncrementalText(self._engine.codec)
        made = 0
        try:
            async for token in tokens:
                if not made:
                    await response.prepare(request)
                piece = text.push(token.token_id)
                if token.finish_reason is not None:
                    piece += text.flush()
                await response.write(
                    writer.event(piece, token.token_id, token.finish_reason, is_first=not made)
                )
                made += 1
        except ApiError as error:
            if not made:
                raise
            await response.write_eof(error_event(error.body()))  # the status has gone out already
        else:
            await response.write_eof(writer.tail(made))
        return response

    async def _whole(
        self, writer: AnswerWriter, tokens: AsyncIterator[GeneratedToken]
    ) -> web.Response:
        made = [token async for token in tokens]
        ids = [token.token_id for token in made]
        text = self._engine.codec.decode(tuple(ids))
        return _json(writer.body(text, ids, made[-1].finish_reason))

    async def _read_body(self, request: web.Request) -> bytes:
        most = self._most_body_bytes
        too_large = ApiError(413, f"the body is larger than the {most} bytes that may be read")
        if (request.content_length or 0) > most:
            raise too_large
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large from error

    async def _health(self, _request: web.Request) -> web.Response:
        self._require_open()
        if self.failure is not None:
            raise ApiError(503, f"the engine failed: {self.failure}", code="engine")
        return _json(b'{"status":"ready"}')

    async def _models(self, _request: web.Request) -> web.Response:
        model = {
            "id": self.served_name,
            "object": "model",
            "created": 0,
            "owned_by": "batchmark",
            "max_model_len": self._engine.facts().context_tokens,
        }
        return _json(msgspec.json.encode({"object": "list", "data": [model]}))

    async def _metrics(self, _request: web.Request) -> web.Response:
        lines = []
        for name, value in self._engine.gauges().items():
            kind = "counter" if name.endswith("_total") else "gauge"
            words = name.removesuffix("_total").replace("_", " ")
            lines += [
                f"# HELP batchmark_{name} The engine's {words}.",
                f"# TYPE batchmark_{name} {kind}",
                f"batchmark_{name} {value}",
            ]
        for histogram in (self._ttft, self._e2e, *self._engine.histograms()):
            lines += histogram.lines()
        return web.Response(text="\n".join((*lines, "")), headers=_PROMETHEUS)

    async def _server_info(self, _request: web.Request) -> web.Response:
        return _json(msgspec.json.encode(to_json(self._engine.facts())))


def most_body_bytes(context_tokens: int | None) -> int:
    """The largest body that may hold a prompt for a context of `context_tokens`."""
    if context_tokens is None:
        return _MOST_BODY_BYTES
    return min(_MOST_BODY_BYTES, _FRAME_BYTES + _BYTES_PER_TOKEN * context_tokens)


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _error(error)
    except RequestRefused as error:
        return _error(ApiError(400, str(error)))
    except QueueFull as error:
        wait_s = error.retry_after_s
        return _error(ApiError(429, str(error), code="queue_full", retry_after_s=wait_s))
    except ConnectionResetError:  # the client has gone: nobody will see this
        return web.Response(status=499)
    except web.HTTPException as error:  # unknown routes and methods
        said = f"{request.method} {request.path}: {error.reason}"
        return _error(ApiError(error.status, said))


def _error(error: ApiError) -> web.Response:
    wait_s = error.retry_after_s
    headers = {} if wait_s is None else {"Retry-After": str(wait_s)}
    return _json(error.body(), error.status, headers)


def _json(body: bytes, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
