"""Same work? Real engines on a tiny model in float32, compared answer by answer through the program."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.reading import read_run
from harness.core.marks import marks_of_ids

LONGEST = 24


def agreement_in(path: Path) -> dict[str, Any]:
    (table,) = json.loads(path.read_text())
    return table["agreement"]  # type: ignore[no-any-return]


def edited(run: Path, copy: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run folder with each record edited."""
    shutil.copytree(run, copy)
    lines = (run / "requests.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        edit(record)
    (copy / "requests.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return copy


def compared(program: Any, candidate: Path) -> str:
    baseline = program.folder / "job" / "inhouse-static"
    result = program("compare", str(candidate), "--baseline", str(baseline))
    assert result.returncode == 0, result.stderr
    return result.stdout  # type: ignore[no-any-return]


def test_static_and_continuous_batching_give_the_same_answers_in_float32(alike: Any) -> None:
    found = agreement_in(alike.folder / "job" / "comparison.json")

    assert (found["unit"], found["prompts"], found["same"]) == ("token", 12, 12)
    assert (found["other_length"], found["first_difference_p50"]) == (0, None)
    side = {"answers": 12, "tokens_p50": 8, "tokens_p99": LONGEST, "empty": 0}
    assert found["baseline"] == found["candidate"]
    assert side.items() <= found["baseline"].items()
    assert found["lengths_p"] == 1.0


def test_every_answer_is_marked_by_its_ids_and_by_its_text(alike: Any) -> None:
    for record in read_run(alike.folder / "job" / "inhouse-static").requests:
        assert record.ids_marks is not None
        assert record.text_marks is not None
        assert len(record.ids_marks) == len(marks_of_ids(range(record.output_tokens or 0)))


def test_the_agreement_stands_beside_the_speed(alike: Any) -> None:
    printed = (alike.folder / "stdout.txt").read_text()
    page = (alike.folder / "job" / "report.html").read_text()

    assert "Same work?" in printed
    assert "12 (100.0 %)" in printed
    assert "Same work?" in page
    assert "12 (100.0 %)" in page
    assert "ANSWERS_DIFFER" not in printed


@pytest.mark.slow
def test_the_same_run_again_gives_the_same_answers(alike: Any) -> None:
    again = alike.run_tiny("--policy", "static", "--repeat-mix", "3", "--seed", "5", out="again")
    assert alike.measured(again), again.stderr

    job, other = (read_run(alike.folder / f / "inhouse-static").requests for f in ("job", "again"))
    assert [(r.index, r.ids_marks, r.text_marks) for r in job] == [
        (r.index, r.ids_marks, r.text_marks) for r in other
    ]


def test_an_engine_that_answers_otherwise_is_a_caution(alike: Any, tmp_path: Path) -> None:
    def answer_otherwise(record: dict[str, Any]) -> None:
        record["ids_marks"] = marks_of_ids([1, 2, 3])

    run = alike.folder / "job" / "inhouse-continuous"
    printed = compared(alike, edited(run, tmp_path / "other", answer_otherwise))

    assert "caution ANSWERS_DIFFER: 0 of 12 answers are the same" in printed
    assert "in bfloat16 rounding alone can do this" in printed


def test_a_run_of_an_older_version_says_that_nothing_could_be_compared(
    alike: Any, tmp_path: Path
) -> None:
    def forget(record: dict[str, Any]) -> None:
        del record["ids_marks"], record["text_marks"]

    run = alike.folder / "job" / "inhouse-continuous"
    printed = compared(alike, edited(run, tmp_path / "older", forget))

    assert "not compared" in printed
    assert "the records of the candidate hold no marks of answers" in printed
