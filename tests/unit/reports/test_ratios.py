"""The figure of a comparison's ratios."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.gate.comparison import Comparison, ComparisonTable
from reports.figures import Figure
from reports.ratios import ratio_figures


def drawn(*rows: Comparison) -> Figure:
    table = ComparisonTable("base", "<b>new</b>", "SmolLM2", (), 3, 3, rows, ())
    (figure,) = ratio_figures([table])
    return figure


def row(metric: str, ratio: float | None, lo: float | None = None, hi: float | None = None) -> Any:
    return Comparison(metric, 1.0, ratio, ratio, lo, hi, None if ratio else "why")


CLEAR = row("output_tok_s", 1.5, 1.4, 1.6)


def test_each_ratio_tells_itself_and_its_interval() -> None:
    figure = drawn(CLEAR, row("ttft_s_p50", 0.99, 0.8, 1.2), row("e2e_s_p50", 2.0))

    assert [(s.series, s.points[0][2].partition(", ")[0]) for s in figure.points] == [
        ("output tok/s", "1.50x"),
        ("TTFT p50", "~ 0.99x"),
        ("end-to-end latency p50", "2.00x"),
    ]
    assert "95 % interval" in figure.points[0].points[0][2]


def test_good_news_is_green_bad_news_orange_and_what_is_not_shown_grey() -> None:
    colours = {
        ratio: set(re.findall(r"stroke: (#029e73|#d55e00)", drawn(found).svg or ""))
        for ratio, found in {
            "better": CLEAR,
            "worse": row("ttft_s_p50", 1.5, 1.4, 1.6),
            "unclear": row("ttft_s_p50", 1.1, 0.9, 1.3),
            "no interval": row("ttft_s_p50", 1.5),
        }.items()
    }
    assert colours == {
        "better": {"#029e73"}, "worse": {"#d55e00"}, "unclear": set(), "no interval": set(),
    }  # fmt: skip


def test_two_times_and_half_lie_equally_far_from_one() -> None:
    figure = drawn(row("output_tok_s", 2.0), row("request_s", 1.0), row("ttft_s_p50", 0.5))

    twice, once, half = (series.points[0][0] for series in figure.points)
    assert twice - once == pytest.approx(once - half, abs=0.2)


@pytest.mark.parametrize("rows", [(), (row("output_tok_s", None),), (row("output_tok_s", 0.0),)])
def test_without_a_ratio_there_are_words(rows: tuple[Comparison, ...]) -> None:
    figure = drawn(*rows)
    assert (figure.svg, figure.reason) == (None, "no metric has a ratio")


@pytest.mark.parametrize(
    "found", [row("output_tok_s", 1.0, 1.0, 1.0), row("output_tok_s", 1.2, 1e-200, 1e200)]
)
def test_an_interval_of_no_width_or_without_end_is_drawn(found: Comparison) -> None:
    figure = drawn(found)
    paths = " ".join(re.findall(r' d="([^"]*)"', figure.svg or ""))
    assert paths
    assert "nan" not in paths
    assert "inf" not in paths
    ticks = re.findall(r">([\d.]+)x<", figure.svg or "")
    assert "1" in ticks


def test_names_of_engines_are_text() -> None:
    assert "<b>" not in (drawn(CLEAR).svg or "")
