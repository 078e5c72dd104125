from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.manifest import RunManifest
from harness.gate.topics import reverse, topics


def engine(build: Any, **changes: Any) -> RunManifest:
    plain: RunManifest = build.manifest()
    return replace(plain, engine=replace(plain.engine, **changes))


def test_runs_that_are_alike_have_no_topic(build: Any) -> None:
    assert topics(build.manifest(), build.manifest()) == ()


@pytest.mark.parametrize(
    ("changes", "topic"),
    [
        ({"policy": "continuous"}, "continuous over static"),
        ({"policy": "dynamic"}, "dynamic over static"),
        ({"chunked_prefill": True}, "chunked prefill over whole prompts"),
        ({"prefix_cache": True}, "prefix cache over no prefix cache"),
        ({"args": ("--kv", "reserved")}, "reserved KV over paged KV"),
    ],
)
def test_what_the_candidate_is_and_the_baseline_is_not(
    build: Any, changes: dict[str, Any], topic: str
) -> None:
    base = engine(build, chunked_prefill=False)
    other = engine(build, **{"chunked_prefill": False, **changes})

    assert topics(base, other) == (topic,)
    assert topics(other, base) == (reverse(topic),)


def test_two_kinds_of_engines_are_compared_in_how_they_batch_as_well(build: Any) -> None:
    static = engine(build, kind="huggingface-static", policy=None)
    found = topics(static, engine(build, kind="vllm", policy=None))

    assert {"vllm over huggingface-static", "continuous over static"} <= set(found)


def test_a_server_that_nobody_knows_anything_of_is_a_case_of_its_kind_only(build: Any) -> None:
    unknown = engine(build, kind="openai", policy=None, attach_url="http://h:1")

    assert not [t for t in topics(build.manifest(), unknown) if t.startswith("continuous")]
