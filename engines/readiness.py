"""Is a healthy server ready? Under which name it serves the model, and whether it makes tokens.

The tokens are those of a short prompt of its own, so that no prompt of the workload is known to the
engine before it is measured.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from engines.asking import Asker
from harness.core.clock import Clock
from harness.core.engine import Capture, Dialect
from harness.core.errors import EngineFailed, UsageError
from harness.core.record import Answer, Outcome
from harness.core.workload import Request

# Ids that every vocabulary has, and enough tokens that one of them is a whole character.
PROBE = Request(index=0, label="probe", prompt_token_ids=tuple(range(100, 108)), max_tokens=4)
PROBE_WORDS = f"{len(PROBE.prompt_token_ids)} prompt tokens, {PROBE.max_tokens} answer tokens"


async def health(asker: Asker, path: str) -> str | None:
    """None when GET `path` is answered with 200; or else what it came to, in words.

    Raises UsageError when the server refuses our key, or its certificate is not to be trusted.
    """
    reply = await asker.get(path)
    asker.require_key(reply.status)
    return None if reply.status == 200 else f"{asker.base_url}{path}: {reply}"


async def served_name(asker: Asker) -> str:
    """The name that requests must give: the one asked for, or the only one that is served.

    Raises UsageError, listing the names, when that one is not served, or it is not clear which.
    """
    spec = asker.spec
    names = [str(row["id"]) for row in await asker.models()]
    wanted = spec.served_name or spec.model
    if not names or wanted in names:
        return wanted
    if spec.served_name is None and len(names) == 1:
        return names[0]
    raise _not_served(asker, wanted, names)


async def require_first_tokens(
    asker: Asker, dialect: Dialect, name: str, clock: Clock, at_once: int = 1
) -> None:
    """Return once the server has answered a short prompt, sent `at_once` times, with tokens.

    Raises UsageError when it serves no such model or refuses our key, EngineFailed when it gives no
    tokens, with what came back.
    """
    request = dialect.encode(PROBE, name)
    captures = await asyncio.gather(*(asker.exchange(request, clock) for _ in range(at_once)))
    for capture in captures:
        answer = dialect.decode(capture)
        if answer.outcome is not Outcome.OK:
            await _refuse(asker, name, capture, answer)


async def _refuse(asker: Asker, name: str, capture: Capture, answer: Answer) -> NoReturn:
    """Raise the error that says why the server did not answer well."""
    asker.require_key(capture.status)
    if capture.status == 404 and (names := [str(row["id"]) for row in await asker.models()]):
        raise _not_served(asker, name, names)
    raise EngineFailed(asker.hide(_no_tokens(asker, capture.status, answer)))


def _no_tokens(asker: Asker, status: int | None, answer: Answer) -> str:
    kind = asker.spec.kind
    error = answer.error
    said = "nothing" if error is None else error.message
    how = "no answer" if status is None else f"HTTP {status}"
    what = f"{asker.base_url} is healthy, but gives no tokens: {said} ({how})"
    if status in (400, 422):
        return f"{what}; it may be another version than {kind} was written for, or --engine openai"
    if status in (429, 503):
        return f"{what}; it is overloaded before anything was sent: give it to this run alone"
    return f"{what}; read its log"


def _not_served(asker: Asker, wanted: str, names: list[str]) -> UsageError:
    listed = ", ".join(names)
    msg = f"the server at {asker.base_url} serves no model {wanted!r}; it serves {listed}"
    return UsageError(f"{msg}: choose one with --served-name")
