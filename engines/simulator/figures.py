"""What a simulation came to, and how one policy's figures stand to another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engines.simulator.simulate import Simulation
from harness.core.units import ns_to_ms, ns_to_s


@dataclass(frozen=True, slots=True)
class SimulatedFigures:
    """One simulation in numbers. Shares are of slot-steps, latencies of completed requests.

    Latency counts from the instant that a request was due; TPOT is a request's time per token after
    its first. Percentiles are values that occurred (inverted_cdf). None where nothing was there to
    count.
    """

    steps: int
    elapsed_ms: float
    requests_started: int
    requests_completed: int
    output_tokens: int
    preemptions: int
    output_tok_s: float | None
    padding_share: float | None
    busy_share: float | None
    ttft_ms_mean: float | None
    ttft_ms_p50: float | None
    ttft_ms_p99: float | None
    tpot_ms_mean: float | None
    e2e_ms_mean: float | None


def figures(simulation: Simulation) -> SimulatedFigures:
    """The figures of `simulation`."""
    slot_steps = sum(step.slots for step in simulation.steps)
    padded = sum(step.padded for step in simulation.steps)
    busy = sum(step.running for step in simulation.steps)
    done = [t for t in simulation.traces if t.completed_ns is not None and t.token_ns]
    elapsed_s = ns_to_s(simulation.ended_ns)
    ttft_ns = sorted(t.token_ns[0] - t.request.due_ns for t in done if t.token_ns)
    return SimulatedFigures(
        steps=len(simulation.steps),
        elapsed_ms=ns_to_ms(simulation.ended_ns),
        requests_started=simulation.started,
        requests_completed=simulation.completed,
        output_tokens=simulation.tokens,
        preemptions=simulation.preemptions,
        output_tok_s=simulation.tokens / elapsed_s if elapsed_s else None,
        padding_share=padded / slot_steps if slot_steps else None,
        busy_share=busy / slot_steps if slot_steps else None,
        ttft_ms_mean=_mean_ms(ttft_ns),
        ttft_ms_p50=_percentile_ms(ttft_ns, 50),
        ttft_ms_p99=_percentile_ms(ttft_ns, 99),
        tpot_ms_mean=_mean_ms([t for trace in done for t in _tpot_ns(trace.token_ns or ())]),
        e2e_ms_mean=_mean_ms([(t.completed_ns or 0) - t.request.due_ns for t in done]),
    )


def throughput_ratio(
    candidate: SimulatedFigures, baseline: SimulatedFigures, *, is_window: bool
) -> float | None:
    """Output throughput of `candidate` over that of `baseline`.

    In a window both sides have the same time, so tokens are compared (a side may stop short of the
    window's end); run to completion, both do the same work, so rates are.
    """
    if is_window:
        tokens = baseline.output_tokens
        return candidate.output_tokens / tokens if tokens else None
    if not baseline.output_tok_s or candidate.output_tok_s is None:
        return None
    return candidate.output_tok_s / baseline.output_tok_s


def _tpot_ns(token_ns: Sequence[int]) -> tuple[float, ...]:
    """The time per token of one answer; nothing for an answer of one token."""
    gaps = len(token_ns) - 1
    return ((token_ns[-1] - token_ns[0]) / gaps,) if gaps > 0 else ()


def _mean_ms(durations_ns: Sequence[float]) -> float | None:
    return ns_to_ms(sum(durations_ns) / len(durations_ns)) if durations_ns else None


def _percentile_ms(ordered_ns: Sequence[int], percent: int) -> float | None:
    """The least of `ordered_ns` that `percent` of them do not exceed."""
    rank = -(-percent * len(ordered_ns) // 100)
    return ns_to_ms(ordered_ns[rank - 1]) if ordered_ns else None
