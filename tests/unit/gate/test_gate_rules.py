"""[gate] of batchmark.toml: what it says, and every way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.gate.rules import GateRules, MetricRule, OnInconclusive, read_rules


def rules_of(folder: Path, text: str) -> GateRules:
    file = folder / "batchmark.toml"
    file.write_text(text)
    return read_rules(file)


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = read_rules(None)
    assert {rule.metric: rule.margin for rule in rules.metrics} == {
        "output_tok_s": 0.05,
        "ttft_s_p50": 0.05,
        "tpot_s_p50": 0.05,
        "ttft_s_p99": 0.15,
        "failure_rate": None,
    }
    assert (rules.alpha, rules.alpha_per_look, rules.pairs) == (0.05, 0.025, (5, 10))


def test_the_file_in_the_working_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("batchmark.toml").write_text("[gate]\nalpha = 0.1\n")
    assert read_rules(None).alpha == 0.1


def test_a_file_for_something_else_leaves_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("batchmark.toml").write_text("[other]\nkey = 1\n")
    assert read_rules(None) == GateRules()


def test_all_settings_can_be_written_down(tmp_path: Path) -> None:
    rules = rules_of(
        tmp_path,
        """
        [gate]
        alpha = 0.1
        pairs = [6]
        on_inconclusive = "warn"
        [gate.metrics.ttft_s_p50]
        margin = 0.03
        min_abs = 0.002
        [gate.metrics.ttft_s_p99]
        margin = 0.2
        optional = true
        """,
    )
    assert rules == GateRules(
        metrics=(
            MetricRule("ttft_s_p50", 0.03, min_abs=0.002),
            MetricRule("ttft_s_p99", 0.2, optional=True),
            MetricRule("failure_rate", None),
        ),
        alpha=0.1,
        pairs=(6,),
        on_inconclusive=OnInconclusive.WARN,
    )
    assert rules.alpha_per_look == 0.1


def test_only_the_metrics_that_are_named_are_gated_and_failures(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "[gate.metrics.tpot_s_p99]\nmargin = 0.1\n")
    assert [rule.metric for rule in rules.metrics] == ["tpot_s_p99", "failure_rate"]


def test_two_rules_have_one_digest_only_when_they_are_the_same(tmp_path: Path) -> None:
    assert rules_of(tmp_path, "[gate]\n").digest == GateRules().digest
    assert rules_of(tmp_path, "[gate]\nalpha = 0.01\n").digest != GateRules().digest


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[gate]\nmargin = 0.05\n", ["[gate] has the unknown key 'margin'", "metrics, alpha, pairs, on_inconclusive"]),
        ("[gate.metrics.ttft]\nmargin = 0.05\n", ["[gate.metrics.ttft] names no metric", "ttft_s_p50"]),
        ("[gate.metrics.output_tokens]\nmargin = 0.05\n", ["names no metric that has a better side"]),
        ("[gate.metrics.ttft_s_p50]\nmargins = 0.05\n", ["unknown key 'margins'", "margin, min_abs, optional"]),
        ("[gate.metrics.ttft_s_p50]\nmetric = 'x'\nmargin = 0.1\n", ["unknown key 'metric'"]),
        ("[gate.metrics.failure_rate]\nmargin = 0.01\n", ["unknown key 'margin'", "it knows optional"]),
        ("[gate.metrics.ttft_s_p50]\n", ["has no margin"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = 0\n", ["margin = 0; it must be a number above 0"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = -0.1\n", ["margin = -0.1"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = 5\n", ["margin = 5", "0.05 is 5 %"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = nan\n", ["margin = nan"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = true\n", ["key 'margin' is True"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = '5%'\n", ["key 'margin' is '5%'"]),
        ("[gate.metrics.ttft_s_p50]\nmargin = 0.1\nmin_abs = inf\n", ["min_abs = inf"]),
        ("[gate.metrics]\nttft_s_p50 = 0.05\n", ["[gate.metrics.ttft_s_p50] is 0.05; write a table"]),
        ("[gate]\nmetrics = ['ttft_s_p50']\n", ["write a table for each"]),
        ("[gate]\nalpha = 0.5\n", ["alpha = 0.5; it must lie between"]),
        ("[gate]\nalpha = '5%'\n", ["key 'alpha' is '5%'"]),
        ("[gate]\npairs = []\n", ["pairs = []"]),
        ("[gate]\npairs = [10, 5]\n", ["pairs = [10, 5]"]),
        ("[gate]\npairs = [5, 10, 20]\n", ["pairs = [5, 10, 20]"]),
        ("[gate]\npairs = [4]\n", ["pairs = [4]"]),
        ("[gate]\npairs = [1]\n", ["pairs = [1]; give one number of 5 at least"]),
        ("[gate]\npairs = 5\n", ["key 'pairs' is 5"]),
        ("[gate]\non_inconclusive = 'pass'\n", ["on_inconclusive = 'pass'; choose from exit, warn, fail"]),
        ("[gate]\non_inconclusive = ['exit']\n", ["choose from exit, warn, fail"]),
        ("gate = 5\n", ["has no table [gate]"]),
        ("[gaet]\nalpha = 0.1\n", ["has no table [gate]"]),
        ("[gate\n", ["cannot read"]),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_what_would(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        rules_of(tmp_path, text)
    assert str(refused.value).startswith(("cannot read", str(tmp_path)))
    for part in parts:
        assert part in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read .*none.toml"):
        read_rules(tmp_path / "none.toml")
