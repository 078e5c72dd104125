"""Ceilings are the best of what was done in a time that a clock gives."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: inhouse)")

from engines.inhouse.ceilings import Effort, devices, measure_ceilings, usual_effort  # noqa: E402
from harness.core.clock import MonotonicClock  # noqa: E402

SMALL = Effort(2**20, 0.0, ((32, 64, 48), (64, 64, 64)), 0.0)


class SteppingClock(MonotonicClock):
    """A millisecond passes with each look."""

    def __init__(self) -> None:
        self.looks = 0

    def now_ns(self) -> int:  # type: ignore[override]
        self.looks += 1
        return self.looks * 1_000_000


def test_rates_are_work_over_time() -> None:
    found = measure_ceilings("cpu", 1, SMALL, SteppingClock())
    # Each piece of work lies between two looks, which are a millisecond apart.
    assert found.read_bytes_per_s == pytest.approx(2**20 / 1e-3)
    assert found.flops_per_s == {
        name: pytest.approx(2 * 64**3 / 1e-3) for name in ("float32", "bfloat16")
    }
    assert (found.device, found.threads) == ("cpu", 1)


def test_the_number_of_threads_is_given_back() -> None:
    before = torch.get_num_threads()
    measure_ceilings("cpu", before + 1, SMALL, MonotonicClock())
    assert torch.get_num_threads() == before


def test_a_real_clock_gives_rates_above_0() -> None:
    found = measure_ceilings("cpu", 1, SMALL, MonotonicClock())
    assert found.read_bytes_per_s > 0
    assert all(rate > 0 for rate in found.flops_per_s.values())


def test_the_buffer_is_far_beyond_the_caches_but_never_takes_the_memory() -> None:
    assert "cpu" in devices()
    roomy, tight = usual_effort("cpu", 2**40), usual_effort("cpu", 2**30)
    assert 2**30 <= roomy.read_bytes <= 2**32
    assert tight.read_bytes == 2**27
