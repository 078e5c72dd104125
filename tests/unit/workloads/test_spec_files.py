"""What a workload file can say, what the shipped ones ask for, and the same work for every seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from harness.core.errors import UsageError
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, Workload
from workloads.catalog import build_warmup, build_workload, load_spec, make_arrivals, names
from workloads.materialise import PromptOptions
from workloads.spec import WorkloadSpec, shapes

BACKLOG = Load(LoadKind.BACKLOG)
POISSON = Load(LoadKind.POISSON, rate_rps=5.0)
TRACES = {"azure-code", "azure-conv", "burstgpt", "mooncake-conversation"}
HEAD = 'name = "mine"\ndescription = ""\n'
SMALL = HEAD + (
    "count = 40\ntoken_ids = [10, 400]\n"
    "[lengths]\n"
    'prompt = { kind = "uniform", least = 20, most = 60 }\n'
    'output = { kind = "exponential", mean = 9, most = 20, outside = "clamp" }\n'
)
SHARED = SMALL + "[prefix]\ngroups = 4\ntokens = 16\n"
TALKS = HEAD + (
    "count = 5\ntoken_ids = [10, 400]\n"
    "[sessions]\nsystem_tokens = 20\n"
    'turns = { kind = "fixed", tokens = 3 }\n'
    'user = { kind = "uniform", least = 5, most = 30 }\n'
    'answer = { kind = "fixed", tokens = 8 }\n'
    'think_ms = { kind = "fixed", tokens = 50 }\n'
)
PINNED = ("orca-synthetic", "shared-prefix")
DIGEST_PROGRAM = f"""
from harness.core.workload import Load, LoadKind
from workloads.catalog import build_workload, load_spec
load = Load(LoadKind.POISSON, rate_rps=5.0)
for name in {PINNED}:
    print(build_workload(load_spec(name), load, 1, 42).digest)
"""


def spec_of(folder: Path, text: str) -> WorkloadSpec:
    file = folder / "mine.toml"
    file.write_text(text)
    return load_spec(str(file))


def prompts_of(workload: Workload) -> list[tuple[int, ...]]:
    return [arrival.request.prompt_token_ids for arrival in workload.arrivals]


@pytest.mark.parametrize(
    ("name", "requests", "prompt", "output"),
    [
        ("eight-agents", 8, 1006.25, 95.6),
        ("eight-agents-short", 8, 62.5, 95.6),
        ("eight-agents-burst50", 50, 1006, 93.1),
        ("anyscale-2023", 1000, 512, 128.0),
        ("anyscale-2023-cap512", 1000, 512, 118.5),
        ("anyscale-2023-cap128", 1000, 512, 53.7),
        ("anyscale-2023-cap32", 1000, 512, 15.6),
        ("orca-synthetic", 1000, 272, 64.5),
        ("chat", 500, 160.5, 326),
        ("code", 500, 1978, 27.4),
        ("rag-long", 200, 8192, 255),
        ("shared-prefix", 400, 1280, 128),
        ("prefill-heavy", 100, 4096, 16),
        ("decode-heavy", 100, 64, 1024),
    ],
)
def test_each_workload_that_ships_asks_for_what_its_comment_says(
    name: str, requests: int, prompt: float, output: float
) -> None:
    spec = load_spec(name)

    assert len(spec.requests) == requests
    assert fmean(r.prompt_tokens for r in spec.requests) == pytest.approx(prompt, rel=0.01)
    assert fmean(r.output_tokens for r in spec.requests) == pytest.approx(output, rel=0.01)


def test_the_burst_is_of_the_eight_agents_in_turn() -> None:
    agents, burst = load_spec("eight-agents"), load_spec("eight-agents-burst50")

    assert burst.requests == (agents.requests * 7)[:50]


def test_agents_wait_for_their_tools_and_grow() -> None:
    spec = load_spec("agentic")
    turns = list(shapes(spec, (0,) * 50))
    last = {turn.session: turn.prompt_tokens or 0 for turn in turns}

    assert len(last) == spec.count == 50
    assert sum(turn.turn == 0 for turn in turns) == 50
    assert len(spec.requests) == len(turns) > 400
    assert min(turn.delay_ns for turn in turns if turn.turn) > 0
    assert 5_000 < fmean(last.values()) < 30_000


def test_traces_of_others_are_named_with_their_sum_licence_and_makers() -> None:
    specs = {name: load_spec(name) for name in names()}

    assert {name for name, spec in specs.items() if spec.trace is not None} == TRACES
    for name in TRACES:
        download = specs[name].download
        assert download is not None
        assert download.url.startswith("https://")
        assert len(download.sha256) == 64
        assert download.licence in {"CC-BY-4.0", "Apache-2.0"}
        assert "20" in download.attribution


def test_a_trace_is_not_made_but_fetched() -> None:
    with pytest.raises(
        UsageError, match="azure-code is a trace.*run `batchmark workload fetch azure"
    ):
        build_workload(load_spec("azure-code"), BACKLOG, 1, 1)


@pytest.mark.parametrize("text", [SMALL, SHARED, TALKS], ids=["lengths", "prefix", "sessions"])
def test_another_seed_asks_for_the_same_work_with_other_prompts(tmp_path: Path, text: str) -> None:
    """Else no two repeats of a run, nor a run and its baseline, would have one shape."""
    spec = spec_of(tmp_path, text)
    one, same, other = (build_workload(spec, POISSON, 2, seed) for seed in (1, 1, 2))

    assert one == same
    assert one.digest != other.digest
    assert one.shape_digest == other.shape_digest
    assert not set(prompts_of(one)) & set(prompts_of(other))


def test_the_seed_of_the_lengths_changes_the_work(tmp_path: Path) -> None:
    one = spec_of(tmp_path, SMALL)
    other = spec_of(tmp_path, SMALL.replace("[lengths]", "[lengths]\nseed = 9"))

    assert one.requests != other.requests
    assert len(one.requests) == len(other.requests) == 40


def test_pairs_of_lengths_stay_together(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, HEAD + "count = 300\n[lengths]\npairs = [[5, 7], [9, 2], [9, 2]]")
    counts = Counter((r.prompt_tokens, r.output_tokens) for r in spec.requests)

    assert set(counts) == {(5, 7), (9, 2)}
    assert counts[9, 2] == 200


def test_a_mix_with_a_count_is_sent_over_again_up_to_it(tmp_path: Path) -> None:
    rows = "".join(
        f'[[requests]]\nlabel = "{label}"\nprompt_tokens = 4\noutput_tokens = 1\n' for label in "AB"
    )
    spec = spec_of(tmp_path, f"{HEAD}count = 5\n{rows}")
    workload = build_workload(spec, BACKLOG, 2, 1)

    assert [a.request.label for a in workload.arrivals] == list("ABABAABABA")


def test_prompts_of_a_group_share_what_the_file_says_and_no_token_more(tmp_path: Path) -> None:
    prompts = prompts_of(build_workload(spec_of(tmp_path, SHARED), BACKLOG, 5, 1))

    assert len(prompts) == 200
    for group in range(4):
        assert len({prompt[:16] for prompt in prompts[group::4]}) == 1
    assert len({prompt[:16] for prompt in prompts}) == 4
    assert len({prompt[16:18] for prompt in prompts}) == 200


def test_turns_begin_with_the_turn_before_and_wait_for_it(tmp_path: Path) -> None:
    arrivals = build_workload(spec_of(tmp_path, TALKS), POISSON, 2, 1).arrivals

    assert len(arrivals) == 30
    for one, later in pairwise(arrivals):
        before, prompt = one.request.prompt_token_ids, later.request.prompt_token_ids
        if later.after is None:
            assert prompt[:20] == before[:20]
            assert prompt[:21] != before[:21]
        else:
            assert (later.after.index, later.after.delay_ns) == (one.request.index, 50_000_000)
            assert prompt[: len(before)] == before
            assert len(prompt) >= len(before) + 8 + 5
            assert later.due_ns == one.due_ns


@pytest.mark.parametrize("text", [SMALL, SHARED, TALKS], ids=["lengths", "prefix", "sessions"])
def test_the_warm_up_has_the_lengths_and_none_of_the_prompts(tmp_path: Path, text: str) -> None:
    spec = spec_of(tmp_path, text)
    measured = prompts_of(build_workload(spec, BACKLOG, 2, 3))
    warmup = build_warmup(spec, 20, 3)

    lengths = [row.prompt_tokens for row in (spec.requests * 2)[:20]]
    assert [len(request.prompt_token_ids) for request in warmup] == lengths
    assert {request.max_tokens for request in warmup} == {8}
    assert not {r.prompt_token_ids[:5] for r in warmup} & {prompt[:5] for prompt in measured}


class Numbers:
    """A tokenizer whose text is the numbers of the tokens."""

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return " ".join(map(str, token_ids))


def test_a_mix_of_old_is_made_otherwise_only_when_its_text_must_be_exact() -> None:
    spec = load_spec("eight-agents-short")
    old = build_workload(spec, BACKLOG, 1, 0)
    new = build_workload(spec, BACKLOG, 1, 0, PromptOptions(tokenizer=Numbers()))

    assert build_workload(spec, BACKLOG, 1, 0, PromptOptions()) == old
    assert old.digest != new.digest
    assert old.shape_digest == new.shape_digest


def test_in_stages_drawn_lengths_are_sent_as_long_as_they_last(tmp_path: Path) -> None:
    load = Load(LoadKind.STAGES, stages=parse_stages("10:10"))
    arrivals = list(make_arrivals(spec_of(tmp_path, SMALL), load, None, 1))

    assert 70 < len(arrivals) < 130
    assert [len(a.request.prompt_token_ids) for a in arrivals[40:50]] == [
        len(a.request.prompt_token_ids) for a in arrivals[:10]
    ]


def test_digests_are_pinned_and_do_not_depend_on_the_hash_seed() -> None:
    """A change here means that old seeds no longer send what they sent: say so in the changelog."""
    printed = subprocess.run(
        [sys.executable, "-c", DIGEST_PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert [digest[:16] for digest in printed] == ["b12d40240d96b755", "b3c78d6a76b195fa"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "found none of \\[\\[requests\\]\\], \\[lengths\\], \\[sessions\\], \\[trace\\]"),
        (SMALL + '[trace]\nformat = "azure"', "found \\[lengths\\] and \\[trace\\] of"),
        (SMALL.replace("count = 40", ""), "key 'count' is missing; \\[lengths\\] needs"),
        (TALKS.replace("count = 5", "count = 0"), "key 'count' is 0"),
        (HEAD + "count = 3\n[lengths]\nseed = 3", "needs either 'prompt' and 'output', or 'pairs'"),
        (SMALL + "pairs = [[1, 2]]", "needs either 'prompt' and 'output', or 'pairs'"),
        (HEAD + "count = 3\n[lengths]\npairs = [[0, 2]]", "both must be at least 1"),
        (HEAD + "count = 3\n[lengths]\npairs = [[1, 2, 3]]", "'pairs'"),
        (
            HEAD + 'count = 3\n[lengths]\noutput = { kind = "fixed", tokens = 1 }',
            "key 'lengths.prompt' is missing",
        ),
        (SMALL.replace("least = 20", "least = 90"), "key 'lengths.prompt.least' is 90, more than"),
        (SMALL.replace('"clamp"', '"cut"'), "'cut' is not a valid Outside"),
        (SHARED.replace("tokens = 16", "tokens = 60"), "4 groups of 60 tokens, and request 1"),
        (SHARED.replace("groups = 4", "groups = 0"), "0 groups of 16 tokens"),
        (TALKS + "[prefix]\ngroups = 1\ntokens = 4", "key 'prefix' says nothing of \\[sessions\\]"),
        (TALKS + "most_tokens = 9", "key 'sessions.most_tokens' is 9; session 0 has no room"),
        (TALKS + "colour = 3", "unknown key 'colour'; SessionsSpec knows"),
    ],
)
def test_a_faulty_file_is_refused_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec_of(tmp_path, text)
