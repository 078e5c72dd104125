"""What each adapter launches: its words, what it cannot be told, and when two launches are alike."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from engines.knobs import KNOBS
from engines.registry import known_engines, open_engine
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSpec, LaunchPlan
from harness.core.errors import UsageError
from harness.core.fingerprint import fingerprint

FOLDER = Path("runs/x/e")
KINDS = [engine.kind for engine in known_engines()]
LAUNCHED = [kind for kind in KINDS if kind != "openai"]
CONTAINED = ["vllm", "tgi", "tensorrt-llm", "sglang", "llama-cpp"]
# Every field, turned away from its default. A policy is one that the kind has.
TURNED: dict[str, Any] = {
    "model": "org/other",
    "slots": 5,
    "dtype": "float16",
    "threads": 3,
    "pad_prompts": False,
    "batch_window_ms": 7.5,
    "context_tokens": 4096,
    "batched_tokens": 1024,
    "kv_tokens": 65536,
    "chunked_prefill": False,
    "prefix_cache": True,
    "speculative": "3",
    "served_name": "other",
    "args": ("--more",),
    "env": {"MORE": "1"},
    "program": "elsewhere",
}
POLICIES = {"inhouse": "static", "tensorrt-llm": "STATIC_BATCH"}
# What says nothing of how the server behaves: labels, addresses, and where its counters are read.
NEUTRAL = {"name": "other", "port": 9, "metrics_url": "http://h/m", "api_key_env": "OTHER_KEY"}


def plan_of(kind: str, folder: Path = FOLDER, **changes: Any) -> LaunchPlan:
    spec = EngineSpec(kind=kind, name=kind, **{"model": "org/m", "port": 8123, **changes})
    return open_engine(spec, folder, VirtualClock()).plan


def print_of(kind: str, folder: Path = FOLDER, **changes: Any) -> str:
    return fingerprint(plan_of(kind, folder, **changes), folder)


WORDS = {
    "inhouse": (
        "-m harness.cli serve --model org/m --port 8123 --until-stdin-closes "
        "--step-log runs/x/e/steps.jsonl --slots 8 --dtype bfloat16 --pad-prompts"
    ),
    "vllm": (
        "serve org/m --host 127.0.0.1 --port 8123 --generation-config vllm --seed 0 "
        "--disable-uvicorn-access-log --enable-prompt-tokens-details --max-num-seqs 8 "
        "--dtype bfloat16 --no-enable-prefix-caching"
    ),
    "tgi": (
        "--model-id org/m --hostname 127.0.0.1 --port 8123 --max-concurrent-requests 100000 "
        "--usage-stats off --max-batch-size 8 --dtype bfloat16"
    ),
    "tensorrt-llm": (
        "org/m --host 127.0.0.1 --port 8123 --backend pytorch "
        "--extra_llm_api_options runs/x/e/tensorrt-llm.yaml --max_batch_size 8"
    ),
    "sglang": (
        "serve --model-path org/m --host 127.0.0.1 --port 8123 --random-seed 0 "
        "--sampling-defaults openai --enable-metrics --log-level-http warning "
        "--max-running-requests 8 --dtype bfloat16 --disable-radix-cache"
    ),
    "llama-cpp": (
        "--model org/m --host 127.0.0.1 --port 8123 --no-kv-unified --fit off --metrics --no-ui "
        "--seed 0 --offline --parallel 8 --no-cache-prompt --cache-ram 0"
    ),
    "transformers": (
        "serve org/m --host 127.0.0.1 --port 8123 --continuous-batching --default-seed 0 "
        "--dtype bfloat16"
    ),
}


@pytest.mark.parametrize("kind", WORDS)
def test_the_plan_says_all_that_an_engine_is_told(kind: str) -> None:
    assert " ".join(plan_of(kind).argv[1:]) == WORDS[kind]


@pytest.mark.parametrize("kind", WORDS)
def test_the_prefix_cache_is_off_by_the_engines_own_flag_or_that_is_told(kind: str) -> None:
    off, on = plan_of(kind), plan_of(kind, prefix_cache=True)

    if kind == "transformers":
        assert "prefix_cache" in off.unsupported
    else:
        assert (off.argv, off.env, off.files) != (on.argv, on.env, on.files)
        assert "prefix_cache" in off.applied


@pytest.mark.parametrize("kind", LAUNCHED)
@pytest.mark.parametrize("knob", [knob for knob in KNOBS if knob != "policy"])
def test_a_knob_that_was_turned_is_applied_or_said_to_have_no_effect(kind: str, knob: str) -> None:
    plan = plan_of(kind, **{knob: TURNED[knob]})

    assert (knob in plan.applied) != (knob in plan.unsupported)


@pytest.mark.parametrize("kind", LAUNCHED)
@pytest.mark.parametrize("field", [*TURNED, "policy"])
def test_whatever_is_turned_changes_the_fingerprint_or_is_said_to_have_no_effect(
    kind: str, field: str
) -> None:
    if field == "policy" and kind not in POLICIES:
        with pytest.raises(UsageError, match="has no batching policies"):
            plan_of(kind, policy="static")
        return
    value = POLICIES[kind] if field == "policy" else TURNED[field]
    turned, as_it_was = plan_of(kind, **{field: value}), plan_of(kind)
    has_no_effect = field in turned.unsupported or field in as_it_was.unsupported

    assert (print_of(kind, **{field: value}) == print_of(kind)) is has_no_effect


def test_every_field_of_a_spec_is_turned_or_neutral() -> None:
    others = {"kind", "policy", "attach_url", "image"}

    assert {f.name for f in fields(EngineSpec)} == {*TURNED, *NEUTRAL, *others}


@pytest.mark.parametrize("kind", LAUNCHED)
def test_labels_and_addresses_do_not_change_the_fingerprint(kind: str) -> None:
    spec = EngineSpec(kind=kind, name=kind, model="org/m", port=8123, api_key_env="OUR_KEY")
    plans = [
        (open_engine(replace(spec, **{field: value}), FOLDER, VirtualClock()).plan, FOLDER)
        for field, value in NEUTRAL.items()
    ]
    elsewhere = Path("runs/y/e")
    plans.append((open_engine(spec, elsewhere, VirtualClock()).plan, elsewhere))

    assert len({fingerprint(plan, folder) for plan, folder in plans}) == 1


@pytest.mark.parametrize("kind", LAUNCHED)
def test_two_launches_of_one_plan_have_one_fingerprint_whatever_port_was_free(kind: str) -> None:
    assert print_of(kind, port=None) == print_of(kind, port=None)


@pytest.mark.parametrize("kind", CONTAINED)
def test_a_containers_launches_have_one_fingerprint_too_and_another_for_another_image(
    kind: str,
) -> None:
    first = print_of(kind, port=None, image="img:1", program="docker")

    assert print_of(kind, Path("runs/y/e"), port=None, image="img:1", program="docker") == first
    assert print_of(kind, port=None, image="img:2", program="docker") != first


def test_a_port_that_is_a_number_of_something_else_too_is_told_apart() -> None:
    assert print_of("vllm", slots=8123) != print_of("vllm", slots=8124)
    assert print_of("vllm", slots=8124, port=8124) == print_of("vllm", slots=8124)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_attached_to_is_told_nothing_and_known_by_its_address(kind: str) -> None:
    plan = plan_of(kind, attach_url="http://there:1/", slots=3, args=("--x",))

    assert (plan.argv, dict(plan.env), dict(plan.applied)) == ((), {}, {})
    assert plan.base_url == "http://there:1"
    assert {"slots", "prefix_cache", "args"} <= set(plan.unsupported)
    elsewhere = plan_of(kind, attach_url="http://there:2/", slots=3)
    assert fingerprint(plan, FOLDER) != fingerprint(elsewhere, FOLDER)


def test_an_engine_that_is_only_attached_to_asks_for_the_url() -> None:
    with pytest.raises(UsageError, match="openai is not launched; name a running server with"):
        plan_of("openai")


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"])
def test_the_capacity_policies_of_tensorrt_llm_are_in_its_file(policy: str) -> None:
    plan = plan_of("tensorrt-llm", policy=policy, chunked_prefill=True, kv_tokens=4096)
    told = json.loads(plan.files["tensorrt-llm.yaml"])

    assert told["scheduler_config"] == {"capacity_scheduler_policy": policy}
    assert told["kv_cache_config"] == {"enable_block_reuse": False, "max_tokens": 4096}
    assert told["enable_chunked_prefill"] is True
    assert told["enable_iter_perf_stats"] is True


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("inhouse", "unknown policy 'psychic' of inhouse; choose from continuous, static, dynamic"),
        ("tensorrt-llm", "choose from GUARANTEED_NO_EVICT, MAX_UTILIZATION, STATIC_BATCH"),
        ("vllm", "vllm has no batching policies; leave out --policy"),
    ],
)
def test_an_unknown_policy_is_refused_with_those_known(kind: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(kind, policy="psychic")


CASES = [
    ("vllm", {"kv_tokens": 1000}, "--block-size 32 --num-gpu-blocks-override 32"),
    ("vllm", {"chunked_prefill": True}, "--enable-chunked-prefill"),
    ("tgi", {"context_tokens": 2048}, "--max-total-tokens 2048 --max-input-tokens 2047"),
    ("sglang", {"batched_tokens": 512}, "--max-prefill-tokens 512 --chunked-prefill-size 512"),
    (
        "sglang",
        {"batched_tokens": 512, "chunked_prefill": False},
        "--max-prefill-tokens 512 --chunked-prefill-size -1",
    ),
    ("llama-cpp", {"context_tokens": 512}, "--ctx-size 4096"),
    ("llama-cpp", {"kv_tokens": 9000}, "--ctx-size 9000"),
    ("llama-cpp", {"prefix_cache": True}, "--cache-prompt"),
    ("llama-cpp", {"batched_tokens": 256}, "--batch-size 256 --ubatch-size 256"),
    ("transformers", {"kv_tokens": 1000}, "--cb-num-blocks 4"),
    ("inhouse", {"kv_tokens": 1000}, "--kv-tokens 1000"),
    (
        "inhouse",
        {"batched_tokens": 256, "chunked_prefill": True},
        "--batched-tokens 256 --chunked-prefill",
    ),
    (
        "inhouse",
        {"chunked_prefill": False, "prefix_cache": True},
        "--no-chunked-prefill --prefix-cache",
    ),
]


@pytest.mark.parametrize(("kind", "knobs", "words"), CASES)
def test_a_knob_becomes_the_engines_own_words(kind: str, knobs: dict[str, Any], words: str) -> None:
    assert f" {words}" in " ".join(plan_of(kind, **knobs).argv)


def test_threads_of_servers_are_told_by_their_variables() -> None:
    assert plan_of("vllm", threads=2).env["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert plan_of("transformers", threads=2).env["OMP_NUM_THREADS"] == "2"
    assert plan_of("tgi", prefix_cache=False).env["PREFIX_CACHING"] == "0"


def test_what_a_user_adds_comes_last_and_wins() -> None:
    plan = plan_of("vllm", args=("--dtype", "float32"), env={"VLLM_NO_USAGE_STATS": "0"})

    assert plan.argv[-2:] == ("--dtype", "float32")
    assert plan.env["VLLM_NO_USAGE_STATS"] == "0"


# --- containers ---

IMAGES = {
    "vllm": "docker run --rm --name batchmark-vllm-8123 -p 127.0.0.1:8123:8000 -e VLLM_NO_USAGE_STATS=1",
    "tgi": "docker run --rm --name batchmark-tgi-8123 -p 127.0.0.1:8123:80 -e PREFIX_CACHING=0",
    "tensorrt-llm": "docker run --rm --name batchmark-tensorrt-llm-8123 -p 127.0.0.1:8123:8000",
    "sglang": "docker run --rm --name batchmark-sglang-8123 -p 127.0.0.1:8123:30000",
    "llama-cpp": "docker run --rm --name batchmark-llama-cpp-8123 -p 127.0.0.1:8123:8080",
}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_is_run_by_docker_and_published_on_loopback(kind: str) -> None:
    plan = plan_of(kind, image="some/image:1", args=("--more",))
    words = " ".join(plan.argv)

    assert words.startswith(IMAGES[kind])
    assert plan.argv[-1] == "--more"
    assert "0.0.0.0" in plan.argv
    assert dict(plan.env) == {}
    assert plan.base_url == "http://127.0.0.1:8123"


@pytest.mark.parametrize(
    ("kind", "image", "is_gpu"),
    [
        ("vllm", "vllm/vllm-openai:v1", True),
        ("vllm", "vllm/vllm-openai-cpu:v1", False),
        ("tgi", "default-cpu", False),
        ("sglang", "default", True),
        ("llama-cpp", "default-cpu", False),
        ("llama-cpp", "default", True),
    ],
)
def test_gpus_are_given_to_images_that_use_them(kind: str, image: str, is_gpu: bool) -> None:
    assert ("--gpus" in plan_of(kind, image=image).argv) is is_gpu


def test_a_model_on_this_machine_is_mounted_read_only_and_one_of_a_hub_is_cached(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "smol"
    folder.mkdir()
    here = plan_of("vllm", image="i:1", model=str(folder)).argv
    there = plan_of("vllm", image="i:1", model="org/m").argv

    assert f"{folder}:/models/smol:ro" in here
    assert here[here.index("serve") + 1] == "/models/smol"
    assert any(word.endswith("/.cache/huggingface:/root/.cache/huggingface") for word in there)
    assert there[there.index("serve") + 1] == "org/m"


def test_a_file_of_settings_is_mounted_where_the_server_looks_for_it() -> None:
    argv = plan_of("tensorrt-llm", image="i:1").argv

    assert f"{FOLDER.resolve()}/tensorrt-llm.yaml:/batchmark/tensorrt-llm.yaml:ro" in argv
    assert argv[argv.index("--extra_llm_api_options") + 1] == "/batchmark/tensorrt-llm.yaml"


@pytest.mark.parametrize(
    ("kind", "image", "message"),
    [
        ("transformers", "i:1", "transformers has no container image; leave out --image"),
        ("tensorrt-llm", "default-cpu", "tensorrt-llm has no pinned image for 'default-cpu'"),
    ],
)
def test_an_image_that_does_not_exist_is_refused(kind: str, image: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(kind, image=image)
