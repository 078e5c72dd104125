"""The page and the pictures of an ablation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.metrics import find_metric
from harness.analyzer.summary import MetricValue
from harness.commands.ablate import ABLATION
from harness.commands.plot import plot
from harness.core.ablation_plan import LADDER
from harness.core.plot_flags import PlotFlags
from harness.core.rundir import write_json
from harness.gate.ablation import METRICS, Ablation, AblationLevel, climb
from harness.gate.attempt import RunOutcome
from reports.waterfall import waterfall, waterfalls
from reports.waterfall_page import render_ablation

HEIGHTS = (10.0, 10.1, 15.0, 15.0, 12.0)


class Outline(HTMLParser):
    """Which ids there are, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def ablation(
    heights: Sequence[float | None] = HEIGHTS, noise: Sequence[float] = (1, 1.02, 0.97)
) -> Ablation:
    """Levels that are `heights` times as fast, give or take a noise of each round's own."""
    skew = (1.0, 1.01, 0.99)

    def reading(name: str, height: float | None, level: int, index: int) -> MetricValue:
        if height is None or name.endswith("_p99"):
            return MetricValue(name, None, "32 requests cannot support p99")
        value = height * noise[index] * skew[(level + index) % 3]
        return MetricValue(name, value if name == "output_tok_s" else 1 / value)

    columns = [
        climb([[reading(n, h, k, i) for i in range(len(noise))] for k, h in enumerate(heights)])
        for n in METRICS
    ]
    levels = tuple(
        AblationLevel(
            key=rung.key,
            name=rung.name,
            adds=(rung.adds,),
            runs=tuple(RunOutcome(f"{rung.name}-{i}", "VALID") for i in range(len(noise))),
            values=tuple(column[k] for column in columns),
            remarks=("paged KV cache was not at work: it was idle",) * (rung.key == "paged"),
        )
        for k, rung in enumerate(LADDER[: len(heights)])
    )
    command = ("batchmark", "ablate", "eight-agents", "--seed", "7")
    context = "SmolLM2 bf16, 2-core <AMD>, eight-agents x4 backlog"
    return Ablation("inhouse-static", context, command, "1", "now", (7, 8, 9), levels, ())


def page(build: Any, made: Ablation) -> str:
    return render_ablation(made, [build.manifest()])


def test_the_page_names_the_baseline_and_what_each_step_is_worth(build: Any) -> None:
    text = page(build, ablation())
    headline = re.sub(r"<[^>]+>|\s+", " ", text.split("</header>")[0].split("</style>")[1])

    assert "1.200x output tok/s, inhouse-continuous-paged-chunked vs inhouse-static (SmolLM2" in " ".join(headline.split())  # fmt: skip
    assert "of it by continuous batching" in headline
    for words in (
        "batchmark ablate eight-agents --seed 7",
        "paged KV cache was not at work",
        "32 requests cannot support p99",
        "A slot that falls free is filled at the next step",
        "Student&#39;s t",
    ):
        assert words in text


def test_the_page_is_whole_and_fetches_nothing(build: Any) -> None:
    text = page(build, ablation())
    seen = Outline(text)

    assert seen.open == []
    assert len(set(seen.ids)) == len(seen.ids)
    assert {"headline", "levels", "steps", "cautions", "method", "definitions"} <= set(seen.ids)
    assert text.count("<svg") == 4
    assert "<AMD>" not in text
    after_policy = text.partition("Content-Security-Policy")[2].partition(">")[2]
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", after_policy)
    assert text == page(build, ablation())


def test_a_picture_says_each_step_in_words_too() -> None:
    figure = waterfall(ablation(), find_metric("output_tok_s"))

    assert figure.svg is not None
    spoken = re.findall(r"<desc[^>]*>(.*?)</desc>", figure.svg)[0]
    assert "static batching: 9.96 tok/s; + dynamic batching: 10.1 tok/s, ~ 1.010x" in spoken
    assert "+ continuous batching: 14.9 tok/s, 1.485x" in spoken
    assert figure.caption == "Longer is better."


def test_a_level_without_a_value_leaves_a_gap_and_no_step(build: Any) -> None:
    made = ablation((10.0, None, 15.0))
    figure = waterfalls(made)[0]

    assert figure.svg is not None
    assert "+ dynamic batching: no value; + continuous batching: 14.9 tok/s</desc>" in figure.svg
    assert "no ratio" not in page(build, made)


def test_without_any_value_the_reason_stands_in_the_place_of_the_picture(build: Any) -> None:
    made = ablation((None, None))

    assert [figure.svg for figure in waterfalls(made)] == [None] * 4
    assert page(build, made).count("Not drawn:") == 4
    assert "no ratio" in page(build, made)


@pytest.mark.parametrize("noise", [(1.0,), (1.0, 1.1)])
def test_few_rounds_draw_no_interval_and_claim_nothing_clear(
    build: Any, noise: Sequence[float]
) -> None:
    made = ablation(noise=noise)

    assert "~ 1" not in page(build, made)
    assert f"{len(noise)} round(s) give no interval" in page(build, made)


def test_a_run_that_does_not_count_is_said_in_the_headline(build: Any) -> None:
    made = ablation()
    cut = replace(made.levels[1], runs=(RunOutcome("inhouse-dynamic-1", "FAILED", "it <died>"),))
    text = page(build, replace(made, levels=(made.levels[0], cut, *made.levels[2:])))

    assert "do not count: inhouse-dynamic-1 is FAILED" in text.split("</header>")[0]
    assert "it &lt;died&gt;" in text


def test_an_ablation_that_was_kept_is_drawn_into_a_file(tmp_path: Path) -> None:
    write_json(tmp_path / ABLATION, ablation())
    plot(PlotFlags((tmp_path,), "waterfall", out=tmp_path / "steps.svg"))

    text = (tmp_path / "steps.svg").read_text()
    assert "+ dynamic batching" in text
    assert "levels from inhouse-static" in text


def test_each_bar_tells_its_value() -> None:
    points = waterfall(ablation(), find_metric("output_tok_s")).points

    assert points[0].series == "static batching"
    assert points[0].points[0][2] == "9.96 tok/s"
