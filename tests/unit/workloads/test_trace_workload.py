"""From a trace to what is sent: its own times or a load's, its first rows, and what fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.core.source import SourceFlags
from harness.core.stages import Stage
from harness.core.workload import Arrival, Load, LoadKind
from workloads.chat_text import plain_text
from workloads.fitting import Oversize
from workloads.materialise import PromptOptions
from workloads.trace_workload import OpenTrace, TracePlan, open_requests

S = 1_000_000_000
POISSON = Load(LoadKind.POISSON, rate_rps=5.0)


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """Ten requests, two each second, the third of them long, one without an answer."""
    rows = [
        f"{100 + k // 2},ChatGPT,{900 if k == 2 else 40 + k},{5 + k},0,API log" for k in range(10)
    ]
    rows.insert(4, "102,ChatGPT,50,0,50,API log")
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    path = tmp_path / "burst.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def opened(path: Path, load: Load | None = None, seed: int = 1, **flags: Any) -> OpenTrace:
    return open_requests(TracePlan(path, SourceFlags(**flags), load, seed))


def sent(trace: OpenTrace, room: tuple[int, Oversize] | None = None) -> list[Arrival]:
    return list(trace.arrivals(PromptOptions(), 1, room))


def dues_s(arrivals: list[Arrival]) -> list[float]:
    return [arrival.due_ns / S for arrival in arrivals]


def test_a_trace_with_times_is_replayed_at_them_by_default(burst: Path) -> None:
    trace = opened(burst)
    made = sent(trace)

    assert trace.load == Load(LoadKind.REPLAY, speed=1.0, replayed="own times")
    assert dues_s(made) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [len(a.request.prompt_token_ids) for a in made] == [40, 41, 900, *range(43, 50)]
    assert [a.request.max_tokens for a in made] == list(range(5, 15))


def test_what_was_lost_is_known_when_all_was_read(burst: Path) -> None:
    trace = opened(burst)
    sent(trace, (500, "drop"))
    source = trace.source()

    assert source.file == "burst.csv"
    assert (source.format, source.is_guessed) == ("burstgpt", True)
    assert [(loss.kind, loss.rows) for loss in source.losses] == [("dropped", 1), ("dropped", 1)]
    assert "context of 500 tokens" in source.losses[1].reason


def test_times_can_be_scaled_spread_and_thinned_and_the_load_says_so(burst: Path) -> None:
    scaled = opened(burst, time_scale=0.5)
    spread = opened(burst, spread=1.0)
    thinned = opened(burst, thin=0.5)

    assert dues_s(sent(scaled)) == [0, 0, 0.5, 0.5, 1, 1, 1.5, 1.5, 2, 2]
    assert scaled.load.speed == 2.0
    moved = dues_s(sent(spread))
    assert [int(due) for due in moved] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert len(set(moved)) == 10
    assert 0 < len(sent(thinned)) < 10
    assert (spread.load.replayed, thinned.load.replayed) == (
        "own times, spread over 1 s",
        "own times, thinned to 0.5",
    )


def test_one_seed_spreads_alike_and_another_does_not(burst: Path) -> None:
    one, same, other = (sent(opened(burst, seed=seed, spread=1.0)) for seed in (1, 1, 2))

    assert dues_s(one) == dues_s(same)
    assert dues_s(one) != dues_s(other)


def test_every_seed_of_a_run_thins_to_the_same_rows_unless_they_are_drawn_anew(
    burst: Path,
) -> None:
    one, other, anew = (
        [a.request.max_tokens for a in sent(opened(burst, seed=seed, thin=0.5, draw_seed=draw))]
        for seed, draw in ((1, None), (2, None), (1, 5))
    )

    assert one == other
    assert one != anew


def test_a_named_load_keeps_order_and_lengths_and_sets_the_times(burst: Path) -> None:
    trace = opened(burst, POISSON)
    made = sent(trace)

    assert trace.load == POISSON
    assert [a.request.max_tokens for a in made] == list(range(5, 15))
    assert dues_s(made) == sorted(dues_s(made))
    assert len(set(dues_s(made))) == 10


def test_stages_take_as_many_rows_as_are_due_in_them(burst: Path) -> None:
    stages = Load(LoadKind.STAGES, stages=(Stage(2.0, 2.0, 2.0),))

    assert 0 < len(sent(opened(burst, stages))) < 10
    long = Load(LoadKind.STAGES, stages=(Stage(20.0, 20.0, 20.0),))
    with pytest.raises(UsageError, match="the trace has 10"):
        sent(opened(burst, long))


def test_the_first_rows_can_be_asked_for_but_not_more_than_there_are(burst: Path) -> None:
    assert len(sent(opened(burst, requests=4))) == 4
    assert len(sent(opened(burst, requests=10))) == 10
    with pytest.raises(UsageError, match="--requests is 11, but burst.csv has only 10"):
        sent(opened(burst, requests=11))


@pytest.mark.parametrize("flag", ["time_scale", "spread", "thin"])
def test_flags_about_times_are_refused_where_times_do_not_count(burst: Path, flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag.replace('_', '-')} is 0.5.*leave out"):
        opened(burst, POISSON, **{flag: 0.5})


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Two conversations of two turns each, with pauses and no times."""
    rows = [
        {"session_id": name, "turns": [{"text": f"{name} one", "output_length": 3},
                                       {"text": f"{name} two", "output_length": 3, "delay": 500}]}
        for name in "ab"
    ]  # fmt: skip
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Letters:
    """A tokenizer whose tokens are characters."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return "".join(map(chr, token_ids))


def test_texts_without_a_tokenizer_are_refused_with_what_to_give(talks: Path) -> None:
    with pytest.raises(UsageError, match="--tokenizer"):
        sent(opened(talks))


def test_sessions_begin_at_the_instants_of_a_load_and_later_turns_wait(talks: Path) -> None:
    trace = opened(talks, POISSON)
    options = PromptOptions(tokenizer=Letters(), chat_text=plain_text)
    made = list(trace.arrivals(options, 1, None))
    waits = {a.request.index: a.after.index for a in made if a.after is not None}

    assert trace.has_text
    assert len(made) == 4
    assert len(waits) == 2
    assert {a.after.delay_ns for a in made if a.after is not None} == {S // 2}
    assert len({a.due_ns for a in made if a.after is None}) == 2


def test_a_trace_without_times_is_a_backlog_unless_a_load_is_named(talks: Path) -> None:
    assert opened(talks).load == Load(LoadKind.BACKLOG)
    with pytest.raises(UsageError, match="has no times"):
        opened(talks, time_scale=2.0)
