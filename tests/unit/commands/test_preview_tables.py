"""A preview as it is printed: figures, what is not known and why, and bars."""

from __future__ import annotations

import numpy as np
import pytest

from harness.commands.preview_tables import BAR_COLUMNS, bars, preview_tables, source_lines
from harness.core.source import LostRows, Source
from harness.gate.cells import Table
from workloads.preview import preview_shapes
from workloads.shape import PrefixBlocks, Shape

S = 1_000_000_000


def text_of(tables: list[Table]) -> str:
    lines = []
    for table in tables:
        lines += [table.title, *(" | ".join(cell.text for cell in row) for row in table.rows)]
        lines += table.notes
    return "\n".join(lines)


def printed(shapes: list[Shape]) -> str:
    return text_of(list(preview_tables(preview_shapes(shapes))))


def test_a_trace_with_times_has_its_rate_its_burstiness_and_what_it_offers() -> None:
    said = printed([Shape(100, 20 + k % 3, due_ns=k * S) for k in range(31)])

    assert "requests | 31" in said
    assert "arrivals | 1.00/s" in said
    assert "CV of gaps (Poisson: 1) | 0.00" in said
    assert "variance / mean of counts in 1 s (Poisson: 1) | 0.00" in said
    assert "prompt tokens offered | 103 tok/s" in said
    assert "Arrivals over time" in said
    assert "fewer than 10 windows" in said


def test_a_trace_without_times_says_so_and_draws_no_arrivals() -> None:
    said = printed([Shape(100, 20), Shape(200, 20)])

    assert "the source has no times" in said
    assert "Arrivals over time" not in said
    assert "Prompt tokens" in said


def test_texts_say_that_a_tokenizer_is_wanted() -> None:
    said = printed([Shape(None, None, text="hello"), Shape(None, 3, text="world")])

    assert "--tokenizer" in said
    assert "1 of 2 requests have no answer length of their own" in said


def test_answers_that_are_texts_need_a_tokenizer_and_are_not_said_to_be_missing() -> None:
    said = printed([Shape(None, None, text="hi", answer="Hello", due_ns=k * S) for k in range(3)])

    assert "the prompts are text; to count their tokens name a model with --tokenizer" in said
    assert "the answers are text; to count their tokens name a model with --tokenizer" in said
    assert "does not say how long" not in said
    assert "due at once" not in said, "these come one a second"
    assert "arrivals | 1.00/s" in said


def test_answers_of_which_only_some_are_texts_are_counted_apart() -> None:
    said = printed([Shape(5, 3), Shape(5, None, answer="Hello"), Shape(5, None)])

    assert "1 of 3 requests have no answer length without a tokenizer" in said
    assert "1 of 3 requests have no answer length of their own" in said


def test_answers_of_unknown_length_say_how_to_give_one() -> None:
    assert "--output-tokens" in printed([Shape(5, None), Shape(6, None)])


def test_what_is_shared_is_told_in_blocks() -> None:
    shared = [Shape(1024, 1, blocks=PrefixBlocks((0, k), 512)) for k in (1, 2)]

    assert "prompt blocks seen before | 25.00 % of 4 of 512" in printed(shared)


def test_an_empty_workload_is_printed_too() -> None:
    assert "requests | 0" in printed([])


@pytest.mark.parametrize("counts", [(1, 1000), (3, 3), (0, 5)])
def test_a_bar_is_as_long_as_its_count_and_never_hides_one(counts: tuple[int, int]) -> None:
    values = np.array([0.0] * counts[0] + [12.0] * counts[1])
    rows = bars("t", "from", "n", values, str).rows
    drawn = [row[2].text for row in rows]

    assert max(drawn, key=len) == "█" * BAR_COLUMNS
    assert sum(bool(bar) for bar in drawn) == sum(bool(count) for count in counts)


def test_a_source_names_its_file_its_format_its_time_and_every_loss() -> None:
    source = Source(
        "trace.csv", "f" * 64, "burstgpt", is_guessed=True, time="seconds, from the first row",
        licence="CC-BY-4.0", losses=(LostRows("dropped", "no answer", 3, 7),),
    )  # fmt: skip
    said = "\n".join(source_lines(source))

    assert "trace.csv: format burstgpt (detected), sha256 ffffffffffffffff" in said
    assert "times: seconds, from the first row" in said
    assert "licence: CC-BY-4.0" in said
    assert "3 rows dropped: no answer (first: row 7)" in said
