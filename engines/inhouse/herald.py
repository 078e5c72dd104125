"""Tells an event loop what a thread has to say, at a time when that costs the thread nothing.

To wake a loop takes a system call, for which Python lets go of its lock. The loop would take the
lock, and the thread get it back only once the loop had sent all it has. Here the thread only puts
its message down; a second thread, which comes by the lock when the first lets go of it anyway,
passes it on.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable

Message = Callable[[], None]


class Herald:
    """Has callbacks made on `loop`, in the order in which they were put down."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="inhouse-herald", daemon=True)
        self._thread.start()

    def tell(self, message: Message) -> None:
        """Have `message` called on the loop soon; from any thread."""
        self._messages.put(message)

    def stop(self) -> None:
        """Return once the loop has been told everything; it may be done so twice."""
        self._messages.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (message := self._messages.get()) is not None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits any more
                self._loop.call_soon_threadsafe(message)
