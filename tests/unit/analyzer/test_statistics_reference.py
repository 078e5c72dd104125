"""Every entry of statistics_reference.json: answers that were computed apart from this code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analyzer.change_points import _best_splits
from harness.analyzer.dialect_measures import interpolated, next_higher
from harness.analyzer.early_stopping import allowed_over, least_under, needed
from harness.analyzer.estimators import floor_n, paired_ratio, percentile, welch_ratio
from harness.analyzer.flow import (
    anderson_darling_exponential,
    exponential_limit,
    mean_in_flight,
    variation,
)
from harness.analyzer.intervals import clopper_pearson, noninferiority, pairs_needed, wilson
from harness.analyzer.order_statistics import (
    autocorrelation_time,
    order_statistic_ranks,
    percentile_interval,
)
from harness.analyzer.significance import (
    benjamini_hochberg,
    cliffs_delta,
    hodges_lehmann,
    holm,
    mann_whitney,
    sign_flip,
)
from harness.analyzer.steady import mser5
from harness.core.workload import Load, LoadKind

REFERENCE: dict[str, Any] = json.loads(
    Path(__file__).with_name("statistics_reference.json").read_text(encoding="utf-8")
)
POISSON = Load(LoadKind.POISSON, rate_rps=1.0)
TENS = [10.0 * (i + 1) for i in range(10)]

# What no function of batchmark computes, and why there is none.
NOT_OFFERED = {
    "harrell_davis": "it breaks where failures rank as +inf",
    "exhaustive_boot_mean_[1,2,6]": "intervals over a handful of runs are not bootstrapped",
    "exhaustive_mbb_mean_b2_[1,2,4,3,6,5]": "nor those within a run",
    "mbb_index_n10_b4_starts_0_6_3": "nor those within a run",
    "hdr_expected_interval": "latency counts from the due instant: nothing is put right afterwards",
    "hdrhistogram_py_1000..1e6_3digits": "the records are kept, not a histogram of them",
    "variance_components": "the run is what is repeated; requests are not split off",
    "two_stage_alpha": "the looks of a gate share its error evenly",
    "queueing": "true of simulated queues: see test_estimators_coverage",
}


def near(value: float, digits: int = 6) -> Any:
    """What a number that was printed with so many decimals may be."""
    return pytest.approx(value, abs=0.6 * 10.0**-digits, rel=1e-6)


def lcg(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers between 0 and 1 from the congruential generator of the reference."""
    state, numbers = 12345, []
    for _ in range(n):
        state = (1103515245 * state + 12345) % 2**31
        numbers.append(state / 2**31)
    return np.array(numbers)


def ar1(n: int, phi: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    value, values = 0.0, []
    for u in lcg(n):
        value = phi * value + u - 0.5
        values.append(value)
    return np.array(values)


def check_h_min(_build: Any, entry: Mapping[str, Mapping[str, int]]) -> None:
    for q, by_over in entry.items():
        for over, expected in by_over.items():
            assert least_under(int(over), float(q)) == expected


def check_floors(_build: Any, entry: Mapping[str, int]) -> None:
    for q, expected in entry.items():
        assert needed(float(q)) == expected


def check_budgets(_build: Any, entry: Mapping[str, Mapping[str, int | None]]) -> None:
    for n, by_quantile in entry.items():
        for q, expected in by_quantile.items():
            assert allowed_over(int(n), float(q)) == expected


def check_ranks(confidence: float) -> Callable[[Any, Sequence[Sequence[float]]], None]:
    def check(_build: Any, entry: Sequence[Sequence[float]]) -> None:
        for q, n, lower, upper, coverage in entry:
            found = order_statistic_ranks(int(n), q, confidence)
            assert (found.lower, found.upper) == (lower, upper), (q, n)
            assert found.coverage == near(coverage)

    return check


def check_rank_example(_build: Any, entry: Mapping[str, Any]) -> None:
    ordered = sorted(entry["x"])
    for name, q, confidence in (("q=.5 conf=.95", 0.5, 0.95), ("q=.25 conf=.8", 0.25, 0.8)):
        found = order_statistic_ranks(len(ordered), q, confidence)
        lo, hi, coverage = entry[name]
        assert (ordered[found.lower - 1], ordered[found.upper - 1]) == (lo, hi)
        assert found.coverage == near(coverage)


def check_least_n(tail: float) -> Callable[[Any, Mapping[str, int]], None]:
    def check(_build: Any, entry: Mapping[str, int]) -> None:
        for q, expected in entry.items():
            assert floor_n(100 * float(q), tail) == expected

    return check


def check_definitions(_build: Any, entry: Mapping[str, Mapping[str, float]]) -> None:
    weighted = [(value, 1) for value in TENS]
    for percent, expected in entry.items():
        assert percentile(TENS, int(percent)) == expected["inverted_cdf"]
        assert interpolated(weighted, int(percent)) == near(expected["linear"])
        assert next_higher(weighted, int(percent)) == expected["loadgen_floor_index"]


def check_intervals(entry: Mapping[str, Any], values: np.ndarray[Any, Any]) -> None:
    for name in (name for name in entry if name.startswith("ci_p")):
        percent, expected = int(name.removeprefix("ci_p")), entry[name]
        found = percentile_interval(values, percent)
        assert percentile(values, percent) == near(expected["q_hat"])
        assert found.tau == near(expected["tau"])
        assert found.n_eff == expected["n_eff"]
        assert [found.lower, found.upper] == expected["ranks"]
        assert (found.lo, found.hi) == (near(expected["lo"]), near(expected["hi"]))


def check_ar1(_build: Any, entry: Mapping[str, Any]) -> None:
    values = ar1(entry["n"], entry["phi"])
    assert list(values[:3]) == pytest.approx(entry["first3"], abs=1e-8)
    tau = autocorrelation_time(values)
    assert tau == near(entry["tau_mean"], 5)
    assert len(values) / tau == near(entry["ess_mean"], 3)
    check_intervals(entry, values)
    plain = order_statistic_ranks(len(values), 0.5)
    ordered = np.sort(values)
    bounds = [ordered[plain.lower - 1], ordered[plain.upper - 1]]
    assert bounds == pytest.approx(entry["plain_p50"], abs=1e-6)


def check_iid(_build: Any, entry: Mapping[str, Any]) -> None:
    values = lcg(2000)
    assert list(values[:3]) == pytest.approx(entry["first3"], abs=1e-8)
    check_intervals(entry, values)


def check_mser5(_build: Any, entry: Mapping[str, Any]) -> None:
    i = np.arange(100)
    for values, expected in zip(
        (
            100 + 10 * 0.8**i + (-1.0) ** i,
            np.array([50.0] * 10 + [100.0 + k % 5 for k in range(90)]),
            i.astype(float),
        ),
        entry.values(),
        strict=True,
    ):
        cut = mser5(values)
        assert (cut.values, cut.is_at_limit) == (expected["drop"], expected["at_limit"])


def check_little(_build: Any, entry: Mapping[str, Any]) -> None:
    arrived, left = np.array(entry["arr"]), np.array(entry["dep"])
    assert mean_in_flight(arrived, left, [0, 5])[0] == near(entry["full"]["L"])
    assert mean_in_flight(arrived, left, [1, 4])[0] == near(entry["window[1,4)"]["L"])


def check_stall(build: Any, entry: Mapping[str, Any]) -> None:
    """One connection, a request every 10 ms, service of 1 ms, nothing served in [5, 6) s."""
    free_ms, records = 0.0, []
    for i in range(1000):
        due_ms = 10.0 * i
        sent_ms = max(due_ms, free_ms)
        free_ms = (6000.0 if 5000 <= sent_ms < 6000 else sent_ms) + 1
        records.append(build.record(i, (free_ms,), due_ms=due_ms, sent_ms=sent_ms))
    load = Load(LoadKind.CONSTANT, rate_rps=100)
    summary = build.summary(records, load=load)
    for percent in (50, 90, 99):
        intended = summary.value(f"ttft_s_p{percent}")
        assert intended == near(entry["intended"][str(percent)] / 1e3, 9)
    assert summary.value("ttft_s_mean") == near(entry["intended"]["mean"] / 1e3, 9)
    assert summary.value("send_lag_s_p99") == near(entry["lag"]["99"] / 1e3, 9)
    naive = [(r.events_ns[0] - r.sent_ns) / 1e6 for r in records]
    assert np.mean(naive) == near(entry["send_based"]["mean"])
    assert percentile(naive, 99) == entry["send_based"]["99"]


def check_arrivals(_build: Any, entry: Mapping[str, Any]) -> None:
    gaps = np.array(entry["ia"])
    assert anderson_darling_exponential(gaps) == near(entry["AD_expon"])
    assert exponential_limit(len(gaps)) == near(entry["crit_1pct_n10"], 3)
    assert variation(gaps) == near(entry["CV"])


def check_proportions(_build: Any, entry: Mapping[str, Any]) -> None:
    functions = {"wilson": wilson, "CP": clopper_pearson}
    for name, expected in entry.items():
        count, total = map(int, name.split("/"))
        for method, function in functions.items():
            if method in expected:
                found = function(count, total)
                assert [found.lo, found.hi] == pytest.approx(expected[method], abs=1e-6)
    one_sided = clopper_pearson(0, 300, confidence=0.90).hi
    assert one_sided == near(entry["0/300"]["one_sided95_upper"])


def check_failures(_build: Any, entry: Mapping[str, Any]) -> None:
    """The entry does not hold its values; two of them and the ranks that they have do as well."""
    count = entry["n"] - entry["failed"]
    known = np.arange(count, dtype=float) / (2 * count)
    known[[975, 979]] = entry["p99_if_dropped"], entry["p98"]
    known[976:979], known[980:] = entry["p98"], 1.0
    ranked = np.append([math.inf] * entry["failed"], known)
    assert percentile(ranked, 98) == entry["p98"]
    assert percentile(ranked, 99) == float(entry["p99"])
    assert percentile(known, 99) == entry["p99_if_dropped"]


def check_pooling(_build: Any, entry: Mapping[str, float]) -> None:
    first, second = list(range(1, 101)), list(range(1001, 1101))
    assert percentile([*first, *second], 99) == entry["pooled_p99"]
    assert (percentile(first, 99) + percentile(second, 99)) / 2 == entry["average_of_p99"]


def check_ratio(found: Any, expected: Sequence[float]) -> None:
    assert [found.ratio, found.lo, found.hi] == pytest.approx(expected[:3], abs=1e-6)


def check_welch(_build: Any, entry: Mapping[str, Any]) -> None:
    for percent in ("90", "95"):
        check_ratio(welch_ratio(entry["b"], entry["c"], int(percent) / 100), entry[percent])


def check_pairs(_build: Any, entry: Mapping[str, Any]) -> None:
    base, candidate = entry["b"], entry["c"]
    for percent in ("90", "95"):
        check_ratio(paired_ratio(base, candidate, int(percent) / 100), entry[percent])
    check_ratio(welch_ratio(base, candidate, 0.90), entry["unpaired_90_same_data"])
    diffs = [math.log(c / b) for b, c in zip(base, candidate, strict=True)]
    assert diffs == pytest.approx(entry["d"], abs=1e-6)
    assert noninferiority(diffs, 0.05).sd == near(entry["sd"])
    assert 2 * sign_flip(diffs) == entry["signflip_p"]


def check_mann_whitney(_build: Any, entry: Mapping[str, Any]) -> None:
    for n, expected in entry["min_p_two_sided"].items():
        low, high = range(int(n)), range(100, 100 + int(n))
        assert mann_whitney(list(low), list(high)) == near(expected, 9)
    found = mann_whitney(entry["ties x"], entry["ties y"])
    assert found == near(entry["exact_perm_with_ties_p"])


def check_effects(_build: Any, entry: Mapping[str, float]) -> None:
    first, second = [1.0, 2, 3, 4], [2.0, 3, 5, 7]
    assert hodges_lehmann(first, second) == entry["hodges_lehmann"]
    assert cliffs_delta(first, second) == entry["cliffs_delta"]
    assert (1 + cliffs_delta(first, second)) / 2 == entry["A12"]


def check_multiplicity(_build: Any, entry: Mapping[str, list[float]]) -> None:
    assert holm(entry["p"]) == pytest.approx(entry["holm"])
    assert benjamini_hochberg(entry["p"]) == pytest.approx(entry["bh"])


def check_margin(_build: Any, entry: Mapping[str, Any]) -> None:
    for case in entry.values():
        found = noninferiority(case["d"], 0.05)
        assert math.expm1(found.d) == near(case["est"])
        assert math.expm1(found.lo) == near(case["lo"])
        assert math.expm1(found.hi) == near(case["hi"])
        assert found.p_noninf == pytest.approx(case["p_noninf"], rel=1e-3)
        is_fail, is_pass = found.p_fail < 0.05, found.p_noninf < 0.05
        verdict = "PASS" if is_pass else "FAIL" if is_fail else "INCONCLUSIVE"
        assert verdict == case["verdict"]


def check_power(_build: Any, entry: Mapping[str, list[int]]) -> None:
    for key, expected in entry.items():
        sd, margin = map(float, key.split(","))
        found = [pairs_needed(sd, margin, power=power) for power in (0.80, 0.90, 0.99)]
        assert found == expected, key


def check_window(build: Any, entry: Mapping[str, Any]) -> None:
    """Over time those from the first due instant to the last; at once all, over the makespan."""
    instants_ms = [1e3 * instant for instant, _ in entry["events"]]
    tokens = [number for _, number in entry["events"]]
    backlog = build.summary([build.record(0, instants_ms, tokens=tokens)])
    assert backlog.value("output_tok_s") == near(entry["whole_makespan_tok_per_s"])
    first = build.record(0, instants_ms, due_ms=1000, tokens=tokens)
    last = build.record(1, (9600,), due_ms=5000)
    timed = build.summary([first, last], load=POISSON)
    assert timed.value("output_tok_s") == entry["window[1,5)"]


def check_drain(build: Any, entry: Mapping[str, float]) -> None:
    """A closed loop whose last answer takes four times as long as all others."""
    records = [
        build.record(i, (1e4 * (i // 10) + (4e4 if i == 99 else 1e4),), sent_ms=1e4 * (i // 10))
        for i in range(100)
    ]
    closed = build.summary(records, load=Load(LoadKind.CLOSED, concurrency=10))
    assert closed.value("makespan_s") == entry["makespan"]
    assert closed.value("request_s") == closed.value("output_tok_s") == entry["X_steady"]
    at_once = build.summary(records)
    assert at_once.value("request_s") == near(entry["X_makespan"])


def check_change(_build: Any, entry: Mapping[str, Any]) -> None:
    """By what is searched for a split; splits that leave fewer on a side are not looked at."""
    best, found = entry["best"], _best_splits(np.array([entry["series"]], dtype=float))[0]
    assert (found.at, found.statistic) == (best["tau"], near(best["Q"], 5))


CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "mlperf_h_min": check_h_min,
    "mlperf_floor_n": check_floors,
    "mlperf_budget_t": check_budgets,
    "order_stat_ranks_95": check_ranks(0.95),
    "order_stat_ranks_90": check_ranks(0.90),
    "order_stat_example": check_rank_example,
    "min_n_finite_two_sided_95": check_least_n(0.025),
    "min_n_finite_one_sided_95": check_least_n(0.05),
    "min_n_finite_one_sided_99": check_least_n(0.01),
    "percentile_defs_10..100": check_definitions,
    "lcg_ar1": check_ar1,
    "lcg_iid": check_iid,
    "mser5": check_mser5,
    "little": check_little,
    "co_sim_100rps_10s_1ms_stall5-6": check_stall,
    "arrivals": check_arrivals,
    "proportions": check_proportions,
    "failures_as_inf": check_failures,
    "pool_vs_average_p99": check_pooling,
    "welch_log": check_welch,
    "paired_log": check_pairs,
    "mann_whitney": check_mann_whitney,
    "effect_sizes x=[1,2,3,4] y=[2,3,5,7]": check_effects,
    "multiplicity": check_multiplicity,
    "gate_margin_5pct": check_margin,
    "pairs_for_pass_power(sd_pair,margin)->[80,90,99]%": check_power,
    "e_divisive": check_change,
    "throughput_window": check_window,
    "drain_bias: 100 req, 10 slots, 99x10s + last 40s": check_drain,
}


@pytest.mark.parametrize("name", CHECKS)
def test_an_entry_of_the_reference_is_what_is_computed(build: Any, name: str) -> None:
    CHECKS[name](build, REFERENCE[name])


def test_every_entry_of_the_reference_is_checked_or_has_a_reason_not_to_be() -> None:
    assert {*CHECKS, *NOT_OFFERED} == set(REFERENCE)
    assert not set(CHECKS) & set(NOT_OFFERED)
