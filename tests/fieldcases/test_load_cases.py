"""Faults in what is sent, and when, that users of other tools reported, with the answers that are
right here. The names are ours; the numbers of issues are where somebody met the fault."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.load_flags import LoadFlags, parse_load
from harness.core.phases import Phase
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen import pacing
from harness.loadgen.crew import Shares, split
from harness.loadgen.pacing import Due, OpenLoop
from harness.loadgen.wire import Target
from harness.loadgen.worker import WorkerPlan
from workloads.arrivals import due_instants_ns, stage_instants_ns
from workloads.catalog import build_workload, load_spec
from workloads.lengths import LengthKind, Lengths
from workloads.sessions import SessionsSpec, checked_sessions, drawn_sessions

MS, NS = 1_000_000, 1_000_000_000
SPEC = load_spec("eight-agents-short")
STAGES = Load(LoadKind.STAGES, stages=parse_stages("4:5,1-8:10,0:2,2~5:5"))
LOADS = [
    Load(LoadKind.POISSON, rate_rps=5.0),
    Load(LoadKind.CONSTANT, rate_rps=5.0),
    Load(LoadKind.GAMMA, rate_rps=5.0, cv=2.0),
    Load(LoadKind.MMPP, phases=(Phase(20.0, 1.0), Phase(0.0, 3.0))),
    STAGES,
]
SEEDED = [load for load in LOADS if load.kind is not LoadKind.CONSTANT]


def workload_of(load: Load, seed: int, mixes: int = 5) -> Workload:
    return build_workload(SPEC, load, None if load.kind is LoadKind.STAGES else mixes, seed)


class LateAlarm:
    """Time that passes only while somebody waits; every wait ends half a millisecond too late."""

    OVERSHOOT_NS = MS // 2

    def __init__(self) -> None:
        self.at_ns = 0
        self.rings_ns = 0
        self.on_ring: Callable[[], None] = lambda: None

    def open(self, _clock: object, on_ring: Callable[[], None]) -> LateAlarm:
        self.on_ring = on_ring
        return self

    def now_ns(self) -> int:
        return self.at_ns

    async def sleep_until_ns(self, instant_ns: int) -> None:
        self.at_ns = max(self.at_ns, instant_ns) + self.OVERSHOOT_NS

    def set(self, instant_ns: int) -> None:
        self.rings_ns = instant_ns

    def close(self) -> None:
        pass

    def ring(self) -> None:
        self.at_ns = max(self.at_ns, self.rings_ns) + self.OVERSHOOT_NS
        self.on_ring()


def sent_by_open_loop(due_ns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    late, sent_ns = LateAlarm(), []
    monkeypatch.setattr(pacing, "Alarm", late.open)
    dues = [Due(index, due) for index, due in enumerate(due_ns)]
    loop = OpenLoop(dues, late, lambda _index: sent_ns.append(late.now_ns()))
    loop.start(0)
    while not loop.is_done:
        late.ring()
    return sent_ns


def rate_of(instants_ns: list[int]) -> float:
    return (len(instants_ns) - 1) * NS / (instants_ns[-1] - instants_ns[0])


def test_d03_waits_that_are_late_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """vllm#21104: a client that sleeps each gap sent 183 a second of 200."""
    due_ns = due_instants_ns(Load(LoadKind.CONSTANT, rate_rps=200.0), 4000, random.Random(1))
    by_gaps, at_ns = [], 0
    for before, due in pairwise((0, *due_ns)):
        at_ns += due - before + LateAlarm.OVERSHOOT_NS
        by_gaps.append(at_ns)

    sent_ns = sent_by_open_loop(due_ns, monkeypatch)

    assert rate_of(by_gaps) == pytest.approx(181.8, abs=0.1)
    assert rate_of(sent_ns) == pytest.approx(200, abs=0.1)
    assert 0 <= sent_ns[-1] - due_ns[-1] <= LateAlarm.OVERSHOOT_NS


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_d03_each_request_is_late_by_its_own_wait_alone(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_ns = tuple(a.due_ns for a in workload_of(load, seed=1).arrivals)

    for due, sent in zip(due_ns, sent_by_open_loop(due_ns, monkeypatch), strict=True):
        assert 0 <= sent - due <= LateAlarm.OVERSHOOT_NS


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, 100.0])
def test_d05_burstiness_is_the_shape_of_a_gamma_distribution(burstiness: float) -> None:
    """vllm#10105."""
    load = parse_load(LoadFlags(rate_rps=10.0, burstiness=burstiness))
    due_ns = due_instants_ns(load, 20_000, random.Random(1))
    gaps_s = [(after - before) / NS for before, after in pairwise((0, *due_ns))]

    mean = statistics.fmean(gaps_s)
    assert mean == pytest.approx(0.1, rel=0.02)
    assert statistics.pstdev(gaps_s) / mean == pytest.approx(burstiness**-0.5, rel=0.05)


@pytest.mark.parametrize("burstiness", [0.0, -1.0])
def test_d05_a_burstiness_that_no_distribution_has_is_refused(burstiness: float) -> None:
    with pytest.raises(UsageError, match=f"--burstiness is {burstiness:g}"):
        parse_load(LoadFlags(rate_rps=10.0, burstiness=burstiness))


def test_d05_cv_and_burstiness_are_two_words_for_one_load() -> None:
    by_cv = parse_load(LoadFlags(rate_rps=10.0, cv=2.0))
    by_shape = parse_load(LoadFlags(rate_rps=10.0, burstiness=0.25))

    assert by_cv == by_shape
    assert str(by_cv) == "gamma 10/s cv 2"


def test_d07_people_think_for_the_mean_time_that_is_set() -> None:
    """vllm#43212: between turns a client waited another time than the one that it was told."""
    ten = Lengths(LengthKind.FIXED, tokens=10)
    thinking = Lengths(LengthKind.EXPONENTIAL, mean=2000.0)
    turns = Lengths(LengthKind.FIXED, tokens=17)
    spec = checked_sessions(SessionsSpec(turns, user=ten, answer=ten, think_ms=thinking))
    sessions = drawn_sessions(spec, 1250)
    delays_s = [step.delay_ns / NS for steps in sessions for step in steps[1:]]

    assert len(delays_s) == 20_000
    assert {steps[0].delay_ns for steps in sessions} == {0}
    assert statistics.fmean(delays_s) == pytest.approx(2, rel=0.03)
    assert statistics.pstdev(delays_s) == pytest.approx(2, rel=0.05)


def test_d19_the_rates_of_a_sweep_are_not_rounded_to_whole_numbers() -> None:
    """inference-perf#229: ten stages from 1 to 4 a second had the rates 1 1 2 2 2 3 3 3 4 4."""
    rates = [1 + 3 * i / 9 for i in range(10)]
    stages = parse_stages(",".join(f"{rate}:30" for rate in rates))
    counts = [0] * 10
    for seed in range(200):
        for due in stage_instants_ns(stages, random.Random(seed)):
            counts[due // (30 * NS)] += 1

    assert [stage.start_rps for stage in stages] == rates
    assert len({str(stage) for stage in stages}) == 10
    for rate, count in zip(rates, counts, strict=True):
        assert count / 200 / 30 == pytest.approx(rate, abs=4 * (rate / 6000) ** 0.5)


def plans_of(workload: Workload, workers: int) -> tuple[WorkerPlan, ...]:
    whole = Shares(
        target=Target("localhost", 80, "", is_tls=False),
        load=workload.load,
        dues=tuple(Due(a.request.index, a.due_ns) for a in workload.arrivals),
        payloads={
            a.request.index: str(a.request.prompt_token_ids).encode() for a in workload.arrivals
        },
    )
    return split(whole, workers, Path())


def sent_of(plans: tuple[WorkerPlan, ...]) -> list[tuple[int, int, bytes]]:
    """Index, due instant and bytes of all that the workers send together."""
    return sorted(
        (due.index, due.due_ns, plan.payloads[due.index]) for plan in plans for due in plan.dues
    )


def test_d20_workers_never_send_each_others_prompts() -> None:
    """inference-perf#509: workers with one state of their random generators sent equal prompts."""
    plans = plans_of(workload_of(LOADS[0], seed=1, mixes=25), workers=4)
    again = plans_of(workload_of(LOADS[0], seed=1, mixes=25), workers=4)

    assert [len(plan.dues) for plan in plans] == [50] * 4
    assert len({payload for _, _, payload in sent_of(plans)}) == 200
    assert sent_of(plans) == sent_of(again)


@pytest.mark.parametrize("load", SEEDED, ids=str)
def test_d21_a_seed_decides_the_schedule_to_the_nanosecond(load: Load) -> None:
    """inference-perf#393: arrivals were drawn from a generator without a seed."""
    one, again, other = ([a.due_ns for a in workload_of(load, seed).arrivals] for seed in (1, 1, 2))

    assert one == again
    assert one[:10] != other[:10]


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_d21_the_schedule_does_not_depend_on_the_number_of_workers(load: Load) -> None:
    workload = workload_of(load, seed=1)
    alone = sent_of(plans_of(workload, workers=1))

    for workers in (2, 3, 4, 7):
        plans = plans_of(workload, workers)
        assert len(plans) == workers
        assert {plan.load for plan in plans} == {load}
        assert sent_of(plans) == alone


LOCKING = """
import sys
from pathlib import Path
from harness.core.load_flags import LoadFlags, mix_repeats, parse_load
from workloads.catalog import build_workload, load_spec
from workloads.schedule_file import write_schedule
for number, flags in enumerate(
    (
        LoadFlags(),
        LoadFlags(rate_rps=5.0, cv=2.0),
        LoadFlags(stages="1-4:10,2~8:10"),
        LoadFlags(mmpp="40:1,0:3"),
    )
):
    spec, load = load_spec("eight-agents-short"), parse_load(flags)
    workload = build_workload(spec, load, mix_repeats(flags), 42)
    write_schedule(Path(sys.argv[1], f"{number}.jsonl"), workload)
"""


def test_d22_every_byte_is_the_same_in_processes_with_other_hash_seeds(tmp_path: Path) -> None:
    """vllm#9013: prompts changed from one process to the next."""
    locked = []
    for hash_seed in ("0", "1"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", LOCKING, str(folder)]
        subprocess.run(command, env=environment, check=True)
        locked.append([path.read_bytes() for path in sorted(folder.iterdir())])

    assert len(locked[0]) == 4
    assert locked[0] == locked[1]
