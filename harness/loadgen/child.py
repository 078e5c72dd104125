"""A process of ours behind a door: a plan goes in, small messages go both ways."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection as Door
from typing import Any

from harness.core.units import NS_PER_S

_END_WAIT_S = 1.0


class Child:
    """A running process. `say` never fails: one that has ended hears nothing."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], door: Door) -> None:
        self.name = name
        self._process = process
        self._door = door

    @property
    def pid(self) -> int:
        """The number that the system knows the process by."""
        return self._process.pid

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
        try:
            self._process.wait(timeout=_END_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _hear(self, on_message: Callable[[Any], None], on_death: Callable[[str], None]) -> None:
        try:
            message = self._door.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._door.fileno())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END_WAIT_S)
            on_death(f"{self.name} ended by itself (exit code {self._process.returncode})")
            return
        on_message(message)


def cpu_ns() -> int:
    """Processor time of this process so far, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round((usage.ru_utime + usage.ru_stime) * NS_PER_S)


async def start_child(name: str, target: Callable[[Any, Door], None], plan: object) -> Child:
    """A new process that runs `target(plan, door)`; all that is sent must be picklable.

    It imports what `target` needs and nothing of our program, so it is there in a fifth of a
    second; `multiprocessing` would have it run our main module first. `name` stands in lists of
    processes.
    """
    return await asyncio.get_running_loop().run_in_executor(None, _start, name, target, plan)


def _start(name: str, target: Callable[[Any, Door], None], plan: object) -> Child:
    here, there = Pipe()
    # -P: a folder called harness where the command was typed is not ours.
    command = [sys.executable, "-P", "-m", "harness.loadgen.child", str(there.fileno()), name]
    # A process group of its own: Ctrl-C reaches the parent alone, which says how it ends.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], process_group=0
    )
    there.close()
    child = Child(name, process, here)
    child.say((target, plan))  # a large plan waits in the door until the process reads it
    return child


def _become(door: Door) -> None:
    """What the new process does."""
    target, plan = door.recv()
    target(plan, door)


if __name__ == "__main__":
    _become(Door(int(sys.argv[1])))
