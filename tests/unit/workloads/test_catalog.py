"""Workloads: exact lengths, fresh prompts, and the same bytes for the same seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind
from workloads.catalog import build_warmup, build_workload, load_spec, names

BACKLOG = Load(LoadKind.BACKLOG)
POISSON = Load(LoadKind.POISSON, rate_rps=3.0)
STAGES = Load(LoadKind.STAGES, stages=parse_stages("2:10,1-3:10"))
SPEC = load_spec("eight-agents")
DIGEST_PROGRAM = """
from harness.core.workload import Load, LoadKind
from workloads.catalog import build_workload, load_spec
load = Load(LoadKind.POISSON, rate_rps=3.0)
print(build_workload(load_spec("eight-agents"), load, 2, 42).digest)
"""


def test_the_eight_agents_are_the_eight_agents() -> None:
    lengths = [(r.label, r.prompt_tokens, r.output_tokens) for r in SPEC.requests]

    assert lengths == [
        ("A", 800, 20), ("B", 1200, 45), ("C", 950, 80), ("D", 1100, 120),
        ("E", 750, 150), ("F", 1050, 90), ("G", 900, 60), ("H", 1300, 200),
    ]  # fmt: skip


def test_the_short_variant_has_prompts_of_a_sixteenth_and_the_same_answers() -> None:
    short = load_spec("eight-agents-short")

    for long_row, short_row in zip(SPEC.requests, short.requests, strict=True):
        assert short_row.output_tokens == long_row.output_tokens
        assert abs(short_row.prompt_tokens - long_row.prompt_tokens / 16) < 1


def test_every_prompt_has_the_exact_length_that_the_mix_says() -> None:
    workload = build_workload(SPEC, BACKLOG, repeat_mix=3, seed=1)

    assert [len(a.request.prompt_token_ids) for a in workload.arrivals] == [
        r.prompt_tokens for r in SPEC.requests
    ] * 3
    assert (workload.prompt_tokens, workload.output_tokens) == (3 * 8050, 3 * 765)


def test_no_prefix_is_ever_seen_twice() -> None:
    workload = build_workload(SPEC, BACKLOG, repeat_mix=20, seed=1)
    warmup = build_warmup(SPEC, 8, seed=1)

    starts = [a.request.prompt_token_ids[:8] for a in workload.arrivals]
    starts += [r.prompt_token_ids[:8] for r in warmup]
    assert len(set(starts)) == len(starts)


def test_another_seed_sends_other_prompts_of_the_same_shape() -> None:
    one, other = (build_workload(SPEC, POISSON, 2, seed) for seed in (1, 2))

    assert one.digest != other.digest
    assert one.shape_digest == other.shape_digest


def test_another_load_or_count_is_another_shape() -> None:
    shapes = {
        build_workload(SPEC, load, count, 1).shape_digest
        for load in (BACKLOG, POISSON)
        for count in (1, 2)
    }

    assert len(shapes) == 4


def test_one_seed_sends_the_same_bytes_in_processes_with_other_hash_seeds() -> None:
    digests = [
        subprocess.run(
            [sys.executable, "-c", DIGEST_PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    ]

    assert digests[0] == digests[1]
    assert digests[0].strip() == build_workload(SPEC, POISSON, 2, 42).digest


def test_the_digest_of_a_seed_is_pinned() -> None:
    """A change here means that old seeds no longer send what they sent: say so in the changelog."""
    workload = build_workload(SPEC, BACKLOG, repeat_mix=1, seed=0)

    assert workload.digest[:16] == "8d3dbfa3fe6f145a"
    assert workload.arrivals[0].request.prompt_token_ids[:4] == (9531, 3886, 9565, 11811)


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match="unknown workload 'nine-agents'; choose from agentic, any"
    ):
        load_spec("nine-agents")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is not valid TOML"),
        ('name = "x"\ndescription = ""\nrequests = []\nslots = 3', "unknown key 'slots'"),
        ('name = "x"\ndescription = ""\nrequests = []', "found none of .*it takes one of them"),
        ('name = "x"\nrequests = []', "missing key 'description'"),
        (
            'name = "x"\ndescription = ""\n[[requests]]\nlabel="A"\nprompt_tokens=0\noutput_tokens=1',
            "both must be at least 1",
        ),
        (
            'name = "x"\ndescription = ""\ntoken_ids = [9, 3]\n'
            '[[requests]]\nlabel="A"\nprompt_tokens=1\noutput_tokens=1',
            "key 'token_ids' is",
        ),
        (
            'name = "x"\ndescription = ""\n[[requests]]\nlabel="A"\nprompt_tokens="9"\noutput_tokens=1',
            "key 'prompt_tokens' is '9'",
        ),
    ],
)
def test_a_workload_file_with_a_fault_is_refused_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)

    with pytest.raises(UsageError, match=message):
        load_spec(str(file))


def test_a_workload_file_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read workload file /no/such.toml"):
        load_spec("/no/such.toml")


def test_a_mix_must_be_sent_at_least_once() -> None:
    with pytest.raises(UsageError, match="--repeat-mix is 0"):
        build_workload(SPEC, BACKLOG, repeat_mix=0, seed=1)


@pytest.mark.parametrize("name", names())
def test_every_workload_that_ships_can_be_loaded(name: str) -> None:
    assert load_spec(name).name == name


def test_in_stages_the_mix_is_cycled_until_they_end() -> None:
    workload = build_workload(SPEC, STAGES, None, seed=1)

    labels = [a.request.label for a in workload.arrivals]
    assert len(labels) > 8
    assert labels == [SPEC.requests[i % 8].label for i in range(len(labels))]
    assert workload.title == "eight-agents stages 2/s over 10 s, 1-3/s over 10 s"


def test_in_stages_another_seed_sends_another_number_of_requests_of_the_same_shape() -> None:
    workloads = [build_workload(SPEC, STAGES, None, seed) for seed in range(6)]

    assert len({len(w.arrivals) for w in workloads}) > 1
    assert len({w.shape_digest for w in workloads}) == 1
    assert len({w.digest for w in workloads}) == 6


def test_stages_without_a_request_are_refused() -> None:
    load = Load(LoadKind.STAGES, stages=parse_stages("0.001:1"))

    with pytest.raises(UsageError, match="--stages, .*has no request with seed 1; make it longer"):
        build_workload(SPEC, load, None, seed=1)
