"""V17 and V18, and the cautions about prompts: were they as meant, and was each computed?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.analyzer.summary import Check, CheckVerdict, Summary
from harness.core.engine import EngineFacts, EngineSpec

PASS, WARN, INVALID, SKIPPED = (
    CheckVerdict.PASS,
    CheckVerdict.WARN,
    CheckVerdict.INVALID,
    CheckVerdict.SKIPPED,
)
CACHING = EngineSpec("vllm", "vllm", "m", prefix_cache=True)
ATTACHED = EngineSpec("vllm", "vllm", "m", attach_url="http://localhost:8000")


def check(summary: Summary, check_id: str) -> Check:
    return next(check for check in summary.checks if check.id == check_id)


def codes(summary: Summary) -> set[str]:
    return {caution.code for caution in summary.cautions}


def test_v17_prompts_that_were_read_whole_pass(build: Any) -> None:
    found = check(build.summary([build.record(i) for i in range(3)]), "V17")
    assert (found.verdict, found.value) == (PASS, "0 of 3 requests differ")


@pytest.mark.parametrize("read", [9, 11])
def test_v17_one_prompt_of_another_length_makes_the_run_invalid(build: Any, read: int) -> None:
    records = [build.record(0), build.record(1), build.record(2, prompt_tokens=read)]
    found = check(build.summary(records), "V17")
    assert found.verdict is INVALID
    assert found.value == (f"1 of 3 requests differ, the first is request 2: 10 sent, {read} read")


def test_v17_prompts_that_an_engine_tokenizes_itself_are_a_doubt_only(build: Any) -> None:
    facts = EngineFacts(settings={"prompts_sent_as": "text"})
    records = [build.record(0), build.record(1, prompt_tokens=11)]
    found = check(build.summary(records, facts=facts), "V17")
    assert found.verdict is WARN
    assert found.value.endswith("; prompts were sent as text")


def test_v17_an_engine_that_does_not_count_prompts_proves_nothing(build: Any) -> None:
    found = check(build.summary([build.record(0, prompt_tokens=None)]), "V17")
    assert (found.verdict, found.value) == (SKIPPED, "the engine does not count prompt tokens")


def test_v17_failed_requests_prove_nothing_either(build: Any) -> None:
    summary = build.summary([build.failed(0, prompt_tokens=0)])
    assert check(summary, "V17").verdict is SKIPPED


@pytest.mark.parametrize(
    ("engine", "cached", "expected"),
    [
        (None, 0, PASS),
        (None, 1, PASS),
        (None, 2, WARN),
        (None, 100, WARN),
        (CACHING, 100, PASS),
    ],
)
def test_v18_hits_of_a_cache_that_nobody_declared_warn(
    build: Any, engine: EngineSpec | None, cached: int, expected: CheckVerdict
) -> None:
    """100 prompt tokens, of which `cached` came from the cache."""
    spread = [10] * (cached // 10) + [cached % 10] * (cached < 100)
    spread += [0] * (10 - len(spread))
    records = [build.record(i, cached_tokens=n) for i, n in enumerate(spread)]
    changes = {} if engine is None else {"engine": engine}
    summary = build.summary(records, **changes)
    found = check(summary, "V18")
    assert found.verdict is expected
    state = "off" if engine is None else "on"
    assert found.value.startswith(
        f"declared {state}, {cached / 100:.1%} of the prompt tokens were cached"
    )
    assert ("PREFIX_CACHE_HIT" in codes(summary)) == (engine is None and cached >= 1)
    assert summary.value("cached_prompt_share") == cached / 100


def test_v18_an_engine_that_does_not_say_leaves_it_open_with_the_reason(build: Any) -> None:
    summary = build.summary([build.record(0)])
    found = check(summary, "V18")
    assert found.verdict is SKIPPED
    assert "the engine does not say what it had cached" in found.value
    assert "is not measured: a run sends them once" in found.value
    assert summary.value("cached_prompt_share") is None
    assert "PREFIX_CACHE_HIT" not in codes(summary)


@pytest.mark.parametrize(
    ("engine", "distinct", "cached", "is_told"),
    [
        (None, 31, None, False),  # launched with the cache off
        (CACHING, 31, None, True),
        (ATTACHED, 31, None, True),
        (ATTACHED, 32, None, False),
        (ATTACHED, None, None, False),  # an older folder
        (ATTACHED, 31, 0, False),  # no prompt was found there
        (None, 31, 5, True),  # it was not off after all
    ],
)
def test_repeated_prompts_are_told_unless_no_cache_can_know_them(
    build: Any,
    engine: EngineSpec | None,
    distinct: int | None,
    cached: int | None,
    is_told: bool,
) -> None:
    changes = {} if engine is None else {"engine": engine}
    summary = build.summary(
        [build.record(0, cached_tokens=cached)],
        workload=build.workload(distinct_prompts=distinct),
        **changes,
    )
    assert ("REPEATED_PROMPTS" in codes(summary)) == is_told


def test_repeated_prompts_are_told_with_both_numbers(build: Any) -> None:
    summary = build.summary(
        [build.record(0)], workload=build.workload(distinct_prompts=4), engine=ATTACHED
    )
    (said,) = [c.message for c in summary.cautions if c.code == "REPEATED_PROMPTS"]
    assert said.startswith("32 requests had 4 distinct prompt(s)")
