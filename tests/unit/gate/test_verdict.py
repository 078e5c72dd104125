from __future__ import annotations

from harness.core.errors import ExitCode
from harness.gate.verdict import Verdict, exit_code


def test_every_verdict_has_its_exit_code() -> None:
    assert {verdict.value: exit_code(verdict) for verdict in Verdict} == {
        "PASS": ExitCode.OK,
        "FAIL": ExitCode.FAIL,
        "INCONCLUSIVE": ExitCode.INCONCLUSIVE,
        "INVALID": ExitCode.INVALID,
        "NOT_COMPARABLE": ExitCode.INVALID,
    }


def test_no_verdict_looks_like_a_crash_or_a_usage_error() -> None:
    codes = {exit_code(verdict) for verdict in Verdict}
    assert codes.isdisjoint({ExitCode.USAGE, ExitCode.INTERNAL})
