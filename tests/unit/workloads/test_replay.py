"""What is done to the times of a trace before it is replayed."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.workload import Load, LoadKind
from workloads.arrivals import due_instants_ns
from workloads.replay import detect_tick, spread_ticks, thinned
from workloads.shape import Shape

NS, COUNT = 1_000_000_000, 20_000
TICK = 3 * NS
POISSON = due_instants_ns(Load(LoadKind.POISSON, rate_rps=3.4), COUNT, random.Random(1))
TICKED = [due // TICK * TICK for due in POISSON]
instants = st.lists(st.integers(0, 10**12), max_size=60).map(sorted)


def variation(due_ns: list[int]) -> float:
    gaps = np.diff(due_ns)
    return float(gaps.std() / gaps.mean())


def dispersion(due_ns: list[int], window_ns: int) -> float:
    counts = np.bincount(np.array(due_ns) // window_ns)[:-1]
    return float(counts.var() / counts.mean())


def shapes(due_ns: list[int], session: str | None = None) -> list[Shape]:
    return [Shape(1, 1, due_ns=due, session=session, turn=turn) for turn, due in enumerate(due_ns)]


def kept(due_ns: list[int], share: float, seed: int = 1) -> list[int]:
    return [row.due_ns or 0 for row in thinned(shapes(due_ns), share, random.Random(seed))]


def test_a_thinned_trace_has_that_share_of_the_rate_and_of_the_excess_dispersion() -> None:
    volleys = [due for due in TICKED[:6000] for _ in range(6)]
    found = kept(volleys, 0.25)

    assert len(found) / len(volleys) == pytest.approx(0.25, abs=4 * (0.1875 / len(volleys)) ** 0.5)
    excess = dispersion(volleys, TICK) - 1
    assert dispersion(found, TICK) - 1 == pytest.approx(0.25 * excess, rel=0.2)


def test_a_smaller_share_keeps_some_of_what_a_larger_one_keeps() -> None:
    due_ns = list(POISSON[:1000])

    assert set(kept(due_ns, 0.1)) < set(kept(due_ns, 0.5))
    assert kept(due_ns, 0.1) != kept(due_ns, 0.1, seed=2)
    assert kept(due_ns, 0.1) == kept(due_ns, 0.1)
    assert kept(due_ns, 1.0) == due_ns


def test_a_session_is_kept_or_left_as_a_whole() -> None:
    rows = [row for name in map(str, range(400)) for row in shapes([0, 1, 2], name)]
    rows.sort(key=lambda row: row.due_ns or 0)
    found = list(thinned(rows, 0.5, random.Random(1)))

    turns: dict[str, list[int]] = {}
    for row in found:
        turns.setdefault(row.session or "", []).append(row.turn)
    assert set(map(tuple, turns.values())) == {(0, 1, 2)}
    assert 150 < len(turns) < 250


@given(due_ns=instants, tick=st.integers(1, 10**11), seed=st.integers())
def test_spread_times_stay_in_order_and_inside_their_tick(
    due_ns: list[int], tick: int, seed: int
) -> None:
    found = list(spread_ticks(due_ns, tick, random.Random(seed)))

    assert found == sorted(found)
    assert all(0 <= after - due < tick for due, after in zip(due_ns, found, strict=True))
    for due, after in pairwise(sorted(set(due_ns))):
        assert sum(due <= one < after for one in found) == due_ns.count(due)
    assert found == list(spread_ticks(due_ns, tick, random.Random(seed)))


def test_a_ticking_clock_looks_bursty_and_spread_times_are_poisson_again() -> None:
    """As of a conversation trace whose stamps are 3 s apart: CV 3.03 as it is, 1.01 when spread."""
    found = list(spread_ticks(TICKED, TICK, random.Random(1)))

    assert variation(TICKED) == pytest.approx(3.04, abs=0.1)
    assert variation(found) == pytest.approx(1.0, abs=0.03)
    assert dispersion(found, NS) == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("jitter_ms", [0, 3])
def test_the_tick_of_a_coarse_clock_is_found_though_its_stamps_are_a_little_off(
    jitter_ms: int,
) -> None:
    rng = random.Random(1)
    offsets = {due: round((rng.random() - 0.5) * 2 * jitter_ms) * NS // 1000 for due in set(TICKED)}

    assert detect_tick([due + offsets[due] for due in TICKED]) == TICK


@pytest.mark.parametrize(
    "due_ns",
    [
        [],
        [5],
        [0, 0, 0],
        list(POISSON),
        [due // 1_000_000 * 1_000_000 for due in POISSON],
        list(range(0, 100 * NS, NS)),
    ],
    ids=["empty", "one", "at once", "nanoseconds", "milliseconds", "constant gaps"],
)
def test_times_that_are_fine_enough_have_no_tick(due_ns: list[int]) -> None:
    assert detect_tick(due_ns) is None


def test_a_clock_of_whole_seconds_ticks_though_most_of_its_ticks_are_empty() -> None:
    """As BurstGPT's, with a request every 3.7 s on average."""
    rare = due_instants_ns(Load(LoadKind.POISSON, rate_rps=0.27), 2000, random.Random(1))

    assert detect_tick([due // NS * NS for due in rare]) == NS
