"""An OpenAI-compatible HTTP server over any TokenEngine: routes, and the life of the server.

One event per token, written as soon as the token is made. The status line goes out with the first
token, so that a request that the engine refuses is answered with a 4xx, and nothing that a client
could take for a first token is sent before there is one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cached_property, partial
from itertools import count
from typing import cast

import msgspec
from aiohttp import web

from engines.server_process import cannot_listen
from engines.serving.generation import (
    GeneratedToken,
    GenerationRequest,
    RequestRefused,
    TextCodec,
    TokenEngine,
)
from engines.serving.incremental_text import IncrementalText
from engines.serving.openai_answers import AnswerWriter, answer_writer, error_event
from engines.serving.openai_schema import ApiError, Call, parse_chat, parse_completion
from engines.serving.timings import Histogram
from harness.core.clock import Clock, MonotonicClock, utc_now
from harness.core.errors import UsageError
from harness.core.jsonable import to_json
from harness.core.units import ns_to_s

MOST_BODY_BYTES = 16 * 2**20
STDIN_FD = 0
_SHUTDOWN_S = 2.0
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
_PROMETHEUS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_CLOCK = MonotonicClock()

Parse = Callable[[bytes, str, TextCodec], Call]


class OpenAIFront:
    """The routes over one engine. `failure` is why the engine can answer no more, once it has."""

    def __init__(self, engine: TokenEngine, clock: Clock) -> None:
        self.failure: str | None = None
        self._engine = engine
        self._clock = clock
        self._numbers = count(1)
        self._ttft = Histogram("batchmark_ttft_seconds", "From a request to its first token.")
        self._e2e = Histogram("batchmark_e2e_seconds", "From a request to its last token.")

    @cached_property
    def served_name(self) -> str:
        """The model name that a request must give."""
        facts = self._engine.facts()
        return facts.served_name or facts.model or "model"

    def add_routes(self, app: web.Application) -> None:
        """Serve every route of this front from `app`."""
        app.router.add_post("/v1/completions", partial(self._answer, parse_completion))
        app.router.add_post("/v1/chat/completions", partial(self._answer, parse_chat))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/server_info", self._server_info)

    async def _answer(self, parse: Parse, request: web.Request) -> web.StreamResponse:
        arrived_ns = self._clock.now_ns()
        call = parse(await _read_body(request), self.served_name, self._engine.codec)
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

    async def _health(self, _request: web.Request) -> web.Response:
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
        lines += [*self._ttft.lines(), *self._e2e.lines()]
        return web.Response(text="\n".join((*lines, "")), headers=_PROMETHEUS)

    async def _server_info(self, _request: web.Request) -> web.Response:
        return _json(msgspec.json.encode(to_json(self._engine.facts())))


def build_app(engine: TokenEngine, clock: Clock = _CLOCK) -> web.Application:
    """The application that serves `engine`; it neither starts nor stops the engine."""
    app = web.Application(middlewares=[_errors_as_json], client_max_size=MOST_BODY_BYTES)
    OpenAIFront(engine, clock).add_routes(app)
    return app


async def serve(
    engine: TokenEngine,
    host: str,
    port: int,
    *,
    announce: Callable[[str], None],
    until_stdin_closes: bool = False,
) -> None:
    """Serve `engine` until SIGTERM or SIGINT, or the end of standard input when that is asked for.

    `announce` is called with the base URL once requests are answered; port 0 means any free one.
    Must run on the main thread. Raises UsageError when the port cannot be had; the engine has not
    been started then.
    """
    # A client that goes away cancels its handler, and with it the request in the engine.
    runner = web.AppRunner(
        build_app(engine),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=_SHUTDOWN_S,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise cannot_listen(host, port, error) from error
        engine.start()
        try:
            announce(f"http://{host}:{runner.addresses[0][1]}")
            await _wait_until_told_to_stop(until_stdin_closes=until_stdin_closes)
            await site.stop()
        finally:
            await engine.stop()
    finally:
        await runner.cleanup()


async def _wait_until_told_to_stop(*, until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def read_stdin() -> None:
        if not os.read(STDIN_FD, 4096):
            loop.remove_reader(STDIN_FD)
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        if until_stdin_closes:
            loop.add_reader(STDIN_FD, read_stdin)
        await stop.wait()
    except PermissionError as error:  # epoll refuses plain files
        msg = "standard input is a file, whose end says nothing; give a pipe or a terminal"
        raise UsageError(msg) from error
    finally:
        loop.remove_reader(STDIN_FD)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _read_body(request: web.Request) -> bytes:
    too_large = ApiError(413, f"the body is larger than {MOST_BODY_BYTES} bytes")
    if (request.content_length or 0) > MOST_BODY_BYTES:
        raise too_large
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large from error


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _json(error.body(), error.status)
    except RequestRefused as error:
        return _json(ApiError(400, str(error)).body(), 400)
    except web.HTTPException as error:  # unknown routes and methods
        said = f"{request.method} {request.path}: {error.reason}"
        return _json(ApiError(error.status, said).body(), error.status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
