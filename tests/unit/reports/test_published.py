from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from harness.gate.comparison import ComparisonTable, compare
from harness.gate.topics import reverse
from reports.published import (
    Kind,
    Published,
    claim_facts,
    claim_table,
    find_claim,
    fitting,
    published_claims,
    published_table,
    read_claims,
)

FILE = """
source = "Somebody, a blog"
url = "https://example.org/blog"
date = "2024-01"
does_not_say = "Nothing of latency."

[[claims]]
name = "somebody-2024"
system = "X"
baseline = "Y"
metric = "throughput"
kind = "up to"
value = [23]
unit = "x"
model = "M"
hardware = "1x A100"
workload = "W"
read_from = "text"
does_not_say = "A small batch."
topics = ["continuous over static"]
"""


def compared(build: Any, base: str, cand: str) -> ComparisonTable:
    sides = [
        build.summary([build.record()], engine=replace(build.manifest().engine, policy=policy))
        for policy in (base, cand)
    ]
    return compare(base, sides[:1], cand, sides[1:], paired=True)


def names(claims: tuple[Published, ...]) -> set[str]:
    return {claim.name for claim in claims}


def test_a_claim_has_what_its_file_says_and_what_it_does_not_say() -> None:
    (claim,) = read_claims(FILE)

    assert claim.said == "X: up to 23x throughput vs Y"
    assert (claim.source, claim.date) == ("Somebody, a blog", "2024-01")
    assert claim.does_not_say == "A small batch. Nothing of latency."


@pytest.mark.parametrize(
    ("kind", "value", "unit", "said"),
    [
        ("measured", "[81]", "tok/s", "81 tok/s"),
        ("measured", "[158596]", "tok/s", "158,596 tok/s"),
        ("measured", "[0.185]", "req/s", "0.185 req/s"),
        ("about", "[1900]", "tok/s", "about 1,900 tok/s"),
        ("range", "[1.7, 2.7]", "x", "1.7x to 2.7x"),
        ("limit", "[2000, 200]", "ms", "2,000 ms / 200 ms"),
    ],
)
def test_every_published_digit_is_shown(kind: str, value: str, unit: str, said: str) -> None:
    text = FILE.replace('"up to"', f'"{kind}"').replace("[23]", value).replace('"x"', f'"{unit}"')
    assert read_claims(text)[0].amount == said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('unit = "x"', ""),
        ('unit = "x"', 'unit = "x"\ncolour = "red"'),
        ('kind = "up to"', 'kind = "certainly"'),
        ("value = [23]", 'value = ["23"]'),
    ],
)
def test_a_file_with_a_wrong_key_is_not_read(old: str, new: str) -> None:
    with pytest.raises(ValueError, match="unit|colour|certainly|23"):
        read_claims(FILE.replace(old, new))


def test_every_claim_that_ships_is_whole() -> None:
    claims = published_claims()

    assert len(claims) == len(names(claims)) >= 77
    for claim in claims:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", claim.name), claim.name
        assert claim.url.startswith("https://"), claim.name
        for text in (claim.source, claim.date, claim.model, claim.hardware, claim.workload,
                     claim.metric, claim.system, claim.read_from):  # fmt: skip
            assert text.strip(), claim.name
            assert text not in ("same", "as above", "-"), claim.name
        assert len(claim.does_not_say) > 20, claim.name
        assert len(claim.value) == (2 if claim.kind in (Kind.RANGE, Kind.LIMIT) else 1), claim.name
        assert claim.unit != "x" or claim.baseline is not None, claim.name
        assert not [t for t in claim.topics if t != reverse(reverse(t))], claim.name


def test_the_number_everybody_quotes_is_there_with_its_terms() -> None:
    claim = find_claim("anyscale-2023-vllm-ratio")

    assert claim is not None
    assert claim.said == "vLLM: up to 23x total token throughput vs HF Pipelines static"
    assert (claim.model, claim.hardware) == ("facebook/opt-13b", "1x A100 40GB")
    assert "Tokens of prompts count" in claim.does_not_say
    assert find_claim("nobody") is None


def test_only_claims_on_what_was_compared_are_shown_whichever_way_round(build: Any) -> None:
    there = fitting([compared(build, "static", "continuous")], [])
    back = fitting([compared(build, "continuous", "static")], [])
    other = fitting([compared(build, "dynamic", "continuous")], [])

    assert "anyscale-2023-vllm-ratio" in names(there) == names(back)
    assert "anyscale-2023-fastertransformer-ratio" not in names(there)
    assert names(other) == {"orca-2022-175b-ratio", "vllm-2023-vs-ft"}
    assert fitting([compared(build, "static", "static")], []) == fitting([], []) == ()


def test_limits_are_shown_for_their_own_model_only(build: Any) -> None:
    facts = build.manifest().facts
    manifests = [
        build.manifest(facts=replace(facts, model=model))
        for model in ("meta-llama/Llama-3.1-8B-Instruct", "SmolLM2-135M")
    ]

    assert names(fitting([], manifests[:1])) == {
        "mlperf-llama3.1-8b-server-slo", "mlperf-llama3.1-8b-interactive-slo",
    }  # fmt: skip
    assert fitting([], manifests[1:]) == ()


def test_claims_stand_under_a_title_that_says_whose_they_are() -> None:
    (claim,) = read_claims(FILE)
    table = claim_table([claim])

    assert table.title == "Claims by others, not your baseline"
    assert [cell.text for cell in table.rows[0]] == [
        "X: up to 23x throughput vs Y",
        "M, 1x A100; W",
        "Somebody, a blog, 2024-01; example.org/blog",
        "A small batch. Nothing of latency.",
    ]
    assert claim_table([]).rows == ()


def test_all_of_a_claim_can_be_read() -> None:
    (claim,) = read_claims(FILE)
    facts = {row[0].text: row[1].text for row in claim_facts(claim).rows}

    assert facts["Compared to"] == "Y"
    assert facts["Does not say"] == "A small batch. Nothing of latency."
    assert published_table([claim]).rows[0][0].text == "somebody-2024"
    lone = replace(claim, baseline=None)
    assert claim_facts(lone).rows[4][1].text == "nothing: it is no ratio"
