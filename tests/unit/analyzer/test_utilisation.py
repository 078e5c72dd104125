"""Step logs whose truth is known, and what they add up to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyzer.metrics import METRICS
from harness.analyzer.step_metrics import STEP_METRICS
from harness.core.engine import EngineFacts, EngineSample
from harness.core.jsonable import to_json
from harness.core.manifest import Ceilings
from harness.core.rundir import STEPS
from harness.core.units import ms_to_ns

CEILINGS = Ceilings("cpu", 2, 1e9, {"bfloat16": 4e12, "float32": 1e12}, "2030-01-01T00:00:00+00:00")
# Shares that no engine can exceed; MBU and MFU are held against what was reached another time.
BOUNDED = [
    m.name for m in STEP_METRICS if m.unit == "share" and not m.name.endswith(("mbu", "mfu"))
]


def reason(summary: Any, metric: str) -> str | None:
    return next(v.reason for v in summary.values if v.metric == metric)


def prefill_step(build: Any, index: int, **changes: Any) -> Any:
    """10 ms that read a prompt of 100 tokens for 8 ms and nothing else."""
    return build.step(index, 10 * index, **{
        "running": 1, "decode_tokens": 0, "decode_ns": 0, "prefill_ns": ms_to_ns(8),
        "prefill_sequences": 1, "prefill_tokens": 100, "outside_ns": ms_to_ns(2),
        "read_bytes": 1_000_000, "flops": 16_000_000_000, **changes,
    })  # fmt: skip


def decode_step(build: Any, index: int, **changes: Any) -> Any:
    """10 ms that decoded four sequences for 8 ms."""
    return build.step(index, 10 * index, **{
        "outside_ns": ms_to_ns(2), "read_bytes": 6_000_000, "flops": 800_000_000, **changes,
    })  # fmt: skip


def mixed_step(build: Any, index: int, **changes: Any) -> Any:
    """10 ms that read a prompt for 5 ms, in which three sequences stood still, and then decoded."""
    return build.step(index, 10 * index, **{
        "decode_tokens": 3, "prefill_sequences": 1, "prefill_tokens": 60,
        "prefill_ns": ms_to_ns(5), "decode_ns": ms_to_ns(4), "outside_ns": ms_to_ns(1),
        "read_bytes": 4_500_000, "flops": 9_000_000_000, **changes,
    })  # fmt: skip


def of_steps(build: Any, *steps: Any, **changes: Any) -> Any:
    return build.summary([build.record()], steps, **{"ceilings": CEILINGS, **changes})


def test_time_outside_the_model_is_a_share_of_the_steps(build: Any) -> None:
    summary = of_steps(build, prefill_step(build, 0), decode_step(build, 1), mixed_step(build, 2))
    assert summary.value("outside_share") == pytest.approx(5 / 30)


def test_bandwidth_is_what_had_to_be_read_over_what_the_time_in_the_model_allows(
    build: Any,
) -> None:
    summary = of_steps(build, prefill_step(build, 0), decode_step(build, 1), mixed_step(build, 2))
    # 25 ms in the model allow 25 MB at 1 GB/s; the decode step had 8 ms.
    assert summary.value("mbu") == pytest.approx(11.5 / 25)
    assert summary.value("decode_mbu") == pytest.approx(6 / 8)


def test_matrix_throughput_is_held_against_the_dtype_of_the_run(build: Any) -> None:
    steps = prefill_step(build, 0), decode_step(build, 1), mixed_step(build, 2)
    half = of_steps(build, *steps)
    single = of_steps(build, *steps, facts=EngineFacts(dtype="float32"))
    # 25 ms allow 100 billion operations in bfloat16; the step that only read prompts had 8 ms.
    assert half.value("mfu") == pytest.approx(25.8 / 100)
    assert half.value("prefill_mfu") == pytest.approx(16 / 32)
    assert single.value("prefill_mfu") == pytest.approx(16 / 8)


def test_a_step_with_padded_rows_decodes_too(build: Any) -> None:
    padded = decode_step(build, 0, running=0, padded=4, decode_tokens=0)
    summary = of_steps(build, padded)
    assert summary.value("decode_mbu") == pytest.approx(6 / 8)
    assert summary.value("prefill_mfu") is None
    assert reason(summary, "prefill_mfu") == "no step only read prompts"


def test_decoding_stands_still_while_a_prompt_is_read_in_the_same_step(build: Any) -> None:
    longer = mixed_step(build, 3, prefill_ns=ms_to_ns(7), decode_ns=ms_to_ns(2))
    summary = of_steps(
        build, prefill_step(build, 0), decode_step(build, 1), mixed_step(build, 2), longer
    )
    assert summary.value("prefill_stall_share") == pytest.approx(12 / 40)
    assert summary.value("prefill_stall_s_max") == 0.007
    assert summary.value("prefill_stall_s_p99") is None
    assert reason(summary, "prefill_stall_s_p99") == "2 stalls cannot support p99 (368 needed)"


def test_p99_of_the_stalls_is_one_of_them(build: Any) -> None:
    steps = [mixed_step(build, i, prefill_ns=ms_to_ns(1 + i / 100)) for i in range(400)]
    assert of_steps(build, *steps).value("prefill_stall_s_p99") == pytest.approx(0.00495)


def test_without_a_stall_the_share_is_0_and_the_longest_has_a_reason(build: Any) -> None:
    summary = of_steps(build, prefill_step(build, 0), decode_step(build, 1))
    assert summary.value("prefill_stall_share") == 0
    assert reason(summary, "prefill_stall_s_max") == "no step read a prompt while others decoded"


def test_withheld_stalls_do_not_make_a_run_doubtful(build: Any) -> None:
    summary = of_steps(build, mixed_step(build, 0))
    (check,) = (check for check in summary.checks if check.id == "V05")
    assert "stall" not in check.value


def test_kv_room_is_weighed_by_how_long_it_was_held(build: Any) -> None:
    short = {"kv_tokens_stored": 80, "kv_tokens_unfilled": 10, "kv_tokens_over_reserved": 70}
    long = {"kv_tokens_stored": 100, "kv_tokens_unfilled": 20, "kv_tokens_over_reserved": 40}
    summary = of_steps(
        build,
        build.step(0, 0, **short, kv_blocks_stranded=4),
        build.step(1, 10, duration_ns=ms_to_ns(30), **long, kv_blocks_stranded=0),
    )
    assert summary.value("kv_stored_share") == pytest.approx((80 + 300) / 640)
    assert summary.value("kv_unfilled_share") == pytest.approx((10 + 60) / 640)
    assert summary.value("kv_over_reserved_share") == pytest.approx((70 + 120) / 640)
    assert summary.value("kv_stranded_share") == pytest.approx(4 / (16 * 4))


def test_prefix_hits_are_a_share_of_found_and_read(build: Any) -> None:
    summary = of_steps(
        build,
        prefill_step(build, 0, prefix_hit_tokens=0),
        prefill_step(build, 1, prefix_hit_tokens=300),
    )
    assert summary.value("prefix_hit_share") == 300 / 500


def test_a_saturated_step_has_all_slots_at_work_and_somebody_waiting(build: Any) -> None:
    summary = of_steps(
        build,
        build.step(0, 0, running=4, waiting=2),
        build.step(1, 10, running=4, waiting=0),
        build.step(2, 20, running=3, padded=1, waiting=2),
        build.step(3, 30, running=3, waiting=1),
    )
    assert summary.value("saturated_share") == 1 / 4


def test_preemptions_are_counted_by_the_step_log_or_else_by_the_engine(build: Any) -> None:
    logged = of_steps(build, build.step(0, 0, preempted=2), build.step(1, 10, preempted=1))
    assert logged.value("preemptions") == 3
    silent = of_steps(build, build.step())
    assert silent.value("preemptions") is None
    assert reason(silent, "preemptions") == "the engine gave no readings of itself"


def test_without_a_step_log_every_metric_of_it_says_so(build: Any) -> None:
    summary = build.summary([build.record()], ceilings=CEILINGS)
    for metric in STEP_METRICS:
        assert summary.value(metric.name) is None
        assert reason(summary, metric.name) == "the engine wrote no step log"


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("outside_share", "the time outside the model"),
        ("mbu", "how much a step has to read"),
        ("mfu", "how much a step has to compute"),
        ("kv_stored_share", "what the KV blocks hold"),
        ("kv_stranded_share", "which KV blocks are stranded"),
        ("prefix_hit_share", "what was found in the prefix cache"),
    ],
)
def test_what_one_step_does_not_say_is_not_measured(build: Any, metric: str, said: str) -> None:
    whole = {
        "kv_tokens_stored": 1, "kv_tokens_unfilled": 1, "kv_tokens_over_reserved": 1,
        "kv_blocks_stranded": 0, "prefix_hit_tokens": 1,
    }  # fmt: skip
    full = of_steps(build, decode_step(build, 0, **whole))
    partly = of_steps(build, decode_step(build, 0, **whole), build.step(1, 10))
    assert full.value(metric) is not None
    assert partly.value(metric) is None
    assert reason(partly, metric) == f"the engine's step log does not say {said}"


def test_without_ceilings_what_is_reached_is_not_known(build: Any) -> None:
    summary = of_steps(build, decode_step(build, 0), ceilings=None)
    for metric in ("mbu", "decode_mbu", "mfu", "prefill_mfu"):
        assert "`batchmark doctor` measures them" in (reason(summary, metric) or "")


def test_a_dtype_without_a_ceiling_is_told(build: Any) -> None:
    summary = of_steps(build, decode_step(build, 0), facts=EngineFacts(dtype="int8"))
    assert reason(summary, "mfu") == "no ceiling of int8 products was measured"
    assert summary.value("mbu") is not None


def test_an_old_step_log_is_read_and_its_missing_fields_are_not_said(
    build: Any, tmp_path: Any
) -> None:
    from harness.analyzer.reading import read_run

    folder = build.folder(tmp_path / "run", build.run([build.record()], [build.step()]))
    row = {k: v for k, v in to_json(build.step()).items() if v is not None}
    assert "outside_ns" not in row
    (folder / STEPS).write_text(json.dumps(row) + "\n")
    run = read_run(folder)
    assert run.cautions == ()
    assert run.steps == (build.step(),)


COUNTS = st.integers(0, 1000)


@st.composite
def any_step(draw: Any) -> dict[str, int]:
    slots = draw(st.integers(1, 8))
    running = draw(st.integers(0, slots))
    prefills = draw(st.integers(0, running))
    total = draw(st.integers(1, 64))
    used = draw(st.integers(0, total))
    duration_ns = draw(st.integers(1, 10**9))
    prefill_ns = draw(st.integers(0, duration_ns)) if prefills else 0
    decode_ns = draw(st.integers(0, duration_ns - prefill_ns)) if running > prefills else 0
    stored = draw(st.integers(0, 16 * used))
    unfilled = draw(st.integers(0, 16 * used - stored))
    return {
        "slots": slots, "running": running, "padded": draw(st.integers(0, slots - running)),
        "waiting": draw(COUNTS), "kv_blocks_used": used, "kv_blocks_total": total,
        "prefill_sequences": prefills, "prefill_tokens": draw(COUNTS) if prefills else 0,
        "decode_tokens": running - prefills, "duration_ns": duration_ns,
        "prefill_ns": prefill_ns, "decode_ns": decode_ns,
        "outside_ns": duration_ns - prefill_ns - decode_ns,
        "kv_tokens_stored": stored, "kv_tokens_unfilled": unfilled,
        "kv_tokens_over_reserved": 16 * used - stored - unfilled,
        "kv_blocks_stranded": draw(st.integers(0, total - used)),
        "preempted": draw(COUNTS), "prefix_hit_tokens": draw(COUNTS),
        "read_bytes": draw(COUNTS), "flops": draw(COUNTS),
    }  # fmt: skip


@given(steps=st.lists(any_step(), min_size=1, max_size=8))
def test_shares_lie_between_0_and_1_and_those_of_the_kv_room_are_all_of_it(
    build: Any, steps: list[dict[str, int]]
) -> None:
    summary = of_steps(build, *(build.step(i, 1000 * i, **step) for i, step in enumerate(steps)))
    for name in BOUNDED:
        value = summary.value(name)
        assert value is None or 0 <= value <= 1 + 1e-12, name
    room = [summary.value(f"kv_{part}_share") for part in ("stored", "unfilled", "over_reserved")]
    if None not in room:
        assert sum(share for share in room if share is not None) == pytest.approx(1)
    assert (summary.value("mbu") or 0) >= 0


def test_the_step_metrics_are_a_part_of_the_one_table() -> None:
    names = [metric.name for metric in METRICS]
    assert [n for n in names if n in {m.name for m in STEP_METRICS}] == [
        m.name for m in STEP_METRICS
    ]
    assert all(metric.is_of_steps for metric in STEP_METRICS)


def test_the_engines_own_count_still_serves_where_steps_are_not_logged(build: Any) -> None:
    from dataclasses import replace

    from harness.analyzer.summarize import summarize

    run = build.run([build.record(0, (100, 110))])
    samples = (
        EngineSample(-1, preemptions_total=3.0),
        EngineSample(ms_to_ns(500), preemptions_total=5.0),
    )
    assert summarize(replace(run, samples=samples)).value("preemptions") == 2
