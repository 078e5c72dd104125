"""The words that a gate may answer, and the exit code that each means."""

from __future__ import annotations

from enum import StrEnum

from harness.core.errors import ExitCode


class Verdict(StrEnum):
    """PASS and FAIL are claims; the other three say why none is made.

    INCONCLUSIVE: the noise is too large for an answer. INVALID: a run is not fit to be judged.
    NOT_COMPARABLE: the two sides differ in more than what is compared.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    NOT_COMPARABLE = "NOT_COMPARABLE"


EXIT_CODES = {
    Verdict.PASS: ExitCode.OK,
    Verdict.FAIL: ExitCode.FAIL,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.INVALID: ExitCode.INVALID,
    Verdict.NOT_COMPARABLE: ExitCode.INVALID,
}


def exit_code(verdict: Verdict) -> ExitCode:
    """What the process tells its caller when the answer is `verdict`."""
    return EXIT_CODES[verdict]
