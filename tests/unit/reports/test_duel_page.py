"""The page and the pictures of a duel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from harness.gate.attempt import Attempt
from harness.gate.duel import Duel
from reports.duel_page import render_duel
from reports.pairs import pair_figure, pair_figures


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


def page(build: Any, found: Duel) -> str:
    return render_duel(found, [build.manifest(), build.manifest()])


def headline(text: str) -> str:
    inner = text.partition("</header>")[0].partition("<main")[2].partition(">")[2]
    return " ".join(re.sub(r"<[^>]+>", " ", inner).split())


def test_the_page_opens_with_the_verdict_and_the_ratios(
    build: Any, clear_duel: Callable[..., Duel]
) -> None:
    text = page(build, clear_duel())
    said = headline(text)

    assert "inhouse-continuous against inhouse-static" in said
    assert "PASS" in said
    assert re.search(r"1\.50\w* output tok/s, ", said)
    assert "n = 5 pairs, p &lt; 0.001" in said
    for words in (
        "batchmark duel inhouse-static inhouse mix --seed 1",
        "What the gate says",
        "Student&#39;s t",
        "pair-1-A-inhouse-static",
        "the hollow dot is inhouse-static",
    ):
        assert words in text


def test_the_page_is_whole_and_fetches_nothing(build: Any, clear_duel: Callable[..., Duel]) -> None:
    text = page(build, clear_duel())
    seen = Outline(text)

    assert seen.open == []
    assert len(set(seen.ids)) == len(seen.ids)
    assert {"headline", "gate", "metrics", "pairs", "cautions", "method", "definitions"} <= set(
        seen.ids
    )
    assert text.count("<svg") == 4
    assert "<AMD>" not in text
    after_policy = text.partition("Content-Security-Policy")[2].partition(">")[2]
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", after_policy)
    assert text == page(build, clear_duel())


def test_a_picture_says_each_pair_in_words_too(clear_duel: Callable[..., Duel]) -> None:
    figure = pair_figure(clear_duel().metric("output_tok_s"))

    assert figure.svg is not None
    (spoken,) = re.findall(r"<desc[^>]*>(.*?)</desc>", figure.svg)
    said = "pair 1: 1.50x; pair 2: 1.51x; pair 3: 1.49x; pair 4: 1.50x; pair 5: 1.50x; all: 1.50"
    assert spoken.startswith(said)
    assert figure.caption == "Further right is better."


def test_no_difference_is_a_tilde_in_the_picture(duels: Any) -> None:
    found = duels.duel(duels.pairs((1.02, 0.98, 1.01, 0.99, 1.0)))
    figure = pair_figure(found.metric("ttft_s_p50"))

    assert figure.svg is not None
    assert re.search(r"all: ~ 1\.00\w*</desc>", figure.svg)
    assert figure.caption == "Further left is better."


def test_equal_values_still_make_an_axis(duels: Any) -> None:
    assert all(figure.svg for figure in pair_figures(duels.duel(duels.pairs((1.0, 1.0, 1.0)))))


def test_a_metric_without_a_ratio_says_why_in_the_place_of_the_picture(
    build: Any, clear_duel: Callable[..., Duel]
) -> None:
    found = clear_duel()
    gone = tuple(replace(m, ratio=None, reason="candidate: it <died>") for m in found.metrics)
    text = page(build, replace(found, metrics=gone))

    assert text.count("Not drawn:") == 4
    assert "it &lt;died&gt;" in text


def test_a_duel_that_was_stopped_says_so_and_claims_nothing(build: Any, duels: Any) -> None:
    good = duels.pairs((1.5,))[0]
    cut = replace(good, candidate=Attempt("pair-1-B", failure="it <died>"))
    text = page(build, duels.duel([cut], stopped="pair-1-B: it <died>"))

    assert "NO VERDICT pair-1-B: it &lt;died&gt;" in headline(text)
    assert "1 of 1 pairs do not count: pair 1: pair-1-B is FAILED" in headline(text)
    assert "No pair counts" in text
    assert "<svg" not in text
    assert render_duel(duels.duel([]), [])


def test_what_was_allowed_to_differ_stands_first(
    build: Any, clear_duel: Callable[..., Duel]
) -> None:
    said = headline(page(build, clear_duel(allowed=("cores: 2 / 64",))))

    assert said.startswith("NOT ALIKE, compared because of --allow: cores: 2 / 64")
