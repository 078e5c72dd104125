"""Ctrl-C and SIGTERM: the first ends the work in good order, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from harness.core.errors import ExitCode

T = TypeVar("T")

EXIT_CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Interruption:
    """The first signal that came, if any did."""

    def __init__(self) -> None:
        self.exit_code: ExitCode | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on a fast event loop; a signal cancels it, and it decides what that means."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._watched(work))

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        for number in EXIT_CODES:
            loop.add_signal_handler(number, self._note, number, task)
        try:
            return await task
        finally:
            for number in EXIT_CODES:
                loop.remove_signal_handler(number)

    def _note(self, number: signal.Signals, task: asyncio.Future[Any]) -> None:
        if self.exit_code is not None:
            os._exit(self.exit_code)  # asked twice: servers end by themselves when we are gone
        self.exit_code = EXIT_CODES[number]
        task.cancel()
