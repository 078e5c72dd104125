"""Conversations from a specification: what each turn brings, and what it builds on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.units import NS_PER_MS
from harness.core.workload import After, Arrival
from workloads.lengths import LengthKind, Lengths
from workloads.materialise import PromptOptions, materialise
from workloads.sessions import (
    SessionsSpec,
    checked_sessions,
    drawn_sessions,
    session_shapes,
)


def fixed(tokens: int) -> Lengths:
    return Lengths(LengthKind.FIXED, tokens=tokens)


def between(least: int, most: int) -> Lengths:
    return Lengths(LengthKind.UNIFORM, least=least, most=most)


CHAT = SessionsSpec(
    turns=fixed(3), user=fixed(20), answer=fixed(30), system_tokens=100, think_ms=fixed(5)
)
AGENT = replace(CHAT, turns=fixed(2), calls=fixed(2), tool=fixed(200), tool_ms=fixed(7))


def sent(spec: SessionsSpec, count: int, instants: tuple[int, ...], seed: int = 1) -> list[Arrival]:
    drawn = drawn_sessions(checked_sessions(spec), count)
    return list(
        materialise(session_shapes(drawn, spec.system_tokens, instants), PromptOptions(), seed)
    )


def test_a_prompt_is_all_that_was_said_before_and_what_is_new() -> None:
    ((first, second, third),) = drawn_sessions(CHAT, 1)

    assert (first.prompt_tokens, first.output_tokens, first.delay_ns) == (120, 30, 0)
    assert (second.prompt_tokens, second.delay_ns) == (120 + 30 + 20, 5 * NS_PER_MS)
    assert third.prompt_tokens == 170 + 30 + 20


def test_an_agent_calls_its_tools_before_it_is_spoken_to_again() -> None:
    (steps,) = drawn_sessions(AGENT, 1)

    assert [step.label for step in steps] == ["user", "tool", "tool"] * 2
    assert [step.delay_ns // NS_PER_MS for step in steps] == [0, 7, 7, 5, 7, 7]
    assert [step.prompt_tokens for step in steps] == [120, 350, 580, 630, 860, 1090]


def test_a_session_ends_before_it_outgrows_its_context() -> None:
    (steps,) = drawn_sessions(replace(CHAT, most_tokens=200), 1)

    assert [step.prompt_tokens for step in steps] == [120, 170]
    with pytest.raises(ValueError, match=r"sessions\.most_tokens.* session 0 has no room"):
        drawn_sessions(replace(CHAT, most_tokens=149), 1)


DRAWN = replace(
    AGENT,
    turns=between(1, 4),
    user=between(1, 40),
    answer=between(1, 50),
    calls=between(1, 2),
    tool=between(1, 90),
)


@settings(max_examples=30)
@given(
    system_tokens=st.sampled_from([0, 1, 16, 300]), seed=st.integers(0, 2**32), own=st.integers(0)
)
def test_each_prompt_begins_with_the_one_before_token_by_token(
    system_tokens: int, seed: int, own: int
) -> None:
    spec = replace(DRAWN, system_tokens=system_tokens, seed=own % 2**32)
    arrivals = sent(spec, 2, (0, 5, 9), seed)
    for before, after in pairwise(arrivals):
        if after.request.session != before.request.session:
            continue
        shorter, longer = before.request.prompt_token_ids, after.request.prompt_token_ids
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter) + before.request.max_tokens
        assert after.after == After(
            before.request.index, after.after.delay_ns if after.after else 0
        )
        assert after.request.turn == before.request.turn + 1


def test_sessions_share_the_system_prompt_and_nothing_else() -> None:
    arrivals = sent(replace(DRAWN, system_tokens=64), 3, tuple(range(12)))
    firsts = [a.request.prompt_token_ids for a in arrivals if a.request.turn == 0]

    assert len({prompt[:64] for prompt in firsts}) == 1
    assert len({prompt[64:69] for prompt in firsts if len(prompt) >= 69}) == len(
        [prompt for prompt in firsts if len(prompt) >= 69]
    )
    alone = sent(replace(DRAWN, system_tokens=0, user=fixed(30)), 3, tuple(range(12)))
    assert len({a.request.prompt_token_ids[:8] for a in alone if a.request.turn == 0}) == 12


def test_sessions_are_sent_over_again_with_other_words() -> None:
    arrivals = sent(DRAWN, 2, (0, 10, 20, 30))
    lengths: dict[str | None, list[tuple[int, int]]] = {}
    for arrival in arrivals:
        request = arrival.request
        row = (len(request.prompt_token_ids), request.max_tokens)
        lengths.setdefault(request.session, []).append(row)

    assert lengths["0"] == lengths["2"]
    assert lengths["1"] == lengths["3"]
    assert len({arrival.request.prompt_token_ids for arrival in arrivals}) == len(arrivals)
    dues = [arrival.due_ns for arrival in arrivals if arrival.after is None]
    assert dues == [0, 10, 20, 30]


def test_a_session_is_drawn_alike_whatever_others_there_are() -> None:
    assert drawn_sessions(DRAWN, 9)[:4] == drawn_sessions(DRAWN, 4)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(CHAT, calls=fixed(1)), r"'sessions\.tool' is missing"),
        (replace(CHAT, tool=fixed(1)), r"'sessions\.calls' is missing"),
        (replace(CHAT, tool_ms=fixed(1)), r"'sessions\.tool_ms' says nothing"),
        (replace(CHAT, system_tokens=-1), r"'sessions\.system_tokens' is -1"),
        (replace(CHAT, user=fixed(0)), r"'sessions\.user\.tokens' is 0"),
        (replace(CHAT, answer=Lengths(LengthKind.FIXED)), r"'sessions\.answer\.tokens' is missing"),
    ],
)
def test_what_cannot_be_drawn_is_named(spec: SessionsSpec, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_sessions(spec)
