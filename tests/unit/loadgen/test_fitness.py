"""What /proc and the control groups say of a machine, and when that makes it unfit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.fitness import Finding, Fitness, is_fit
from harness.core.manifest import MachineFacts
from harness.loadgen.fitness import (
    GIB,
    CpuTimes,
    Places,
    cpu_times,
    free_bytes,
    machine_findings,
    quota_cores,
)

STEADY = (0.02,) * 7
MACHINE = MachineFacts("AMD EPYC", 2, 8, (), "Linux", "3.11", STEADY)
BEFORE = CpuTimes(0.0, 0.0, 0.0, 0.0)
IDLE = CpuTimes(1.0, 0.0, 20.0, 1.0)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(tmp_path / "proc", tmp_path / "cgroup")
    write(made.proc / "stat", "cpu  100 0 50 800 10 5 5 30 0 0\ncpu0 1 2 3\n")
    write(made.proc / "meminfo", "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n")
    write(made.proc / "loadavg", "1.50 1.00 0.50 1/100 1234\n")
    write(made.proc / "cpuinfo", "model name\t: X\nflags\t\t: fpu avx2 avx512_bf16\n")
    write(made.proc / "self/cgroup", "0::/job/step\n")
    return made


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(
    places: Places,
    what: str,
    machine: MachineFacts = MACHINE,
    after: CpuTimes = IDLE,
) -> Finding:
    findings = machine_findings(machine, BEFORE, after, places)
    return next(finding for finding in findings if finding.what == what)


def test_a_fit_machine_has_nothing_to_remedy(places: Places) -> None:
    findings = [
        f for f in machine_findings(MACHINE, BEFORE, IDLE, places)
        if f.what not in ("C compiler", "open files")
    ]  # fmt: skip
    assert [f.what for f in findings] == [
        "cores", "other programs", "steal", "steadiness", "free memory", "CPU features",
    ]  # fmt: skip
    assert {f.fitness for f in findings} == {Fitness.FIT}
    assert {f.remedy for f in findings} == {""}
    assert is_fit(findings)


def test_cpu_times_are_sums_over_all_cpus(places: Places) -> None:
    times = cpu_times(places)
    assert times is not None
    assert times.work_s == pytest.approx(1.6)
    assert times.stolen_s == pytest.approx(0.3)
    assert times.all_s == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("work_s", "ours_s", "fitness"),
    [(10.0, 10.0, Fitness.FIT), (10.0, 8.0, Fitness.WARN), (10.0, 1.0, Fitness.UNFIT)],
)
def test_work_of_others_is_told_from_ours(
    places: Places, work_s: float, ours_s: float, fitness: Fitness
) -> None:
    after = CpuTimes(work_s, 0.0, 20.0, ours_s)
    seen = found(places, "other programs", after=after)
    assert seen.fitness is fitness
    assert f"{(work_s - ours_s) / 20:.1%} of all cores' time" in seen.seen
    assert "load average 1.50" in seen.seen


@pytest.mark.parametrize(
    ("stolen_s", "fitness"), [(0.1, Fitness.FIT), (1.0, Fitness.WARN), (3.0, Fitness.UNFIT)]
)
def test_time_that_the_host_gives_to_others_is_seen(
    places: Places, stolen_s: float, fitness: Fitness
) -> None:
    after = replace(IDLE, stolen_s=stolen_s)
    assert found(places, "steal", after=after).fitness is fitness


def test_an_unsteady_machine_is_unfit(places: Places) -> None:
    machine = replace(MACHINE, burn_in_s=(0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08))
    seen = found(places, "steadiness", machine)
    assert seen.fitness is Fitness.UNFIT
    assert seen.remedy


@pytest.mark.parametrize(
    ("kib", "fitness"),
    [(8 * 2**20, Fitness.FIT), (3 * 2**20, Fitness.WARN), (2**20, Fitness.UNFIT)],
)
def test_too_little_memory_is_unfit(places: Places, kib: int, fitness: Fitness) -> None:
    write(places.proc / "meminfo", f"MemAvailable: {kib} kB\n")
    assert found(places, "free memory").fitness is fitness


def test_one_core_is_shared_by_engine_and_client(places: Places) -> None:
    assert found(places, "cores", replace(MACHINE, cores=1)).fitness is Fitness.WARN


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"job/step/cpu.max": "150000 100000\n"}, 1.5),
        ({"job/cpu.max": "100000 100000\n", "job/step/cpu.max": "max 100000\n"}, 1.0),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "nonsense\n"}, None),
    ],
)
def test_the_tightest_quota_of_our_control_groups_counts(
    places: Places, files: dict[str, str], cores: float | None
) -> None:
    for name, text in files.items():
        write(places.cgroup / name, text)
    assert quota_cores(places) == cores


def test_a_quota_below_the_cores_names_the_threads_to_use(places: Places) -> None:
    write(places.cgroup / "cpu.max", "150000 100000\n")
    seen = found(places, "cores")
    assert seen.fitness is Fitness.WARN
    assert "a quota of 1.5" in seen.seen
    assert "--threads 1" in seen.remedy


def test_quotas_of_the_first_version_are_read_too(places: Places) -> None:
    write(places.proc / "self/cgroup", "2:cpu,cpuacct:/job\n4:memory:/job\n0::/\n")
    write(places.cgroup / "cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n")
    write(places.cgroup / "cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    write(places.cgroup / "memory/job/memory.limit_in_bytes", f"{2 * GIB}\n")
    assert quota_cores(places) == 1.0
    assert free_bytes(places) == 2 * GIB


def test_no_limit_of_memory_is_no_bound(places: Places) -> None:
    write(places.cgroup / "memory.max", "max\n")
    assert free_bytes(places) == 8 * GIB


def test_a_cpu_without_bfloat16_is_told_what_to_do(places: Places) -> None:
    write(places.proc / "cpuinfo", "flags\t: fpu avx2\n")
    seen = found(places, "CPU features")
    assert (seen.seen, seen.fitness) == ("avx2", Fitness.WARN)
    assert "--dtype float32" in seen.remedy


def test_what_a_system_does_not_tell_is_left_out(tmp_path: Path) -> None:
    nowhere = Places(tmp_path, tmp_path)
    assert cpu_times(nowhere) is None
    assert quota_cores(nowhere) is None
    whats = [
        f.what for f in machine_findings(replace(MACHINE, burn_in_s=None), None, None, nowhere)
    ]
    assert whats == ["cores", "C compiler", "open files"]


def test_the_processor_time_of_this_process_is_read(places: Places) -> None:
    before = cpu_times(places)
    sum(i * i for i in range(2_000_000))
    after = cpu_times(places)
    assert before is not None
    assert after is not None
    assert after.ours_s > before.ours_s
