"""Which engines there are: from the kind that the user names to the adapter."""

from __future__ import annotations

from pathlib import Path

from engines.scheduling.policies import POLICY_NAMES
from harness.core.clock import Clock
from harness.core.engine import Engine, EngineSpec
from harness.core.errors import UsageError

ENGINE_KINDS = ("inhouse",)


def open_engine(spec: EngineSpec, folder: Path, clock: Clock) -> Engine:
    """The adapter for `spec`, not started; it writes its logs into `folder`.

    Raises UsageError when there is no such engine, or it has no such policy.
    """
    match spec.kind:
        case "inhouse":
            from engines.inhouse_server import InhouseServer  # noqa: PLC0415 - only what is used

            require_policy(spec.policy)
            return InhouseServer(spec, folder, clock)
        case _:
            msg = f"unknown engine {spec.kind!r}; known are {', '.join(ENGINE_KINDS)}"
            raise UsageError(msg)


def require_policy(policy: str | None) -> None:
    """Raise UsageError unless `policy` is one that the in-house engine has; None is its default."""
    if policy is not None and policy not in POLICY_NAMES:
        msg = f"unknown policy {policy!r}; choose from {', '.join(POLICY_NAMES)}"
        raise UsageError(msg)
