"""How long the server lives: from a bound port to a signal, or the end of its standard input."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from engines.server_process import cannot_listen
from engines.serving.app import OpenAIFront
from engines.serving.generation import TokenEngine
from harness.core.errors import UsageError

STDIN_FD = 0
_SHUTDOWN_S = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(
    engine: TokenEngine,
    host: str,
    port: int,
    *,
    announce: Callable[[str], None],
    until_stdin_closes: bool = False,
    drain_s: float = 30.0,
) -> None:
    """Serve `engine` until SIGTERM or SIGINT, or the end of standard input when that is asked for.

    After a signal what has come in is answered, for `drain_s` at most, while new requests get a
    503. A second signal ends that, and the end of standard input does not begin it.

    `announce` is called with the base URL once requests are answered; port 0 means any free one.
    Must run on the main thread. Raises UsageError when the port cannot be had; the engine has not
    been started then.
    """
    front = OpenAIFront(engine)
    # A client that goes away cancels its handler, and with it the request in the engine.
    runner = web.AppRunner(
        front.app(),
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
            with _told_to_end(until_stdin_closes=until_stdin_closes) as told:
                await told.to_end.wait()
                front.drain(drain_s, told.at_once.set)
                asyncio.get_running_loop().call_later(drain_s, told.at_once.set)
                await told.at_once.wait()
            await site.stop()
        finally:
            await engine.stop()
    finally:
        await runner.cleanup()


@dataclass(frozen=True, slots=True)
class _Told:
    """Set once the server shall end, and once it shall do so without another answer."""

    to_end: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)


@contextmanager
def _told_to_end(*, until_stdin_closes: bool) -> Iterator[_Told]:
    loop = asyncio.get_running_loop()
    told = _Told()

    def on_signal() -> None:
        (told.at_once if told.to_end.is_set() else told.to_end).set()

    def read_stdin() -> None:
        if not os.read(STDIN_FD, 4096):
            loop.remove_reader(STDIN_FD)
            told.at_once.set()
            told.to_end.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        if until_stdin_closes:
            _watch_stdin(loop, read_stdin)
        yield told
    finally:
        loop.remove_reader(STDIN_FD)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _watch_stdin(loop: asyncio.AbstractEventLoop, read: Callable[[], None]) -> None:
    try:
        loop.add_reader(STDIN_FD, read)
    except PermissionError as error:  # epoll refuses plain files
        msg = "standard input is a file, whose end says nothing; give a pipe or a terminal"
        raise UsageError(msg) from error
