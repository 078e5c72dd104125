"""What a thread has to say reaches the loop, in order and to the last word."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from engines.inhouse.herald import Herald


def test_messages_arrive_on_the_loop_in_the_order_in_which_they_were_told() -> None:
    async def run() -> tuple[list[int], set[threading.Thread]]:
        heard: list[int] = []
        threads: set[threading.Thread] = set()

        def hear(number: int) -> None:
            heard.append(number)
            threads.add(threading.current_thread())

        herald = Herald(asyncio.get_running_loop())

        def tell() -> None:
            for number in range(1000):
                herald.tell(partial(hear, number))

        await asyncio.to_thread(tell)
        await asyncio.to_thread(herald.stop)
        return heard, threads

    heard, threads = asyncio.run(run())

    assert heard == list(range(1000))
    assert threads == {threading.main_thread()}


def test_a_loop_that_is_closed_is_told_nothing_and_nothing_breaks() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    herald = Herald(loop)

    herald.tell(lambda: None)
    herald.stop()
    herald.stop()

    assert not herald._thread.is_alive()
