"""Every arrival process against its formulas: 20,000 arrivals, and 1, 2 and 4 sending processes.

Mean rate, coefficient of variation of the gaps, index of dispersion of the counts in windows, and
Anderson and Darling's test. Seeds are pinned. A tolerance is some four standard errors of what it
bounds; bursts that last leave few independent pieces of time, so theirs are averages of six seeds.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from harness.analyzer.flow import anderson_darling_exponential, exponential_limit
from harness.core.phases import Phase
from harness.core.stages import Stage, parse_stages
from harness.core.workload import Load, LoadKind
from harness.loadgen.crew import Shares, split
from harness.loadgen.pacing import Due
from harness.loadgen.wire import Target
from workloads.arrivals import due_instants_ns, stage_instants_ns

Floats = NDArray[np.float64]
COUNT, NS = 20_000, 1_000_000_000
SEEDS = range(6)

CONSTANT = Load(LoadKind.CONSTANT, rate_rps=10.0)
POISSON = Load(LoadKind.POISSON, rate_rps=10.0)
SMOOTH = Load(LoadKind.GAMMA, rate_rps=10.0, cv=0.5)
BURSTY = Load(LoadKind.GAMMA, rate_rps=10.0, cv=2.0)
# The means of both are 10 a second: (30 * 0.5 + 10/3 * 1.5) / 2, and 40 * 0.5 / 2.
MMPP = Load(LoadKind.MMPP, phases=(Phase(30.0, 0.5), Phase(10 / 3, 1.5)))
ON_OFF = Load(LoadKind.MMPP, phases=(Phase(40.0, 0.5), Phase(0.0, 1.5)))
RENEWAL = (POISSON, SMOOTH, BURSTY)


@cache
def instants_s(load: Load, seed: int) -> Floats:
    return np.array(due_instants_ns(load, COUNT, random.Random(f"{seed}/arrivals"))) / NS


def gaps_s(instants: Floats) -> Floats:
    """Never 0, which the rounding to nanoseconds makes of some."""
    return np.maximum(np.diff(instants, prepend=0.0), 0.5 / NS)


def variation(instants: Floats) -> float:
    gaps = gaps_s(instants)
    return float(gaps.std() / gaps.mean())


def dispersion(instants: Floats, window_s: float) -> float:
    """Variance over mean of the counts in windows; 1 at every length for a Poisson process."""
    counts = np.bincount((instants / window_s).astype(np.int64))[:-1]
    return float(counts.var() / counts.mean())


def averaged(of: Callable[[Floats], float], load: Load) -> float:
    return float(np.mean([of(instants_s(load, seed)) for seed in SEEDS]))


def dispersion_of_mmpp(load: Load, window_s: float) -> float:
    """Fischer and Meier-Hellstern (1993), of two phases that began in equilibrium."""
    one, two = load.phases
    leaving, coming = 1 / one.mean_s, 1 / two.mean_s
    both = leaving + coming
    rated = one.rate_rps * coming + two.rate_rps * leaving
    most = 2 * (one.rate_rps - two.rate_rps) ** 2 * leaving * coming / (both**2 * rated)
    return 1 + most * (1 - (1 - math.exp(-both * window_s)) / (both * window_s))


def variation_of_on_off(load: Load) -> float:
    on, off = load.phases
    leaving, coming = 1 / on.mean_s, 1 / off.mean_s
    return math.sqrt(1 + 2 * on.rate_rps * leaving / (leaving + coming) ** 2)


def share_of_on_off_gaps(load: Load, gaps: Floats) -> Floats:
    """Their cumulative distribution: gaps of an interrupted Poisson process are one of two
    exponentials (Kuczura, "The interrupted Poisson process as an overflow process", 1973)."""
    on, off = load.phases
    rate, leaving, coming = on.rate_rps, 1 / on.mean_s, 1 / off.mean_s
    both = rate + leaving + coming
    root = math.sqrt(both**2 - 4 * rate * coming)
    quick, slow = (both + root) / 2, (both - root) / 2
    share = (rate - slow) / (quick - slow)
    return 1 - share * np.exp(-quick * gaps) - (1 - share) * np.exp(-slow * gaps)


def as_exponential(shares: Floats) -> Floats:
    """Numbers uniform between 0 and 1 as exponential ones, which Anderson and Darling's test is of."""
    return -np.log1p(-shares)


def assert_exponential(numbers: Floats) -> None:
    assert anderson_darling_exponential(numbers) < exponential_limit(len(numbers))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("load", [CONSTANT, *RENEWAL, MMPP, ON_OFF], ids=str)
def test_any_number_of_workers_sends_together_what_is_due_and_when(
    load: Load, workers: int
) -> None:
    """So that all that is shown below of what is due is true of what any number of them sends."""
    due_ns = due_instants_ns(load, COUNT, random.Random("1/arrivals"))
    target = Target("localhost", 80, "", is_tls=False)
    dues = tuple(Due(index, due) for index, due in enumerate(due_ns))
    plans = split(Shares(target, load, dues, {}), workers, Path())

    assert [len(plan.dues) for plan in plans] == [COUNT // workers] * workers
    assert sorted(due.due_ns for plan in plans for due in plan.dues) == list(due_ns)


@pytest.mark.parametrize("load", RENEWAL, ids=str)
def test_gaps_drawn_one_by_one_have_the_mean_and_the_variation_of_their_load(load: Load) -> None:
    """Field case D05: the shape of a gamma process and its variation are two words for one."""
    instants, cv = instants_s(load, 1), load.cv or 1.0

    assert COUNT / instants[-1] == pytest.approx(10, rel=4 * cv / COUNT**0.5)
    assert variation(instants) == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize("window_s", [1.0, 10.0])
@pytest.mark.parametrize(("load", "expected"), [(POISSON, 1.0), (SMOOTH, 0.25), (BURSTY, 4.0)])
def test_counts_of_independent_gaps_are_as_dispersed_as_the_gaps_are_varied(
    load: Load, expected: float, window_s: float
) -> None:
    """At every length of window: no such process has bursts that last, as users' own have.

    In short windows smooth gaps have not come to their limit yet: there it is 0.26.
    """
    found = averaged(lambda instants: dispersion(instants, window_s), load)

    assert found == pytest.approx(expected, rel=0.08)


def test_poisson_gaps_are_exponential_and_their_instants_uniform() -> None:
    """The second is the conditional check: given how many there are, they lie anywhere alike."""
    instants = instants_s(POISSON, 1)

    assert_exponential(gaps_s(instants))
    assert stats.kstest(instants[:-1] / instants[-1], "uniform").pvalue > 0.01


@pytest.mark.parametrize("load", [SMOOTH, BURSTY], ids=str)
def test_gamma_gaps_have_the_distribution_of_their_shape(load: Load) -> None:
    shape = (load.cv or 1.0) ** -2
    shares = stats.gamma.cdf(gaps_s(instants_s(load, 1)), shape, scale=0.1 / shape)

    assert_exponential(as_exponential(shares))


@pytest.mark.parametrize("load", [*RENEWAL, ON_OFF], ids=str)
def test_gaps_of_a_renewal_process_say_nothing_of_the_next(load: Load) -> None:
    """Workers that draw the same gaps in turn would show here, at 0.75 for four of them."""
    gaps = gaps_s(instants_s(load, 1))

    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / COUNT**0.5


@pytest.mark.parametrize("load", [MMPP, ON_OFF], ids=str)
def test_a_rate_that_jumps_has_the_mean_of_its_phases(load: Load) -> None:
    assert averaged(lambda found: COUNT / found[-1], load) == pytest.approx(10, rel=0.03)


@pytest.mark.parametrize("window_s", [0.2, 1.0, 10.0])
@pytest.mark.parametrize("load", [MMPP, ON_OFF], ids=str)
def test_a_rate_that_jumps_disperses_counts_more_in_longer_windows(
    load: Load, window_s: float
) -> None:
    found = averaged(lambda instants: dispersion(instants, window_s), load)

    assert found == pytest.approx(dispersion_of_mmpp(load, window_s), rel=0.08)


def test_the_formula_of_dispersion_is_the_one_of_the_reference_figures() -> None:
    """30/s for 5 s and 3.33/s for 15 s: 13.2 in windows of 1 s, 66 in 10 s, and 101 in the end."""
    slow = Load(LoadKind.MMPP, phases=(Phase(30.0, 5.0), Phase(10 / 3, 15.0)))

    found = [dispersion_of_mmpp(slow, window_s) for window_s in (1, 10, 1e6)]
    assert found == pytest.approx([13.2, 66, 101], rel=0.01)


def test_gaps_of_on_off_arrivals_are_those_of_an_interrupted_poisson_process() -> None:
    gaps = gaps_s(instants_s(ON_OFF, 1))[1:]  # the first one begins in the midst of a phase

    assert averaged(variation, ON_OFF) == pytest.approx(variation_of_on_off(ON_OFF), rel=0.05)
    assert_exponential(as_exponential(share_of_on_off_gaps(ON_OFF, gaps)))


def test_the_first_phase_is_drawn_by_its_share_of_all_time() -> None:
    """A quarter of the runs begin in a burst; otherwise short runs would all be alike."""
    slow = Load(LoadKind.MMPP, phases=(Phase(1000.0, 50.0), Phase(1.0, 150.0)))
    firsts = [due_instants_ns(slow, 1, random.Random(seed))[0] for seed in range(2000)]

    assert np.mean(np.array(firsts) < NS // 100) == pytest.approx(0.25 + 0.01, abs=0.04)


def test_constant_gaps_are_all_alike() -> None:
    gaps = gaps_s(instants_s(CONSTANT, 1))

    assert np.abs(gaps - 0.1).max() <= 1.01e-9


def expected_until(stages: tuple[Stage, ...], instants: Floats) -> Floats:
    """The area under the rates up to each instant, by adding up a million thin strips."""
    ends = np.cumsum([stage.duration_s for stage in stages])
    grid = np.linspace(0, ends[-1], 1_000_001)
    rates = np.zeros_like(grid)
    for stage, end in zip(stages, ends, strict=True):
        inside = (grid >= end - stage.duration_s) & (grid <= end)
        turn = (grid[inside] - (end - stage.duration_s)) / stage.duration_s
        along = (1 - np.cos(2 * np.pi * turn)) / 2 if stage.is_wave else turn
        rates[inside] = stage.start_rps + (stage.end_rps - stage.start_rps) * along
    areas = np.cumsum((rates[1:] + rates[:-1]) / 2) * grid[1]
    return np.interp(instants, grid, np.concatenate(([0.0], areas)))


CHANGING = ["10:2000", "0-20:2000", "2~18:500,18~2:1500", "0~20:2000", "5:400,5-25:600,10~14:1000"]


@pytest.mark.parametrize("text", CHANGING)
def test_rates_that_change_are_followed_all_along(text: str) -> None:
    """On a time axis that is bent back, arrivals are a Poisson process of one a second."""
    stages = parse_stages(text)
    instants = np.array(stage_instants_ns(stages, random.Random("1/arrivals"))) / NS

    expected = sum(stage.expected_requests for stage in stages)
    assert len(instants) == pytest.approx(expected, abs=4 * expected**0.5)
    bent = expected_until(stages, instants)
    assert_exponential(np.diff(bent, prepend=0.0))
    assert stats.kstest(bent / expected, "uniform").pvalue > 0.01


def test_a_day_has_its_peak_in_the_middle_and_its_mean_halfway() -> None:
    (stage,) = parse_stages("2~8:3600")
    due_s = np.concatenate(
        [np.array(stage_instants_ns([stage], random.Random(seed))) / NS for seed in range(2)]
    )
    rates = np.histogram(due_s, bins=12, range=(0, 3600))[0] / 600

    middles = (np.arange(12) + 0.5) / 12
    # The mean of a sine over a twelfth of its period is that in the middle, times sin(x)/x.
    flattened = math.sin(math.pi / 12) / (math.pi / 12)
    expected = 5 - 3 * flattened * np.cos(2 * np.pi * middles)
    assert rates == pytest.approx(expected, abs=4 * (8 / 600) ** 0.5)


def digest(due_ns: tuple[int, ...]) -> str:
    return hashlib.sha256(",".join(map(str, due_ns[:2000])).encode()).hexdigest()[:16]


DIGESTS = {
    CONSTANT: "3a84f53365914823",
    POISSON: "2c8c57da3337e111",
    BURSTY: "019bcf2d3acd3e97",
    MMPP: "77709572539fd775",
    ON_OFF: "9f419b75ba289623",
}


@pytest.mark.parametrize("load", DIGESTS, ids=str)
def test_the_first_2000_instants_of_a_seed_are_pinned(load: Load) -> None:
    """A change here means that old seeds no longer send when they sent: say so in the changelog."""
    assert digest(due_instants_ns(load, COUNT, random.Random("0/arrivals"))) == DIGESTS[load]


@pytest.mark.parametrize(
    ("text", "expected"), [("5:400,5-25:600", "b1e5b902158099c1"), ("2~18:400", "40608771f3893244")]
)
def test_the_instants_of_stages_of_a_seed_are_pinned(text: str, expected: str) -> None:
    assert digest(stage_instants_ns(parse_stages(text), random.Random("0/arrivals"))) == expected
