"""What the validity checks share: how a value becomes a verdict."""

from __future__ import annotations

from harness.analyzer.summary import Check, CheckVerdict
from harness.core.manifest import RunManifest

# A run that is shorter says little but how it began and ended.
SHORTEST_WINDOW_S = 20.0


def graded(value: float, warn: float, invalid: float) -> CheckVerdict:
    """WARN above `warn`, INVALID above `invalid`."""
    if value > invalid:
        return CheckVerdict.INVALID
    return CheckVerdict.WARN if value > warn else CheckVerdict.PASS


def worst(*verdicts: CheckVerdict) -> CheckVerdict:
    """The worst of `verdicts`."""
    order = (CheckVerdict.INVALID, CheckVerdict.WARN, CheckVerdict.PASS, CheckVerdict.SKIPPED)
    return min(verdicts, key=order.index)


def invalid_if(fault: object) -> CheckVerdict:
    """INVALID when `fault` is true, or holds something."""
    return CheckVerdict.INVALID if fault else CheckVerdict.PASS


def skipped(check_id: str, title: str, limit: str, reason: str = "does not apply") -> Check:
    """The check of a run that holds nothing to check."""
    return Check(check_id, title, reason, limit, CheckVerdict.SKIPPED)


def is_virtual(manifest: RunManifest) -> bool:
    """True when the run was simulated."""
    return manifest.clock == "virtual"
