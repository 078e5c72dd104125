"""Which metrics of ours the requests of a file allow to be computed, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analyzer.imports.records import has_due, has_gaps, has_starts
from harness.analyzer.imports.result import Result, Row
from harness.analyzer.metrics import METRICS
from harness.core.record import Outcome
from harness.core.workload import LoadKind


def recomputable(result: Result, rows: Sequence[Row]) -> tuple[str, ...]:
    """The names of the metrics that `rows` say all that is needed for.

    Metrics are named by what they need, so that a new one is not computed from what is not there.
    """
    if not rows:
        return ()
    ok = [row for row in rows if row.outcome is Outcome.OK]
    knows_first = all(row.ttft_s is not None for row in ok)
    knows_end = all(row.e2e_s is not None or row.gaps_s is not None for row in ok)
    starts, gaps, counted = has_starts(rows), has_gaps(rows), _knows(ok, "output_tokens")
    knows_all = knows_first and knows_end and counted
    is_backlog = result.load is not None and result.load.kind is LoadKind.BACKLOG
    needs = {
        "ttft_s_": knows_first,
        "tpot_s_": knows_all,
        "user_tok_s": knows_all,
        "normalized_latency_s_": knows_end and counted,
        "goodput_frac": knows_all,
        "goodput_req_s": knows_all and starts,
        "e2e_s_": knows_end,
        "inter_chunk_s_": gaps,
        "send_lag_s_": has_due(rows),
        "makespan_s": starts and knows_end,
        "request_s": starts and knows_end,
        "output_tok_s": starts and knows_end and counted and (gaps or is_backlog),
        "failure_rate": True,
        "output_tokens": counted,
        "prompt_tokens": _knows(ok, "prompt_tokens"),
    }
    return tuple(
        metric.name
        for metric in METRICS
        if any(
            allowed and (metric.name.startswith(name) if name[-1] == "_" else metric.name == name)
            for name, allowed in needs.items()
        )
    )


def missing_words(rows: Sequence[Row]) -> str:
    """What the file does not say of its requests, in words; empty when it says all."""
    kinds = {"instants of sending": has_starts(rows), "times between chunks": has_gaps(rows)}
    return " and no ".join(kind for kind, is_there in kinds.items() if not is_there)


def _knows(rows: Sequence[Row], name: str) -> bool:
    return bool(rows) and all(getattr(row, name) is not None for row in rows)
