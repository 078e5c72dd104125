"""The glossary: every number is explained in full, and every word is found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.column_words import COLUMNS
from harness.analyzer.glossary import GLOSSARY, Entry, Kind, entries_of, find_entry, name_of
from harness.analyzer.metric_words import made_of
from harness.analyzer.metrics import METRICS
from harness.analyzer.term_words import ALSO, FORMULAS, LATENCIES, TERMS
from harness.core.errors import UsageError

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"


def words_of_the_design() -> list[str]:
    """The words that the design of record agrees on, as its section about words lists them."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition("Words\n")[2], flags=re.MULTILINE)[0]
    listed = re.sub(r"\([^)]*\)", "", section.partition(". ")[0])
    return [word.strip() for word in re.split(r"[·,]", listed)]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_has_a_definition_a_formula_a_unit_a_weighting_and_a_source(metric: Any) -> None:
    entry = find_entry(metric.name)

    assert entry == find_entry(metric.title)
    assert entry.kind is Kind.METRIC
    said = (entry.definition, entry.formula, entry.unit, entry.weighting, entry.source)
    assert all(said)


def test_statistics_of_one_latency_are_made_of_the_same_formula() -> None:
    base = made_of("ttft_s")

    assert made_of("ttft_s_p99") == replace(base, formula=f"P99 of {base.formula}")
    assert made_of("ttft_s_max") == replace(base, formula=f"largest {base.formula}")


def test_a_metric_that_nobody_has_explained_is_an_error() -> None:
    with pytest.raises(KeyError):
        made_of("wishes_s_p50")


def test_every_word_of_the_design_is_explained() -> None:
    words = words_of_the_design()

    assert {"request", "due", "baseline", "slot", "step", "KV block"} <= set(words)
    assert [word for word in words if not name_of(word)] == []


def test_a_name_is_there_once_and_can_be_an_anchor() -> None:
    counts = Counter(entry.name for entry in GLOSSARY)

    assert [name for name, count in counts.items() if count > 1] == []
    assert [name for name in counts if not re.fullmatch(r"[A-Za-z0-9_-]+", name)] == []


def test_every_name_title_and_other_word_leads_to_its_own_entry() -> None:
    wrong = [
        (word, find_entry(word).name)
        for entry in GLOSSARY
        for word in (entry.name, entry.title, *entry.also)
        if find_entry(word) != entry
    ]

    assert wrong == []


def test_what_is_said_beside_a_word_belongs_to_a_word() -> None:
    words = {*TERMS, *COLUMNS, *(metric.name for metric in METRICS)}

    assert {*FORMULAS, *ALSO, *LATENCIES} <= words
    assert set(TERMS) & set(COLUMNS) == set()


@pytest.mark.parametrize("word", ["KV block", "kv-block", "KV_BLOCKS", " kv  block "])
def test_case_does_not_matter_nor_what_stands_between_words(word: str) -> None:
    assert find_entry(word).title == "KV block"


def test_requests_are_not_taken_for_requests_a_second() -> None:
    assert find_entry("Requests").title == "request"
    assert find_entry("request_s").title == "requests/s"


def test_an_unknown_word_is_answered_with_words_that_are_near() -> None:
    with pytest.raises(UsageError, match="'tfft' is neither a run folder nor .* TTFT"):
        find_entry("tfft")
    with pytest.raises(UsageError, match="without a word all are listed"):
        find_entry("xyzzy!")
    assert name_of("xyzzy!") == ""


def test_entries_come_in_the_order_of_the_glossary_and_unknown_words_have_none() -> None:
    found = entries_of(["ratio", "an engine's name", "request", "ratio"])

    assert [entry.name for entry in found] == ["request", "ratio"]


def test_nothing_that_is_said_is_blank_or_ends_in_the_middle() -> None:
    for entry in GLOSSARY:
        assert entry.definition.strip() == entry.definition != ""
        said = (getattr(entry, field.name) for field in fields(Entry) if field.name != "also")
        assert not any("  " in text for text in said)
        if entry.kind is not Kind.CAUTION:
            assert entry.definition.endswith("."), entry.title
