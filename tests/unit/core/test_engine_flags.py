"""Flags about engines to the engines that they mean."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import EngineSpec
from harness.core.engine_flags import EngineFlags, KnownEngines, plan_engines
from harness.core.engines_file import NamedEngine
from harness.core.errors import UsageError

FLAGS = EngineFlags(engines="inhouse", model="m")
KNOWN = KnownEngines(
    policies={"inhouse": ("continuous", "static", "dynamic"), "tensorrt-llm": ("NO_EVICT", "STATIC")},
    named={
        "vllm-tuned": NamedEngine("vllm", {"slots": 16, "args": ["--x"]}, Path("engines.toml")),
        "old": NamedEngine("inhouse", {"policy": "static"}, Path("engines.toml")),
        "there": NamedEngine("inhouse", {"attach_url": "http://there:1"}, Path("engines.toml")),
    },
)  # fmt: skip


def specs(**changes: Any) -> tuple[EngineSpec, ...]:
    return plan_engines(replace(FLAGS, **changes), KNOWN)


def names(**changes: Any) -> list[str]:
    return [spec.name for spec in specs(**changes)]


@pytest.mark.parametrize(
    ("engines", "policies", "expected"),
    [
        ("inhouse", None, ["inhouse-continuous"]),
        ("inhouse", "static, dynamic", ["inhouse-static", "inhouse-dynamic"]),
        ("vllm", None, ["vllm"]),
        ("openvino,vllm", None, ["openvino", "vllm"]),
        ("inhouse,vllm", "static", ["inhouse-static", "vllm"]),
        ("tensorrt-llm", None, ["tensorrt-llm-NO_EVICT"]),
        ("tensorrt-llm,inhouse", "STATIC,static", ["tensorrt-llm-STATIC", "inhouse-static"]),
        ("tensorrt-llm,inhouse", "static", ["tensorrt-llm-NO_EVICT", "inhouse-static"]),
        ("vllm-tuned", None, ["vllm-tuned"]),
        ("old", None, ["old"]),
        ("old,inhouse", "static", ["old", "inhouse-static"]),
        ("there", None, ["there"]),
    ],
)
def test_a_list_of_engines_is_one_for_each_policy_that_an_engine_has(
    engines: str, policies: str | None, expected: list[str]
) -> None:
    assert names(engines=engines, policies=policies) == expected


def test_what_a_table_says_goes_before_the_flags_and_the_rest_is_theirs() -> None:
    (spec,) = specs(engines="vllm-tuned", slots=4, threads=2)

    assert (spec.kind, spec.slots, spec.threads, spec.args) == ("vllm", 16, 2, ("--x",))


def test_every_flag_of_an_engine_reaches_its_spec() -> None:
    turned = {
        "model": "n", "slots": 3, "dtype": "float32", "threads": 2, "pad_prompts": False,
        "batch_window_ms": 5.0, "port": 9, "context_tokens": 10, "batched_tokens": 11,
        "kv_tokens": 12, "chunked_prefill": True, "prefix_cache": True, "speculative": "s",
        "served_name": "t", "attach_url": "http://u:1", "metrics_url": "http://u:2/m",
        "api_key_env": "KEY", "image": "i", "args": ("a",),
    }  # fmt: skip
    assert {f.name for f in fields(EngineFlags)} - set(turned) == {"engines", "policies", "file"}

    (spec,) = specs(engines="vllm", **turned)

    assert {name: getattr(spec, name) for name in turned} == turned


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engines": "vllm,vllm"}, "--engine is 'vllm,vllm'; name each engine once"),
        ({"engines": ""}, "name each engine once"),
        ({"policies": "static,static"}, "--policy is 'static,static'; name each policy once"),
        ({"policies": ""}, "name each policy once"),
        ({"policies": "psychic"}, "--policy has 'psychic', which none of inhouse has; choose from continuous, static, dynamic"),
        ({"engines": "vllm", "policies": "static"}, "which none of vllm has; leave out --policy"),
        ({"slots": 0}, "--slots is 0; it must be a number above 0"),
        ({"threads": 0}, "--threads is 0"),
        ({"kv_tokens": -1}, "--kv-tokens is -1"),
        ({"context_tokens": 0}, "--context-tokens is 0"),
        ({"batched_tokens": 0}, "--batched-tokens is 0"),
        ({"attach_url": "localhost:8000"}, "--attach is 'localhost:8000', no http or https URL"),
        ({"engines": "vllm,sglang", "attach_url": "http://u:1"}, "--attach names one server, but there are 2"),
        ({"engines": "vllm,sglang", "port": 8000}, "--port is 8000 for 2 engines"),
        ({"api_key_env": "sk-secret"}, "--api-key-env takes the name of an environment variable"),
        ({"args": ("--api-key=sk-secret",)}, "--engine-arg --api-key would put a secret"),
        ({"args": ("--api-key", "sk-secret")}, "--engine-arg --api-key would put a secret"),
        ({"attach_url": "http://me:sk-secret@host:1"}, "--attach holds a user, a password"),
        ({"attach_url": "http://host:1/?key=sk-secret"}, "--attach holds a user, a password"),
        ({"metrics_url": "http://host:1/?key=sk-secret"}, "--metrics-url holds a user, a password"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_no_secret_is_shown(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        specs(**changes)

    assert message in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "MY_SECRET", "DB_PASSWORD"])
def test_a_secret_in_the_variables_of_a_table_is_refused(name: str) -> None:
    named = NamedEngine("vllm", {"env": {name: "sk-secret"}}, Path("engines.toml"))
    known = KnownEngines({}, {"mine": named})

    with pytest.raises(
        UsageError, match=f"the variable {name} of mine in engines.toml would"
    ) as caught:
        plan_engines(replace(FLAGS, engines="mine"), known)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("word", ["--max-num-batched-tokens=9", "--tokenizer", "--keyframes"])
def test_words_that_only_look_like_secrets_are_passed_on(word: str) -> None:
    assert specs(engines="vllm", args=(word,))[0].args == (word,)
