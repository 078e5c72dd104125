"""Were the prompts those that were meant, and was each computed rather than found in a cache?"""

from __future__ import annotations

import math

from harness.analyzer.columns import MISSING, Bools
from harness.analyzer.frame import RunFrame, cached_share
from harness.analyzer.grading import graded, invalid_if, is_virtual, skipped
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.manifest import RunManifest
from harness.core.record import Outcome

CACHED_WARN = 0.01
NOT_REPLAYED = "how much faster the same prompts are again is not measured: a run sends them once"


def check_prompts(frame: RunFrame) -> Check:
    """V17: the engine read as many prompt tokens as were sent, in each request that ended well.

    Of an engine that takes prompts as text it is a doubt only: it tokenizes them itself.

    No wire format here echoes a digest of the prompt or the parameters, so their count is all that
    a client can hold against what it sent; the length of the answer is V16.
    """
    title, limit = "prompts as sent", "0 requests with another number of prompt tokens"
    records = frame.records
    counted = records.numbers["prompt_tokens"]
    asked = records.numbers["prompt_tokens_asked"]
    is_known: Bools = records.came_out(Outcome.OK) & (counted != MISSING)
    if not is_known.any():
        return skipped("V17", title, limit, "the engine does not count prompt tokens")
    differs = is_known & (counted != asked)
    value = f"{differs.sum()} of {is_known.sum()} requests differ"
    if differs.any():
        first = int(differs.argmax())
        at = records.numbers["index"][first]
        value += f", the first is request {at}: {asked[first]} sent, {counted[first]} read"
    is_text = frame.manifest.facts.settings.get("prompts_sent_as") == "text"
    verdict = invalid_if(differs.any())
    if is_text and verdict is CheckVerdict.INVALID:
        verdict, value = CheckVerdict.WARN, f"{value}; prompts were sent as text"
    return Check("V17", title, value, limit, verdict)


def check_prefix_cache(frame: RunFrame) -> Check:
    """V18: no prompt was answered from a cache that nobody declared."""
    title, limit = "prefix cache as declared", "1 % of the prompt tokens cached, undeclared: WARN"
    if is_virtual(frame.manifest):
        return skipped("V18", title, limit)
    share = cached_share(frame.records)
    if share is None:
        reason = f"the engine does not say what it had cached; {NOT_REPLAYED}"
        return skipped("V18", title, limit, reason)
    is_declared = frame.manifest.engine.prefix_cache
    state = "on" if is_declared else "off"
    value = f"declared {state}, {share:.1%} of the prompt tokens were cached; {NOT_REPLAYED}"
    verdict = graded(0.0 if is_declared else share, CACHED_WARN, math.inf)
    return Check("V18", title, value, limit, verdict)


def is_cache_known_off(manifest: RunManifest, share: float | None) -> bool:
    """True when no prompt can have been found in a prefix cache.

    By what the engine says, `share`; where it says nothing, by the setting it ran with, and else an
    engine that was launched here is taken to have it off as it was told, and one that was attached
    to is not.
    """
    if share is not None:
        return share == 0
    spec = manifest.engine
    told = spec.prefix_cache if spec.attach_url is None else None
    return manifest.facts.settings.get("prefix_cache", told) is False
