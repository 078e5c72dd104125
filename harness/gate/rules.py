"""What a gate holds a candidate to, agreed before anything is measured: margins, error rate, looks.

::

    [gate]
    alpha = 0.05                  # of a wrong verdict, over all looks together
    pairs = [5, 10]               # pairs at each look; one look or two
    on_inconclusive = "exit"      # exit 3, or warn (0), or fail (1)

    [gate.metrics.ttft_s_p50]
    margin = 0.05                 # a regression from here on is one
    min_abs = 0.002               # in the metric's unit: a difference below it passes

The metrics that a file names are those that are gated, beside `failure_rate`, which always is.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from harness.analyzer.metric import Better
from harness.analyzer.metrics import METRICS
from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json

T = TypeVar("T")

RULES_FILE = Path("batchmark.toml")
FAILURES = "failure_rate"
# With fewer pairs nothing is established: a sign test of 4 pairs cannot reach 5 %.
FEWEST_PAIRS = 5
MOST_LOOKS = 2


class OnInconclusive(StrEnum):
    """What INCONCLUSIVE means to whoever called: its own exit code, a warning, or a failure."""

    EXIT = "exit"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class MetricRule:
    """One gated metric.

    `margin` is the regression that must be ruled out, as a share: 0.05 is 5 % slower. None for the
    failure rate, which fails when the candidate fails more and chance does not explain it.
    `min_abs`: a difference that is surely smaller, in the metric's unit, passes whatever its ratio.
    `optional`: not gated when no run has a value, nor where a shared cut leaves a run too few
    requests for one; when some have, all others must.
    """

    metric: str
    margin: float | None
    min_abs: float | None = None
    optional: bool = False


DEFAULT_METRICS = (
    MetricRule("output_tok_s", 0.05),
    MetricRule("ttft_s_p50", 0.05),
    MetricRule("tpot_s_p50", 0.05),
    MetricRule("ttft_s_p99", 0.15, optional=True),
    MetricRule(FAILURES, None),
)


@dataclass(frozen=True, slots=True)
class GateRules:
    """The rules of one gate. `alpha` is the chance of a wrong verdict at the margin, in all looks.

    `pairs` are those that there must be at each look: when the first is inconclusive, more are
    measured until there are as many as the second wants.
    """

    metrics: tuple[MetricRule, ...] = DEFAULT_METRICS
    alpha: float = 0.05
    pairs: tuple[int, ...] = (5, 10)
    on_inconclusive: OnInconclusive = OnInconclusive.EXIT

    @property
    def alpha_per_look(self) -> float:
        """The part of `alpha` that each look may spend: planned looks share it (Bonferroni)."""
        return self.alpha / len(self.pairs)

    @property
    def digest(self) -> str:
        """sha256 of the rules, in hex: two gates with the same one asked the same."""
        text = json.dumps(to_json(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


SETTINGS = tuple(field.name for field in fields(GateRules))
METRIC_KEYS = tuple(field.name for field in fields(MetricRule) if field.name != "metric")


def read_rules(file: Path | None) -> GateRules:
    """The rules in `file`; those of ./batchmark.toml, if it is there, when `file` is None.

    Raises UsageError naming file, table and key when one is unknown, or its value makes no sense.
    """
    path = file or RULES_FILE
    if file is None and not path.is_file():
        return GateRules()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}; name another with --rules, or correct it"
        raise UsageError(msg) from error
    gate = data.get("gate", {} if file is None else None)
    if not isinstance(gate, dict):
        msg = f"{path} has no table [gate]; write one, or leave out --rules for the defaults"
        raise UsageError(msg)
    return _rules(gate, path)


def _rules(gate: Mapping[str, object], path: Path) -> GateRules:
    where = f"{path}: [gate]"
    _require_known(where, gate, SETTINGS)
    metrics = gate.get("metrics", {})
    if not isinstance(metrics, dict):
        msg = f"{where} has metrics = {metrics!r}; write a table for each, [gate.metrics.NAME]"
        raise UsageError(msg)
    choices = [choice.value for choice in OnInconclusive]
    if (choice := gate.get("on_inconclusive", choices[0])) not in choices:
        msg = f"{where} has on_inconclusive = {choice!r}; choose from {', '.join(choices)}"
        raise UsageError(msg)
    settings = {key: value for key, value in gate.items() if key != "metrics"}
    rules = _built(where, GateRules, settings)
    if metrics:
        rules = replace(rules, metrics=_metric_rules(metrics, path))
    _require_sense(where, rules)
    return rules


def _metric_rules(tables: Mapping[str, object], path: Path) -> tuple[MetricRule, ...]:
    found = [_metric_rule(name, table, path) for name, table in tables.items()]
    if FAILURES not in tables:
        found.append(MetricRule(FAILURES, None))
    return tuple(found)


def _metric_rule(name: str, table: object, path: Path) -> MetricRule:
    where = f"{path}: [gate.metrics.{name}]"
    gateable = [metric.name for metric in METRICS if metric.better is not Better.NEITHER]
    if name not in gateable:
        msg = f"{where} names no metric that has a better side; choose from {', '.join(gateable)}"
        raise UsageError(msg)
    if not isinstance(table, dict):
        msg = f"{where} is {table!r}; write a table, such as [gate.metrics.{name}] margin = 0.05"
        raise UsageError(msg)
    is_ratio = name != FAILURES
    _require_known(where, table, METRIC_KEYS if is_ratio else ("optional",))
    if is_ratio and "margin" not in table:
        msg = f"{where} has no margin; say which regression is one, such as margin = 0.05"
        raise UsageError(msg)
    rule = _built(where, MetricRule, {"margin": None, **table, "metric": name})
    for key, value, most in (("margin", rule.margin, 1.0), ("min_abs", rule.min_abs, math.inf)):
        if value is not None and not (0 < value <= most and math.isfinite(value)):
            limit = "" if most == math.inf else f", {most:g} at most (0.05 is 5 %)"
            msg = f"{where} has {key} = {value:g}; it must be a number above 0{limit}"
            raise UsageError(msg)
    return rule


def _built(where: str, cls: type[T], values: Mapping[str, object]) -> T:
    try:
        return from_json(cls, values)
    except ValueError as error:
        msg = f"{where}: {error}; correct it"
        raise UsageError(msg) from error


def _require_known(where: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
    if unknown := set(table) - set(known):
        msg = f"{where} has the unknown key {min(unknown)!r}; it knows {', '.join(known)}"
        raise UsageError(msg)


def _require_sense(where: str, rules: GateRules) -> None:
    if not 0 < rules.alpha < 0.5:
        msg = f"{where} has alpha = {rules.alpha:g}; it must lie between 0 and 0.5"
        raise UsageError(msg)
    looks = rules.pairs
    is_rising = list(looks) == sorted(set(looks))
    if not 1 <= len(looks) <= MOST_LOOKS or not is_rising or looks[0] < FEWEST_PAIRS:
        msg = (
            f"{where} has pairs = {list(looks)}; give one number of {FEWEST_PAIRS} at least, or "
            "two of which the second is larger"
        )
        raise UsageError(msg)
