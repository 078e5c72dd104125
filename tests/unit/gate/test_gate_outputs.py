"""What other programs read of a decision, and hostile words in each format."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.core.errors import UsageError
from harness.gate.decision import Decision, decide
from harness.gate.decision_table import decision_table, headline, lines_of, percent
from harness.gate.gate_outputs import Comment, github_commands, junit, markdown
from harness.gate.rules import GateRules, OnInconclusive
from harness.gate.verdict import Verdict

HOSTILE = (
    "</td><script>alert(1)</script>",
    "a | b ` c *d* _e_ ~~f~~ [g](http://h) ![i](j)",
    "@everyone see #1 <!-- x --> -->",
    "::error::owned%0A::set-output name=a::b",
    "line\nbreak\r\n::warning::x",
    "\x00\x1b[31m\ufffe]]>&amp;",
)


def decided(gating: Any, ratios: list[float], **changes: Any) -> Decision:
    rules = GateRules(**changes)
    return decide(gating.pairs("ttft_s_p50", ratios), rules, is_last_look=True)


FAILING = [1.2, 1.21, 1.2, 1.21, 1.2]
UNCLEAR = [1.02, 1.07, 1.03, 1.06, 1.01]
SAME = [1.0, 1.001, 0.999, 1.0, 1.001]


def hostile(decision: Decision, words: str) -> Decision:
    """`decision` with `words` wherever a file from elsewhere could have put them."""
    return replace(
        decision,
        baseline_name=words,
        candidate_name=words,
        context=words,
        reasons=(words,),
        factors=(words,),
        left_out=(words,),
        allowed=(words,),
        metrics=tuple(replace(m, level=words + str(i), said=words) for i, m in enumerate(decision.metrics)),
        cautions=tuple(replace(c, message=words) for c in decision.cautions),
    )  # fmt: skip


def test_the_headline_says_what_was_held_against_what(gating: Any) -> None:
    assert headline(decided(gating, FAILING)) == (
        "FAIL: inhouse-continuous against inhouse-static "
        "(SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents x4 backlog), 5 pairs"
    )


def test_what_may_differ_by_leave_is_said_first(gating: Any) -> None:
    decision = replace(decided(gating, SAME), allowed=("cores: 2 / 64",))
    assert lines_of(decision)[0] == "NOT ALIKE, compared because of --allow: cores: 2 / 64"
    assert markdown(decision).splitlines()[1].startswith("**NOT ALIKE")
    assert "NOT ALIKE" not in " ".join(lines_of(decided(gating, SAME)))


def test_the_table_has_both_values_beside_each_difference(gating: Any) -> None:
    table = decision_table(decided(gating, FAILING))
    row = next(row for row in table.rows if row[0].text == "TTFT p50")
    assert [cell.text for cell in row] == [
        "TTFT p50", "100 ms", "120 ms", "+20.4 %", "+19.7 % to +21.1 %", "5.0 %", "<0.001", "0.031",
        "0.9 %", "FAIL",
    ]  # fmt: skip
    assert [column.title for column in table.columns][4] == "95 % interval"


def test_a_side_without_a_value_says_why(gating: Any) -> None:
    plain = decided(gating, SAME)
    bare = replace(plain.metrics[0], candidate=None, said="candidate: the engine died")
    table = decision_table(replace(plain, metrics=(bare, *plain.metrics[1:])))
    assert table.rows[0][2].text == "-¹"
    assert table.notes[0] == "¹ candidate: the engine died"


def test_no_difference_is_marked(gating: Any) -> None:
    table = decision_table(decided(gating, SAME))
    row = next(row for row in table.rows if row[0].text == "TTFT p50")
    assert row[3].text == "~ +0.0 %"


@pytest.mark.parametrize(("log", "text"), [(0.0, "+0.0 %"), (0.1, "+10.5 %"), (-0.1, "-9.5 %"), (-1e-9, "+0.0 %"), (800.0, "+2.69e+45 %")])  # fmt: skip
def test_a_logarithm_is_shown_as_a_change(log: float, text: str) -> None:
    assert percent(log) == text


def test_markdown_is_short_and_found_again_by_its_first_line(gating: Any) -> None:
    text = markdown(decided(gating, FAILING))
    assert text.splitlines()[0] == Comment().marker == "<!-- batchmark:gate -->"
    assert "### batchmark gate: FAIL" in text
    assert r"| TTFT p50 | 100 ms | 120 ms | +20.4 % \(+19.7 % to +21.1 %\)" in text
    assert len(text) < 4000


def test_a_comment_opens_with_the_three_metrics_that_decide(gating: Any) -> None:
    before, _, table = markdown(decided(gating, FAILING)).partition("<details>")
    lines = [line for line in before.splitlines() if line.startswith("- **")]
    assert len(lines) == 3
    assert lines[0] == (
        r"- **TTFT p50**: 100 ms to 120 ms, worse by +20.4 % \(+19.7 % to +21.1 %\)"
    )
    assert table.startswith("<summary>all 5 metrics</summary>")


def test_a_comment_says_where_the_report_is_and_how_to_repeat_the_runs(gating: Any) -> None:
    commands = (("batchmark", "duel", "a b", "c"), ("batchmark", "`x``", "<b>"))
    text = markdown(
        decided(gating, SAME), Comment("nightly.cpu", "https://ci/run?(1)&<x>", commands)
    )
    assert text.splitlines()[0] == "<!-- batchmark:nightly.cpu -->"
    assert "[the whole report](https://ci/run?%281%29&%3Cx%3E)\n" in text
    assert "- to repeat it: ` batchmark duel 'a b' c `\n" in text
    assert "- to repeat it: ``` batchmark '`x``' '<b>' ```\n" in text


@pytest.mark.parametrize("name", ["", "a--b", "-->", "a b", "a\n", "é", ".a"])
def test_a_name_that_could_end_the_marker_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--name is"):
        Comment(name)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://a b", "//x", "https://x\ny"])
def test_a_link_that_is_no_page_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--report-url is"):
        Comment(report_url=url)


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words_in_markdown(gating: Any, words: str) -> None:
    plain, text = (markdown(d) for d in (decided(gating, FAILING), hostile(decided(gating, FAILING), words)))  # fmt: skip
    body = text.removeprefix(Comment().marker)
    # Whatever is not ours has a backslash before every character that could mean something.
    rest = re.sub(r"\\[!-/:-@\[-`{-~]", "", body)
    for mark in ("<script", "<!--", "@everyone", "[g]", "#1", "http:", "*d*"):
        assert mark not in rest
    assert "\x00" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    unescaped = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert unescaped == {7}
    assert len(rows) == len([line for line in plain.splitlines() if line.startswith("|")])


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words_in_junit(gating: Any, words: str) -> None:
    suite = ET.fromstring(junit(hostile(decided(gating, FAILING), words)))
    assert {case.tag for case in suite} == {"testcase"}
    assert {child.tag for case in suite for child in case} <= {"failure", "error", "skipped", "system-out"}  # fmt: skip
    seen = suite[0].get("classname") or ""
    assert "".join(c for c in words if c.isprintable() and c != " ")[:5] in seen.replace(" ", "")


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_are_no_commands_to_github(gating: Any, words: str) -> None:
    lines = github_commands(hostile(decided(gating, FAILING), words))
    assert len(lines) == 1
    assert lines[0].startswith("::error title=batchmark gate%3A FAIL::")
    assert "\n" not in lines[0]
    assert "\r" not in lines[0]
    assert "%0A" not in lines[0]


@pytest.mark.parametrize("words", HOSTILE)
def test_no_line_of_the_console_begins_with_what_others_wrote(gating: Any, words: str) -> None:
    decision = hostile(decided(gating, FAILING), words)
    for line in lines_of(decision):
        assert re.match(r"(FAIL: |- |NOT ALIKE|what differs on purpose: |left out: )", line)
        assert "\n" not in line
    for row in decision_table(decision).rows:
        assert not row[0].text.startswith("::")


def counts(text: str) -> dict[str, int]:
    suite = ET.fromstring(text)
    return {key: int(suite.get(key) or -1) for key in ("tests", "failures", "errors", "skipped")}


def test_junit_has_a_case_for_every_metric_and_one_for_the_runs(gating: Any) -> None:
    assert counts(junit(decided(gating, SAME))) == {"tests": 6, "failures": 0, "errors": 0, "skipped": 0}  # fmt: skip
    assert counts(junit(decided(gating, FAILING))) == {"tests": 6, "failures": 1, "errors": 0, "skipped": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "kind"),
    [(OnInconclusive.EXIT, "errors"), (OnInconclusive.WARN, "skipped"), (OnInconclusive.FAIL, "failures")],
)  # fmt: skip
def test_junit_counts_inconclusive_as_the_rules_say(
    gating: Any, choice: OnInconclusive, kind: str
) -> None:
    decision = decided(gating, UNCLEAR, on_inconclusive=choice)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert counts(junit(decision))[kind] == 1


def test_junit_says_that_runs_cannot_be_judged(gating: Any) -> None:
    decision = decide([gating.pair()], GateRules(), is_last_look=True)
    assert counts(junit(decision)) == {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
    assert "| Metric |" not in markdown(decision)
    assert decision_table(decision).rows == ()


def test_github_is_told_nothing_of_a_pass(gating: Any) -> None:
    assert github_commands(decided(gating, SAME)) == ()


@pytest.mark.parametrize(
    ("choice", "kind"),
    [(OnInconclusive.EXIT, "::error "), (OnInconclusive.WARN, "::warning "), (OnInconclusive.FAIL, "::error ")],
)  # fmt: skip
def test_github_is_told_of_inconclusive_as_the_rules_say(
    gating: Any, choice: OnInconclusive, kind: str
) -> None:
    (line,) = github_commands(decided(gating, UNCLEAR, on_inconclusive=choice))
    assert line.startswith(kind)
    assert "TTFT p50: cannot tell" in line
