"""The burn-in: the same work, timed until a round of it was steady."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.core.burn_in import spread
from harness.core.clock import MonotonicClock
from harness.loadgen.machine import burn_in_s, machine_facts, short_cpu_name, with_burn_in

EVEN, UNEVEN, WILD = [20] * 7, [20, 20, 20, 22, 22, 22, 22], [20, 30, 40, 50, 60, 70, 80]


class ScriptedClock:
    """Work takes as many milliseconds as are written down, whatever it is."""

    def __init__(self, timings_ms: Sequence[int]) -> None:
        self._timings_ms = iter(timings_ms)
        self._now_ns = 0
        self._is_running = False

    def now_ns(self) -> int:
        if self._is_running:
            self._now_ns += next(self._timings_ms) * 1_000_000
        self._is_running = not self._is_running
        return self._now_ns

    async def sleep_until_ns(self, instant_ns: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("rounds", "kept"),
    [
        ([EVEN], EVEN),  # no further round is asked for
        ([WILD, UNEVEN, EVEN], EVEN),
        ([WILD, WILD, UNEVEN, WILD, WILD], UNEVEN),
        ([WILD] * 5, WILD),
    ],
)
def test_the_first_steady_round_is_kept_else_the_steadiest_of_five(
    rounds: list[list[int]], kept: list[int]
) -> None:
    clock = ScriptedClock([ms for timings in rounds for ms in timings])
    assert burn_in_s(clock, steps=1) == tuple(ms / 1000 for ms in kept)
    with pytest.raises(StopIteration):
        clock.now_ns(), clock.now_ns()


def test_this_machine_is_timed_without_becoming_another_one() -> None:
    machine = machine_facts()
    timed = with_burn_in(machine, MonotonicClock())
    assert timed == machine
    assert timed.burn_in_s is not None
    assert len(timed.burn_in_s) == 7
    assert min(timed.burn_in_s) > 0
    assert spread(timed.burn_in_s) >= 0


def test_a_processor_is_named_without_trademarks_and_counts() -> None:
    name = short_cpu_name("Intel(R) Xeon(R) Processor @ 2.60GHz")
    assert name == "Intel Xeon"
