"""A trace in commands that measure many times: the same bytes for all engines, and enough of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.commands.measuring import Bench, Work, open_work
from harness.commands.points import bench_at
from harness.core.engine_flags import EngineFlags, KnownEngines
from harness.core.errors import UsageError
from harness.core.load_flags import LoadFlags
from harness.core.plan import RunFlags, RunPlan, plan_run
from harness.core.source import SourceFlags

KNOWN = KnownEngines({"inhouse": ("static", "continuous")}, {})
ROWS = 40


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A trace of texts at times of its own."""
    rows = [{"text": f"What is {k}?", "timestamp": 40 * k, "output_length": 3} for k in range(ROWS)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    """A trace of lengths at times of its own."""
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + "".join(f"2023-11-16 18:17:{k:02}.0000000,{20 + k},4\n" for k in range(ROWS))
    )
    return path


def opened(
    trace: Path, model: Path, load: LoadFlags | None = None, **source: object
) -> tuple[RunPlan, Work]:
    flags = RunFlags(
        str(trace),
        EngineFlags(model=str(model), engines="inhouse", slots=4),
        load or LoadFlags(),
        seed=3,
        source=SourceFlags(**source),  # type: ignore[arg-type]
    )
    return open_work(plan_run(flags, datetime.now(UTC), KNOWN), flags.workload)


def digests(plan: RunPlan, work: Work, *repeats: int) -> list[str]:
    return [work.workload(plan, repeat).digest for repeat in repeats]


def test_texts_are_the_same_bytes_in_every_repeat_and_for_every_side(
    texts: Path, tiny_model: Path
) -> None:
    plan, work = opened(texts, tiny_model)
    first, again, later = digests(plan, work, 0, 0, 1)
    texts.write_text('{"text": "Changed meanwhile.", "timestamp": 0, "output_length": 3}\n')

    assert first == again == later
    assert digests(plan, work, 0, 1) == [first, later], "what a duel began with is what it sends"


def test_lengths_have_other_prompts_in_each_repeat_and_the_same_for_both_sides(
    azure: Path, tiny_model: Path
) -> None:
    plan, work = opened(azure, tiny_model, thin=0.5)
    first, again, later = digests(plan, work, 0, 0, 1)
    shapes = {work.workload(plan, repeat).shape_digest for repeat in range(3)}

    assert first == again != later
    assert len(shapes) == 1, "so the repeats can be held against each other"


def bench_of(plan: RunPlan, work: Work) -> Bench:
    return Bench(plan, work, ("sweep",), "0")


def test_a_load_is_sent_the_first_requests_of_a_trace_and_the_recipe_says_so(
    azure: Path, tiny_model: Path
) -> None:
    rate = LoadFlags(rate_rps=5.0)
    bench = bench_at(bench_of(*opened(azure, tiny_model, rate)), rate, 25)
    sent = bench.work.workload(bench.plan, 0)

    assert [len(a.request.prompt_token_ids) for a in sent.arrivals] == list(range(20, 45))
    assert str(sent.load) == "poisson 5/s"
    assert bench.work.recipe.reading.requests == 25


def test_a_load_that_takes_more_than_a_trace_has_is_refused(azure: Path, tiny_model: Path) -> None:
    rate = LoadFlags(rate_rps=5.0)
    bench = bench_of(*opened(azure, tiny_model, rate))

    with pytest.raises(UsageError, match="poisson 5/s takes 41 requests, and azure has only 40"):
        bench_at(bench, rate, ROWS + 1)


def test_a_mix_is_sent_over_again_instead(tmp_path: Path, tiny_model: Path) -> None:
    plan, work = opened(Path("eight-agents"), tiny_model)
    assert work.available is None
    bench = bench_at(bench_of(replace(plan, folder=tmp_path), work), LoadFlags(rate_rps=1.0), 20)

    assert bench.plan.repeat_mix == 3
