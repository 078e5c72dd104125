"""From pairs of an engine with itself to margins that it can be held to."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from scipy import stats

from harness.core.errors import UsageError
from harness.gate.decision import Pair
from harness.gate.gate_calibration import (
    calibrate_gate,
    calibration_table,
    proposal,
    upper_factor,
)
from harness.gate.rules import GateRules, read_rules


def same(gating: Any, values: list[tuple[float, float]]) -> list[Pair]:
    """A/A pairs with these TTFTs."""
    return [gating.pair(*(gating.run({"ttft_s_p50": v}) for v in pair)) for pair in values]


def quiet(gating: Any, count: int, noise: float, seed: int = 1) -> list[Pair]:
    rng = Random(seed)
    return same(gating, [(0.1, 0.1 * math.exp(rng.gauss(0, noise))) for _ in range(count)])


@pytest.mark.parametrize(("pairs", "factor"), [(5, 1.56), (10, 1.29), (20, 1.18)])
def test_the_upper_bound_of_few_pairs_is_wider(pairs: int, factor: float) -> None:
    assert upper_factor(pairs) == pytest.approx(factor, abs=0.005)
    assert upper_factor(pairs) == pytest.approx(
        math.sqrt((pairs - 1) / stats.chi2.ppf(0.2, pairs - 1))
    )


def test_the_noise_is_that_of_the_log_ratios(gating: Any) -> None:
    logs = [0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03, 0.01, 0.0, -0.01]
    found = calibrate_gate(same(gating, [(0.1, 0.1 * math.exp(x)) for x in logs]), GateRules())
    noise = next(n for n in found.noises if n.metric == "ttft_s_p50")
    assert noise.sd_pair == pytest.approx(stats.tstd(logs))
    assert noise.sd_upper == pytest.approx(stats.tstd(logs) * 1.293, rel=1e-3)
    assert found.pairs == 10


def test_the_margin_is_one_that_an_unchanged_engine_passes(gating: Any) -> None:
    found = calibrate_gate(quiet(gating, 40, 0.03), GateRules())
    noise = next(n for n in found.noises if n.metric == "ttft_s_p50")
    assert noise.margin is not None
    assert noise.sd_upper is not None
    # At a noise of 3 % ten pairs hold 5 % with more than 98 passes in 100.
    assert 0.04 <= noise.margin <= 0.06
    assert math.isclose(noise.margin * 200, round(noise.margin * 200))


def test_fewer_than_ten_pairs_are_refused(gating: Any) -> None:
    with pytest.raises(UsageError, match="9 A/A pairs can be used, 10 are needed"):
        calibrate_gate(quiet(gating, 9, 0.01), GateRules())


def test_invalid_pairs_are_not_used(gating: Any) -> None:
    broken = gating.pair(gating.run(invalid=["V06"]), gating.run())
    with pytest.raises(UsageError, match="9 A/A pairs can be used"):
        calibrate_gate([*quiet(gating, 9, 0.01), broken], GateRules())


def test_two_engines_are_no_engine_with_itself(gating: Any) -> None:
    with pytest.raises(UsageError, match="these are no A/A pairs: policy: static / continuous"):
        calibrate_gate([gating.pair()] * 10, GateRules())


def test_unlike_machines_are_no_engine_with_itself(gating: Any) -> None:
    other = gating.run(workload=gating.build.workload(name="other"))
    with pytest.raises(UsageError, match="these are no A/A pairs"):
        calibrate_gate([gating.pair(gating.run(), other)] * 10, GateRules())


def test_a_noisy_metric_is_advised_against(gating: Any) -> None:
    found = calibrate_gate(quiet(gating, 20, 0.08), GateRules())
    table = calibration_table(found)
    row = next(row for row in table.rows if row[0].text == "TTFT p50")
    assert row[-1].text.startswith("noisy: ")
    assert next(row for row in table.rows if row[0].text == "TPOT p50")[-1].text == ""


def test_a_metric_without_values_has_a_reason_and_no_margin(gating: Any) -> None:
    run = gating.run({"ttft_s_p99": None})
    found = calibrate_gate([gating.pair(run, run)] * 10, GateRules())
    noise = next(n for n in found.noises if n.metric == "ttft_s_p99")
    assert (noise.margin, noise.reason) == (None, "10 of 10 pairs have no ratio")
    assert "# ttft_s_p99: 10 of 10 pairs have no ratio" in proposal(found)


def test_the_proposal_is_a_file_that_a_gate_reads(gating: Any, tmp_path: Path) -> None:
    found = calibrate_gate(quiet(gating, 20, 0.08), GateRules())
    text = proposal(found)
    assert tomllib.loads(text)["gate"]["pairs"] == [5, 10]
    file = tmp_path / "batchmark.toml"
    file.write_text(text)
    margins = {rule.metric: rule.margin for rule in read_rules(file).metrics}
    assert margins == {
        **{noise.metric: noise.margin for noise in found.noises},
        "failure_rate": None,
    }
