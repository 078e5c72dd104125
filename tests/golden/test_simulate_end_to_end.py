"""`batchmark simulate` through the program: costs that are told, fitted to a run, or kept in a file.

The run is made by hand: what an engine of known costs would have logged, on a machine that now and
then holds a step up. So the truth that a fitted simulation has to meet is known.
"""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.scheduling.policies import make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.figures import SimulatedFigures, figures
from engines.simulator.simulate import SimulatedRequest, Simulation, simulate
from harness.core.engine import EngineSpec
from harness.core.record import StepRecord
from workloads.catalog import load_spec

TRUTH = CostModel(
    step_fixed_ns=700_000,
    prefill_token_ns=500_000,
    prefill_pass_ns=20_000_000,
    prefill_context_token_ns=200,
    decode_pass_ns=9_000_000,
    decode_row_ns=800_000,
    decode_context_token_ns=2_000,
)
MIX = tuple(
    SimulatedRequest(r.label, r.prompt_tokens, r.output_tokens)
    for r in load_spec("eight-agents").requests
)
INHOUSE = EngineSpec("inhouse", "inhouse-continuous", "smollm2", policy="continuous")


def truth(policy: str, mixes: int = 4) -> Simulation:
    """A backlog that comes in over HTTP, at a request a millisecond."""
    limits = Limits(8, kv_blocks=8 * 94, pad_prompts=True)
    requests = [replace(r, due_ns=i * 1_000_000) for i, r in enumerate(MIX * mixes)]
    return simulate(requests, make_policy(policy), limits, TRUTH)


def disturbed(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """`steps` with 3 % of noise; one in twenty takes up to five times as long."""
    rng, late_ns, logged = random.Random(4), 0, []
    for step in steps:
        longer = [
            round(ns * rng.gauss(1, 0.03) * (rng.uniform(1.5, 5) if rng.random() < 0.05 else 1))
            for ns in (step.prefill_ns, step.decode_ns)
        ]
        more_ns = sum(longer) - step.prefill_ns - step.decode_ns
        logged.append(
            replace(
                step,
                started_ns=step.started_ns + late_ns,
                duration_ns=step.duration_ns + more_ns,
                prefill_ns=longer[0],
                decode_ns=longer[1],
            )
        )
        late_ns += more_ns
    return logged


@pytest.fixture
def folder(build: Any, tmp_path: Path) -> Path:
    """A folder with the step log of continuous batching in `job`, and without a log in `bare`."""
    build.folder(
        tmp_path / "job", build.run((), disturbed(truth("continuous").steps), engine=INHOUSE)
    )
    build.folder(tmp_path / "bare", build.run(()))
    return tmp_path


def batchmark(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", "simulate", "eight-agents", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def printed(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def assert_close(found: dict[str, float], known: SimulatedFigures, share: float) -> None:
    for name in ("output_tok_s", "ttft_ms_p50", "tpot_ms_mean"):
        assert found[name] == pytest.approx(getattr(known, name), rel=share), name


def test_a_policy_that_never_ran_is_predicted_from_a_run_of_another(folder: Path) -> None:
    said = printed(batchmark(folder, "--repeat-mix", "4", "--calibrate", "job", "--json"))

    assert_close(said["policies"]["continuous"], figures(truth("continuous")), 0.05)
    assert_close(said["policies"]["static"], figures(truth("static")), 0.05)
    assert said["calibration"]["cost"]["step_fixed_ns"] == pytest.approx(700_000, abs=2)
    assert said["calibration"]["decode"]["held_out_miss_median"] < 0.05
    assert said["calibration"]["source"].startswith("job (SmolLM2-135M bf16, 2-core AMD EPYC")
    assert {c["code"] for c in said["cautions"]} <= {"COST_LEAVES_TIME_OUT"}


def test_the_costs_are_printed_with_their_units_and_how_well_they_fit(folder: Path) -> None:
    result = batchmark(folder, "--repeat-mix", "4", "--calibrate", "job")

    assert result.returncode == 0, result.stderr
    rows = dict(line.strip().rsplit("  ", 1) for line in result.stdout.splitlines() if "  " in line)
    costs = {title.strip(): takes.strip() for title, takes in rows.items()}
    assert costs["each step, outside the model"] == "700 µs"
    assert costs["each context token of a decode row"].endswith(" µs")
    assert costs["each prefill pass"].endswith(" ms")
    assert "held-out miss" in result.stdout
    assert "TTFT p50" in result.stdout
    assert "8 slots, costs fitted to job, virtual time" in result.stdout.splitlines()[-1]


def test_costs_that_were_kept_give_the_same_figures(folder: Path) -> None:
    fitted = printed(
        batchmark(folder, "--backlog", "--calibrate", "job", "--save-cost", "c.json", "--json")
    )
    kept = printed(batchmark(folder, "--backlog", "--cost", "c.json", "--json"))

    assert kept == fitted
    again = batchmark(folder, "--calibrate", "job", "--save-cost", "c.json")
    assert again.returncode == 2
    assert "c.json exists already" in again.stderr


def test_a_run_of_equal_batches_says_what_it_cannot_tell_apart(build: Any, tmp_path: Path) -> None:
    build.folder(tmp_path / "job", build.run((), truth("static").steps, engine=INHOUSE))

    result = batchmark(tmp_path, "--calibrate", "job")

    assert result.returncode == 0, result.stderr
    assert result.stdout.count("caution COST_NOT_TOLD_APART") == 3
    assert "caution BEYOND_CALIBRATION" in result.stdout


def test_steps_of_the_warm_up_are_left_out(build: Any, tmp_path: Path) -> None:
    steps = truth("continuous").steps
    start_ns = steps[-1].started_ns
    slow = [replace(step, decode_ns=step.decode_ns * 9) for step in steps]
    again = [replace(s, started_ns=s.started_ns + start_ns, index=s.index + 600) for s in steps]
    run = build.run((), (*slow[:-1], *again), engine=INHOUSE, start_ns=start_ns)
    build.folder(tmp_path / "job", run)

    said = printed(batchmark(tmp_path, "--calibrate", "job", "--json"))

    assert said["calibration"]["cost"]["decode_pass_ns"] == pytest.approx(9_000_000, rel=1e-3)


def test_a_closed_loop_sends_the_next_request_when_one_has_ended(folder: Path) -> None:
    said = printed(
        batchmark(folder, "--concurrency", "4", "--slots", "4", "--repeat-mix", "2", "--json")
    )

    seen = said["policies"]["continuous"]
    assert seen["requests_completed"] == 16
    # A slot stays empty for the step that runs while the client sends its next request.
    assert 25 <= seen["ttft_ms_mean"] < 50
    assert seen["tpot_ms_mean"] == pytest.approx(25)


def test_the_schedulers_switches_change_the_steps(folder: Path) -> None:
    plain = printed(batchmark(folder, "--repeat-mix", "1", "--json"))
    chunked = printed(
        batchmark(
            folder, "--repeat-mix", "1", "--batched-tokens", "256", "--chunked-prefill", "--json"
        )
    )
    tight = ("--repeat-mix", "1", "--kv-tokens", "4096", "--json")
    sure = printed(batchmark(folder, *tight))
    bold = printed(batchmark(folder, *tight, "--capacity", "max_utilization"))

    steps = [said["policies"]["continuous"]["steps"] for said in (plain, chunked, sure)]
    assert steps[0] < steps[1]
    assert steps[0] < steps[2]
    assert sure["policies"]["continuous"]["preemptions"] == 0
    assert bold["policies"]["continuous"]["preemptions"] > 0


REFUSED = [
    (("--calibrate", "bare"), ("0 steps that read prompts", "4 and 20 needed", "--repeat-mix")),
    (("--calibrate", "old"), ("does not say how many tokens of context", "repeat the run")),
    (("--calibrate", "nowhere"), ("nowhere is not a run folder",)),
    (("--calibrate", "job", "--calibrate", "other"), ("one engine on one machine", "SmolLM2-360M")),
    (("--calibrate", "job", "--step-ms", "25"), ("give only one of", "--step-ms")),
    (("--calibrate", "job", "--cost", "c.json"), ("give only one of", "--cost")),
    (("--save-cost", "c.json"), ("--save-cost", "add --calibrate RUN")),
    (("--cost", "nowhere.json"), ("cannot read costs from nowhere.json", "--save-cost")),
    (("--cost", "job/manifest.json"), ("cannot read costs from job/manifest.json", "unknown key")),
    (("--kv", "virtual"), ("'virtual'", "paged, reserved")),
    (("--chunked-prefill",), ("chunked_prefill",)),
    (("--kv-tokens", "100"), ("--kv-tokens is 100", "1500")),
    (("--concurrency", "0"), ("--concurrency is 0",)),
    (("--concurrency", "4", "--rate", "1"), ("--concurrency", "--rate")),
    (("--concurrency", "4", "--repeat-mix", "2"), ("4 in flight never fill a static batch of 8",)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "parts"), REFUSED, ids=[" ".join(w) for w, _ in REFUSED])
def test_what_cannot_be_simulated_is_one_line_that_says_why(
    build: Any, folder: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    old = [replace(s, decode_context_tokens=None) for s in truth("continuous").steps]
    build.folder(folder / "old", build.run((), old, engine=INHOUSE))
    facts = replace(build.manifest().facts, model="SmolLM2-360M")
    build.folder(folder / "other", build.run((), (), engine=INHOUSE, facts=facts))

    result = batchmark(folder, *words)

    assert result.returncode == 2, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    for part in parts:
        assert part in result.stderr
