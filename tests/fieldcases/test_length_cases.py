"""Kind E of the field cases: lengths that were not those asked for, and traces that were stretched.
The numbers of issues are where somebody met the fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.analyzer.summary import CheckVerdict, Summary
from harness.cli import app
from harness.core.errors import UsageError
from harness.core.jsonable import from_json
from harness.core.source import SourceFlags
from workloads.lengths import LengthKind, Lengths, checked, drawer
from workloads.materialise import PromptKind, PromptOptions, materialise
from workloads.shape import Shape
from workloads.trace_workload import TracePlan, open_requests

DAY_MS = 86_400_000


class Spaced:
    """A tokenizer that puts a special token before a text, unless it is asked not to."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: tuple[int, ...]) -> str:
        return "".join(map(chr, token_ids))


@pytest.mark.parametrize("kind", list(PromptKind))
@pytest.mark.parametrize("count", [1, 2])
def test_e02_a_prompt_of_one_token_is_not_empty(kind: PromptKind, count: int) -> None:
    """vllm#24591: the special tokens were taken off a length of 1, and nothing was left."""
    options = PromptOptions(token_ids=(97, 123), kind=kind, tokenizer=Spaced())
    made = list(materialise([Shape(count, 1)] * 20, options, 1))

    assert {len(arrival.request.prompt_token_ids) for arrival in made} == {count}


def test_e02_a_prompt_of_no_tokens_is_refused() -> None:
    with pytest.raises(UsageError, match="request 0 has 0 prompt tokens.*at least 1"):
        list(materialise([Shape(0, 1)], PromptOptions(), 1))


def verdict(summary: Summary, check: str) -> CheckVerdict:
    return next(c.verdict for c in summary.checks if c.id == check)


@pytest.mark.parametrize(
    ("sent_as", "expected"), [("token ids", CheckVerdict.INVALID), ("text", CheckVerdict.WARN)]
)
def test_e03_the_server_counts_another_number_of_prompt_tokens_and_both_are_said(
    build: Any, sent_as: str, expected: CheckVerdict
) -> None:
    """vllm#42532: 1000 tokens of the client's tokenizer were 5128 of the server's."""
    facts = replace(build.manifest().facts, settings={"prompts_sent_as": sent_as})
    records = [build.record(i, prompt_tokens_asked=1000, prompt_tokens=5128) for i in range(4)]
    summary = build.summary(records, facts=facts)

    assert verdict(summary, "V17") is expected
    said = next(c.value for c in summary.checks if c.id == "V17")
    assert "4 of 4 requests differ" in said
    assert "1000 sent, 5128 read" in said
    assert summary.value("prompt_tokens") == 4 * 5128


def test_e08_more_requests_than_a_trace_has_are_refused(tmp_path: Path) -> None:
    """vllm#13063: four rows were sent over again until there were ten, and found in caches."""
    path = tmp_path / "burst.csv"
    rows = [f"{k},ChatGPT,{40 + k},{5 * (k != 2)},0,API log\n" for k in range(5)]
    path.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "".join(rows)
    )
    plan = TracePlan(path, SourceFlags(requests=10), None, 1)

    with pytest.raises(UsageError, match="--requests is 10, but burst.csv has only 4"):
        list(open_requests(plan).arrivals(PromptOptions(), 1, None))


def test_e11_a_schedule_of_more_than_a_day_has_to_be_meant(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """inference-sim#1606: times in another unit made every request time out, days later."""
    monkeypatch.chdir(tmp_path)
    row = '{"timestamp": %d, "input_length": 20, "output_length": 2, "hash_ids": [%d]}\n'
    (tmp_path / "week.jsonl").write_text("".join(row % (day * DAY_MS, day) for day in range(8)))
    model = ("--model", str(tiny_model), "--dtype", "float32", "--out", "job")
    result = CliRunner().invoke(app, ["run", "week.jsonl", *model])

    assert result.exit_code == 2
    assert "due over 7.0 days; if that is meant add --yes" in result.stderr
    assert not Path("job").exists()


def test_e17_bounds_of_lengths_are_named_outright_and_lengths_lie_between_them() -> None:
    """aiperf#850: the same range ratio was [rL, L] to one tool and [L(1-r), L(1+r)] to another."""
    length = drawer(checked(Lengths(LengthKind.UNIFORM, least=6554, most=8192), "prompt"))
    drawn = [length((k + 0.5) / 1000) for k in range(1000)]

    assert (min(drawn), max(drawn)) == (6554, 8192)
    assert fmean(drawn) == pytest.approx((6554 + 8192) / 2, rel=0.001)
    with pytest.raises(ValueError, match="range_ratio"):
        from_json(Lengths, {"kind": "uniform", "range_ratio": 0.8, "most": 8192})


def test_e18_answers_of_other_lengths_than_asked_make_a_run_invalid(build: Any) -> None:
    """dynamo#3731, vllm#8531: an engine without ignore_eos answered as briefly as it liked."""
    short = [build.record(i, [10, 20], asked=64) for i in range(4)]
    summary = build.summary(short)

    assert verdict(summary, "V16") is CheckVerdict.INVALID
    (said,) = [c.message for c in summary.cautions if c.code == "OUTPUT_NOT_AS_ASKED"]
    assert said.startswith("4 request(s) returned another number of tokens")
