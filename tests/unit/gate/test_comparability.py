from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.errors import ExitCode, NotComparable
from harness.core.manifest import Ceilings, ClientFacts, RunManifest
from harness.core.workload import Load, LoadKind
from harness.gate.comparability import differences, require_comparable


@pytest.fixture(scope="module")
def base(build: Any) -> RunManifest:
    return build.manifest()


def with_engine(manifest: RunManifest, **changes: Any) -> RunManifest:
    return replace(manifest, engine=replace(manifest.engine, **changes))


def with_facts(manifest: RunManifest, **changes: Any) -> RunManifest:
    return replace(manifest, facts=replace(manifest.facts, **changes))


def with_machine(manifest: RunManifest, **changes: Any) -> RunManifest:
    return replace(manifest, machine=replace(manifest.machine, **changes))


def with_workload(manifest: RunManifest, **changes: Any) -> RunManifest:
    return replace(manifest, workload=replace(manifest.workload, **changes))


def refusals(a: RunManifest, b: RunManifest) -> list[str]:
    return [str(difference) for difference in differences(a, b).refusals]


def factors(a: RunManifest, b: RunManifest) -> list[str]:
    return [difference.factor for difference in differences(a, b).factors]


def codes(a: RunManifest, b: RunManifest) -> list[str]:
    return [caution.code for caution in differences(a, b).cautions]


def test_a_run_is_comparable_with_itself(base: RunManifest) -> None:
    found = require_comparable(base, base)
    assert (found.refusals, found.factors, found.cautions) == ((), (), ())


def test_ceilings_that_were_measured_meanwhile_make_no_difference(base: RunManifest) -> None:
    ceilings = Ceilings("cpu", 2, 36e9, {"bfloat16": 2e12}, "2030-01-01")
    found = require_comparable(base, replace(base, ceilings=ceilings))
    assert (found.refusals, found.factors, found.cautions) == ((), (), ())


def test_another_shape_is_refused_by_its_title(base: RunManifest) -> None:
    other = with_workload(
        base, title="eight-agents x2 backlog", shape_digest="6" * 64, requests=16, repeat_mix=2
    )
    expected = (
        "workload shape: eight-agents x4 backlog (baseline) / eight-agents x2 backlog (candidate)"
    )
    assert refusals(base, other) == [expected]


def test_another_shape_of_the_same_title_is_refused_by_its_digest(base: RunManifest) -> None:
    other = with_workload(base, shape_digest="6" * 64)
    assert refusals(base, other) == [
        "workload shape: eight-agents x4 backlog [55555555] (baseline) / "
        "eight-agents x4 backlog [66666666] (candidate)"
    ]


def test_another_load_is_refused_once(base: RunManifest) -> None:
    other = with_workload(base, load=Load(LoadKind.CLOSED, concurrency=8), shape_digest="6" * 64)
    assert refusals(base, other) == ["load: backlog (baseline) / closed loop 8 (candidate)"]


def test_another_load_does_not_hide_another_size(base: RunManifest) -> None:
    load = Load(LoadKind.CLOSED, concurrency=8)
    other = with_workload(base, load=load, shape_digest="6" * 64, requests=16)
    assert refusals(base, other) == [
        "load: backlog (baseline) / closed loop 8 (candidate)",
        "workload requests: 32 (baseline) / 16 (candidate)",
    ]


def test_another_workload_is_refused(base: RunManifest) -> None:
    other = with_workload(base, name="chat", shape_digest="6" * 64)
    assert refusals(base, other) == ["workload: eight-agents (baseline) / chat (candidate)"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cpu_model": "Intel Xeon"}, "CPU: AMD EPYC (baseline) / Intel Xeon (candidate)"),
        ({"cores": 4}, "cores: 2 (baseline) / 4 (candidate)"),
        ({"gpus": ("H200",)}, "GPUs: none (baseline) / H200 (candidate)"),
        ({"memory_gib": 9}, "memory: 8 GiB (baseline) / 9 GiB (candidate)"),
    ],
)
def test_another_machine_is_refused(
    base: RunManifest, changes: dict[str, Any], expected: str
) -> None:
    other = with_machine(base, **changes)
    if "cores" in changes:
        base = with_engine(base, threads=2)
        other = with_engine(other, threads=2)
    assert refusals(base, other) == [expected]


def test_memory_may_differ_by_five_percent(base: RunManifest) -> None:
    large, larger = (with_machine(base, memory_gib=gib) for gib in (95, 100))
    assert refusals(large, larger) == refusals(larger, large) == []
    assert refusals(large, with_machine(base, memory_gib=101)) != []


def test_the_operating_system_is_only_recorded(base: RunManifest) -> None:
    assert refusals(base, with_machine(base, os="Linux 9", python="3.12")) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"clock": "virtual"}, "clock: monotonic (baseline) / virtual (candidate)"),
        ({"schema_version": 2}, "format version: 1 (baseline) / 2 (candidate)"),
    ],
)
def test_another_kind_of_run_is_refused(
    base: RunManifest, changes: dict[str, Any], expected: str
) -> None:
    assert refusals(base, replace(base, **changes)) == [expected]


def test_models_are_told_apart_by_digest_and_else_by_name(base: RunManifest) -> None:
    other_bytes = with_facts(base, model_digest="b" * 64)
    assert refusals(base, other_bytes) == [
        "model: SmolLM2-135M [aaaaaaaa] (baseline) / SmolLM2-135M [bbbbbbbb] (candidate)"
    ]
    assert refusals(base, with_facts(base, model="renamed")) == []
    unknown = with_facts(base, model_digest=None, model="Qwen3-0.6B")
    assert refusals(base, unknown) == ["model: SmolLM2-135M (baseline) / Qwen3-0.6B (candidate)"]


def test_the_same_model_in_another_format_is_a_factor(base: RunManifest) -> None:
    other = with_facts(base, weights="gguf", model_digest="b" * 64)
    assert refusals(base, other) == []
    assert factors(base, other) == ["weights: safetensors / gguf"]


def test_another_dtype_is_refused(base: RunManifest) -> None:
    assert refusals(base, with_facts(base, dtype="float32")) == [
        "dtype: bfloat16 (baseline) / float32 (candidate)"
    ]


def test_the_dtype_that_was_asked_for_stands_in_for_an_unknown_one(base: RunManifest) -> None:
    assert refusals(base, with_facts(base, dtype=None)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"policy": "continuous"}, "policy: static / continuous"),
        ({"slots": 4}, "slots: 8 / 4"),
        ({"pad_prompts": False}, "pad_prompts: True / False"),
        ({"threads": 1}, "threads: 2 / 1"),
        ({"batch_window_ms": 50.0}, "batch_window_ms: none / 50.0"),
        (
            {"kind": "llama_cpp", "policy": None, "pad_prompts": False},
            "engine: inhouse / llama_cpp",
        ),
    ],
)
def test_one_factor_may_differ(base: RunManifest, changes: dict[str, Any], expected: str) -> None:
    other = with_engine(base, **changes)
    assert refusals(base, other) == []
    assert factors(base, other) == [expected]
    assert codes(base, other) == []


def test_all_cores_by_default_is_no_difference(base: RunManifest) -> None:
    assert factors(base, with_engine(base, threads=2)) == []


def test_names_and_ports_are_no_factors(base: RunManifest) -> None:
    assert factors(base, with_engine(base, name="other", port=8000)) == []


def test_version_and_context_are_factors_when_both_are_known(base: RunManifest) -> None:
    base = with_facts(base, context_tokens=2048)
    assert factors(base, with_facts(base, version="0.2.0")) == ["engine version: 0.1.0 / 0.2.0"]
    assert factors(base, with_facts(base, version=None, context_tokens=None)) == []
    assert factors(base, with_facts(base, context_tokens=4096)) == ["context: 2048 / 4096"]


def test_a_window_that_one_policy_alone_has_is_part_of_it(base: RunManifest) -> None:
    static = with_engine(base, policy="static")
    dynamic = with_engine(base, policy="dynamic", batch_window_ms=50.0)
    assert factors(static, dynamic) == ["policy: static / dynamic"]
    assert codes(static, dynamic) == []


def test_a_window_that_both_policies_have_is_a_factor_of_its_own(base: RunManifest) -> None:
    static = with_engine(base, policy="static", batch_window_ms=20.0)
    dynamic = with_engine(base, policy="dynamic", batch_window_ms=50.0)
    assert factors(static, dynamic) == [
        "policy: static / dynamic",
        "batch_window_ms: 20.0 / 50.0",
    ]
    assert codes(static, dynamic) == ["MORE_THAN_ONE_FACTOR"]


def test_more_than_one_factor_is_a_caution_that_lists_them(base: RunManifest) -> None:
    other = with_engine(base, policy="continuous", slots=4)
    (doubt,) = differences(base, other).cautions
    assert doubt.message.endswith("policy: static / continuous, slots: 8 / 4")


def test_another_seed_is_a_caution(base: RunManifest) -> None:
    other = with_workload(base, seed=2, digest="e" * 64)
    (doubt,) = differences(base, other).cautions
    assert doubt.code == "DIFFERENT_PROMPTS"
    assert "seeds 1 and 2" in doubt.message
    assert refusals(base, other) == []


def test_refusing_lists_every_difference_and_means_exit_4(base: RunManifest) -> None:
    other = with_machine(with_facts(base, dtype="float32"), cpu_model="Intel Xeon")
    with pytest.raises(NotComparable) as caught:
        require_comparable(base, replace(other, run_id="run-2"))
    assert caught.value.exit_code is ExitCode.INVALID
    assert str(caught.value) == (
        "run-1 and run-2 are not alike: dtype: bfloat16 (baseline) / float32 (candidate); "
        "CPU: AMD EPYC (baseline) / Intel Xeon (candidate); "
        "measure both sides with the same model, workload and machine, or say that it may differ, of "
        "--allow dtype --allow cpu"
    )


def settled(manifest: RunManifest, **settings: Any) -> RunManifest:
    return with_facts(manifest, settings=settings)


def test_resolved_settings_are_factors_between_runs_of_one_kind(base: RunManifest) -> None:
    one = settled(base, batched_tokens=512, prefix_cache=False, speculative=None)
    other = settled(base, batched_tokens=2048, prefix_cache=True, speculative="ngram")

    assert factors(one, other) == ["batched_tokens: 512 / 2048", "prefix_cache: False / True"]
    assert codes(one, other) == ["MORE_THAN_ONE_FACTOR"]


def test_what_the_engine_says_goes_before_what_was_asked_for(base: RunManifest) -> None:
    asked = with_engine(base, slots=8)
    assert factors(settled(asked, slots=4), settled(asked, slots=8)) == ["slots: 4 / 8"]
    assert factors(settled(with_engine(base, slots=16), slots=8), asked) == []


def test_what_was_asked_for_counts_where_the_engine_says_nothing(base: RunManifest) -> None:
    assert factors(base, with_engine(base, prefix_cache=True)) == ["prefix_cache: False / True"]
    assert factors(base, with_engine(base, args=("--x",))) == ["arguments: none / --x"]
    assert factors(base, with_engine(base, image="i:1")) == ["image: none / i:1"]
    assert len(factors(base, with_engine(base, env={"A": "1"}))) == 1


def test_a_kv_cache_sized_by_the_memory_found_may_differ_a_little(base: RunManifest) -> None:
    one = settled(base, kv_tokens=93_184)
    assert factors(one, settled(base, kv_tokens=93_000)) == []
    assert factors(one, settled(base, kv_tokens=80_000)) == ["kv_tokens: 93184 / 80000"]


def test_unlike_settings_of_two_kinds_are_one_caution(base: RunManifest) -> None:
    one = settled(base, batched_tokens=512, prefix_cache=False, slots=8)
    other = settled(
        with_engine(base, kind="vllm", policy=None), batched_tokens=2048, prefix_cache=True, slots=8
    )
    (doubt,) = differences(one, other).cautions

    assert factors(one, other) == ["engine: inhouse / vllm"]
    assert doubt.code == "SETTINGS_NOT_ALIKE"
    assert doubt.message.endswith("batched_tokens: 512 / 2048, prefix_cache: False / True")


def test_settings_of_a_server_of_somebody_else_are_not_taken_from_our_flags(
    base: RunManifest,
) -> None:
    there = with_engine(base, attach_url="http://h:1", slots=3, threads=7)
    there = with_facts(there, dtype=None)
    (doubt,) = differences(base, there).cautions

    assert factors(base, there) == []
    assert doubt.code == "SETTINGS_NOT_KNOWN"
    assert doubt.message.endswith("slots, prefix_cache, dtype")


def test_a_setting_that_cannot_be_told_to_an_engine_is_not_known(base: RunManifest) -> None:
    other = settled(with_engine(base, kind="transformers", policy=None), slots=None, threads=None)
    (doubt,) = differences(settled(base, slots=8), other).cautions

    assert (doubt.code, doubt.message[-5:]) == ("SETTINGS_NOT_KNOWN", "slots")


def test_launches_that_differ_in_nothing_else_are_told_apart_by_their_fingerprints(
    base: RunManifest,
) -> None:
    one, other = (replace(base, labels={"launch": mark * 64}) for mark in "ab")

    assert factors(one, one) == []
    assert factors(one, base) == []
    assert factors(one, other) == ["launch: inhouse [aaaaaaaa] / inhouse [bbbbbbbb]"]
    assert factors(one, with_engine(other, slots=4)) == ["slots: 8 / 4"]


def test_runs_of_two_versions_of_batchmark_are_refused(base: RunManifest) -> None:
    assert refusals(base, replace(base, tool_version="0.2.0")) == [
        "batchmark version: 0.1.0 (baseline) / 0.2.0 (candidate)"
    ]


def test_another_warm_up_is_refused_unless_it_follows_from_other_slots(base: RunManifest) -> None:
    other = replace(base, warmup_requests=9)
    assert refusals(base, other) == ["warm-up: 2 (baseline) / 9 (candidate)"]
    assert refusals(base, with_engine(other, slots=4)) == []


def test_what_is_around_the_two_sides_is_one_caution(base: RunManifest) -> None:
    (doubt,) = differences(base, with_machine(base, os="Linux 9", python="3.12")).cautions
    assert doubt.code == "SURROUNDINGS_DIFFER"
    assert doubt.message.endswith("system: Linux / Linux 9, Python: 3.11 / 3.12")


def test_a_client_that_read_otherwise_is_doubted(base: RunManifest) -> None:
    one = ClientFacts(1, 0.1, 0.0, 9, 1.0, 1.0, reads_by="compiled")
    other = replace(one, workers=2, reads_by="asyncio")
    (doubt,) = differences(replace(base, client=one), replace(base, client=other)).cautions
    assert doubt.message.endswith("sending processes: 1 / 2, sockets read by: compiled / asyncio")


def test_an_allowed_key_is_neither_refused_nor_a_factor(base: RunManifest) -> None:
    other = with_engine(with_machine(base, cpu_model="Intel Xeon"), policy="continuous", slots=4)
    found = require_comparable(base, other, ("cpu", "slots", "cores"), one_factor=True)

    assert (found.refusals, found.cautions) == ((), ())
    assert [d.factor for d in found.factors] == ["policy: static / continuous"]
    assert [d.key for d in found.allowed] == ["cpu", "slots"]


def test_a_second_factor_is_refused_where_nobody_named_both_sides_together(
    base: RunManifest,
) -> None:
    other = with_engine(base, policy="continuous", slots=4)

    assert require_comparable(base, other).refusals == ()
    with pytest.raises(NotComparable) as caught:
        require_comparable(base, other, one_factor=True)
    assert str(caught.value) == (
        "run-1 and run-1 are not alike: policy: static (baseline) / continuous (candidate); "
        "slots: 8 (baseline) / 4 (candidate); "
        "let one factor differ, or say that it may differ, of --allow policy --allow slots"
    )
