"""TensorRT-LLM's iteration records, which each reading takes away, folded into totals.

Its `/metrics` answers with a JSON list of one record for each iteration since it was asked last, so
nobody else may ask for it during a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from engines.prometheus import fetch
from engines.samples import combined, says_nothing, scrape_sample
from harness.core.clock import Clock
from harness.core.engine import EngineSample
from harness.core.errors import EngineFailed

KIND = "tensorrt-llm"


class IterationTotals:
    """The records of one engine, added up since its first reading.

    Its reused and missed blocks are totals already. The generated tokens are not in the records:
    an iteration says how many requests it continued, but not how many it gave their first token.
    """

    def __init__(self) -> None:
        self._paused = 0.0
        self._prompt_tokens = 0.0
        self._latest: Mapping[str, Any] = {}

    def fold(self, text: str, at_ns: int) -> EngineSample:
        """Take in what one reading answered with; returns what the engine says as of now.

        Without an iteration since the last reading the totals stand, and nothing is said of the
        requests in it. Raises ValueError when `text` is not a list of records.
        """
        records = msgspec.json.decode(text, type=list[dict[str, Any]])
        for record in records:
            self._paused += _number(record, "inflightBatchingStats", "numPausedRequests") or 0.0
            self._prompt_tokens += _number(record, "inflightBatchingStats", "numCtxTokens") or 0.0
        if records:
            self._latest = records[-1]
        return self._sample(at_ns, is_new=bool(records))

    def _sample(self, at_ns: int, *, is_new: bool) -> EngineSample:
        latest = self._latest
        now = latest if is_new else {}
        is_batching = "inflightBatchingStats" in latest
        tokens = _number(latest, "kvCacheStats", "tokensPerBlock")
        reused = _product(_number(latest, "kvCacheStats", "reusedBlocks"), tokens)
        missed = _product(_number(latest, "kvCacheStats", "missedBlocks"), tokens)
        used, most = (_number(now, "kvCacheStats", f"{name}NumBlocks") for name in ("used", "max"))
        return EngineSample(
            at_ns=at_ns,
            running=_number(now, "numActiveRequests"),
            waiting=_number(now, "numQueuedRequests"),
            kv_share=used / most if used is not None and most else None,
            preemptions_total=self._paused if is_batching else None,
            prompt_tokens_total=self._prompt_tokens if is_batching else None,
            prefix_query_tokens_total=None if reused is None or missed is None else reused + missed,
            prefix_hit_tokens_total=reused,
        )


async def drain_sample(
    totals: IterationTotals, base_url: str, clock: Clock, headers: Mapping[str, str] | None = None
) -> EngineSample | None:
    """What the engine at `base_url` says now: its Prometheus page, and its iterations beside it.

    The page is the first source of totals; what it says of the present is as of the last end of a
    request, so that is taken from the records. None when neither says anything. Never raises for a
    bad answer.
    """
    page = await scrape_sample(KIND, f"{base_url}/prometheus/metrics", clock, headers)
    try:
        records = totals.fold(await fetch(f"{base_url}/metrics", headers), clock.now_ns())
    except (EngineFailed, ValueError):
        return page
    if page is not None:
        records = combined(replace(page, running=None, waiting=None, kv_share=None), records)
    return None if says_nothing(records) else records


def _number(record: Mapping[str, Any], *path: str) -> float | None:
    """The finite number at `path` in `record`."""
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _product(count: float | None, each: float | None) -> float | None:
    return None if count is None or each is None else count * each
