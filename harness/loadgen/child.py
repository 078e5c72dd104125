"""A process of ours behind a door: a plan goes in, small messages go both ways."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection as Door
from multiprocessing.process import BaseProcess
from typing import Any

from harness.core.units import NS_PER_S

_END_WAIT_S = 1.0


class Child:
    """A running process. `say` never fails: one that has ended hears nothing."""

    def __init__(self, process: BaseProcess, door: Door) -> None:
        self.process = process
        self._door = door

    def listen(self, on_message: Callable[[Any], None], on_death: Callable[[str], None]) -> None:
        """Have `on_message` called with what the child says, and `on_death` once when it ends."""
        asyncio.get_running_loop().add_reader(self._door.fileno(), self._hear, on_message, on_death)

    def say(self, message: object) -> None:
        """Send `message` to the child."""
        with contextlib.suppress(OSError):
            self._door.send(message)

    def close(self) -> None:
        """End the process: by itself if it does so soon, or else by force."""
        asyncio.get_running_loop().remove_reader(self._door.fileno())
        self._door.close()
        self.process.join(timeout=_END_WAIT_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _hear(self, on_message: Callable[[Any], None], on_death: Callable[[str], None]) -> None:
        try:
            message = self._door.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._door.fileno())
            self.process.join(timeout=_END_WAIT_S)
            on_death(f"{self.process.name} ended by itself (exit code {self.process.exitcode})")
            return
        on_message(message)


def cpu_ns() -> int:
    """Processor time of this process so far, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round((usage.ru_utime + usage.ru_stime) * NS_PER_S)


async def start_child(name: str, target: Callable[[Any, Door], None], plan: object) -> Child:
    """A new process that runs `target(plan, door)`; all three must be importable or picklable."""
    # Spawned, not forked: a forked process would share the event loop's file descriptors.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(plan, there), name=name, daemon=True)
    await asyncio.get_running_loop().run_in_executor(None, process.start)
    there.close()
    return Child(process, here)
