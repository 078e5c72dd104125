"""Does the engine's own account of the run agree with the client's?

The client measures and the engine's counters bear witness, so none of these checks makes a run
INVALID: they pass, or warn. What an engine does not say is not checked, and the check says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from harness.analyzer.columns import MISSING, Floats
from harness.analyzer.flow import in_flight_at
from harness.analyzer.frame import RunFrame, output_tokens
from harness.analyzer.grading import graded, is_virtual, skipped, worst
from harness.analyzer.measures import Unmeasured
from harness.analyzer.server_samples import Timings, during, rise, span_ns, timings
from harness.analyzer.summary import Check, CheckVerdict
from harness.core.manifest import RunStatus
from harness.core.record import Outcome

FLIGHT_WARN, FLIGHT_IGNORED = 0.10, 0.5
READINGS_NEEDED = 10
TOKENS_WARN = 0.001
HITS_WARN = 0.01
OVERHEAD_WARN, OVERHEAD_IGNORED_S = 0.10, 0.005
# The engine reads its clock at other points than the client, and may keep a rounded time.
CLOCKS_OFF, CLOCKS_OFF_S = 0.01, 0.001
TINY_S = 1e-9
SHARES_OFF = 0.0005  # what a share printed with one decimal does not show
REQUESTS_OFF = 0.001


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a check: what was seen, what was allowed, and the verdict on it."""

    value: str
    limit: str
    verdict: CheckVerdict


def with_finding(check: Check, finding: Finding) -> Check:
    """`check` with another finding in it: it says both, and the worse verdict."""
    return Check(
        check.id,
        check.title,
        f"{check.value}; {finding.value}",
        f"{check.limit}; {finding.limit}",
        worst(check.verdict, finding.verdict),
    )


def check_in_flight(frame: RunFrame) -> Check:
    """V14, open loop: the engine's count of requests agrees with Little's law.

    N requests that stay W seconds each, on average, within T seconds make N W / T in flight. The
    engine's running and waiting requests are averaged over its readings, and so is the client's
    count at the same instants, so that when it was read does not matter.
    """
    title = "requests in flight agree"
    limit = f"engine's count off by {FLIGHT_WARN:.0%} and {FLIGHT_IGNORED:g} requests WARN"
    if is_virtual(frame.manifest):
        return skipped("V14", title, limit)
    samples, span = during(frame, "running", "waiting"), span_ns(frame)
    if isinstance(samples, Unmeasured) or span is None:
        reason = samples.reason if isinstance(samples, Unmeasured) else "no request was sent"
        return skipped("V14", title, limit, reason)
    if len(samples) < READINGS_NEEDED:
        reason = f"{len(samples)} readings of the engine are too few ({READINGS_NEEDED} needed)"
        return skipped("V14", title, limit, reason)
    sent_ns, closed_ns = frame.records.numbers["sent_ns"], frame.records.numbers["closed_ns"]
    ended_ns = np.where(closed_ns == MISSING, span[1], closed_ns)
    instants = np.array([sample.at_ns for sample in samples], dtype=np.int64)
    ours = float(in_flight_at(sent_ns, ended_ns, instants).mean())
    theirs = fmean((s.running or 0.0) + (s.waiting or 0.0) for s in samples)
    law = float((ended_ns - sent_ns).sum(dtype=np.float64)) / max(span[1] - span[0], 1)
    value = (
        f"engine {theirs:.2f}, client {ours:.2f} at {len(samples)} readings (N W / T is {law:.2f})"
    )
    off = abs(theirs - ours)
    if off <= FLIGHT_IGNORED or off <= FLIGHT_WARN * ours:
        return Check("V14", title, value, limit, CheckVerdict.PASS)
    value += (
        ": the engine has requests that are not ours"
        if theirs > ours
        else ": requests wait where the engine does not count them"
    )
    return Check("V14", title, value, limit, CheckVerdict.WARN)


def token_totals(frame: RunFrame) -> Finding:
    """For V16: the engine's token counters rose by what the client was told and received.

    An engine may count only the prompt tokens that it computed, so as many as it found in its
    prefix cache may be missing from its count.
    """
    limit = f"engine's totals off by {TOKENS_WARN:.1%} WARN"
    if frame.manifest.status is not RunStatus.COMPLETE:
        return _not_compared("totals", "the run did not come to its end", limit)
    if others := len(frame.records) - int(frame.records.came_out(Outcome.OK).sum()):
        return _not_compared("totals", f"{others} request(s) did not end well", limit)
    cached = frame.records.numbers["cached_tokens"]
    cached_tokens = float(cached[cached != MISSING].sum())
    parts, verdicts, reasons = [], [], []
    for noun, counter, ours, missing in (
        ("prompt", "prompt_tokens_total", frame.records.numbers["prompt_tokens"], cached_tokens),
        ("generated", "generation_tokens_total", output_tokens(frame.records), 0.0),
    ):
        counted = rise(frame, counter)
        if isinstance(counted, Unmeasured):
            reasons.append(counted.reason)
            continue
        if (ours == MISSING).any():
            reasons.append(f"the client was not told all {noun} tokens")
            continue
        told = float(ours.sum())
        off = max(counted - told, told - missing - counted, 0.0)
        parts.append(f"{counted:,.0f} {noun} tokens (client {told:,.0f})")
        verdicts.append(graded(off, TOKENS_WARN * told, math.inf))
    if not parts:
        return _not_compared("totals", reasons[0], limit)
    return Finding(f"engine counted {' and '.join(parts)}", limit, worst(*verdicts))


def prefix_hits(frame: RunFrame) -> Finding:
    """For V18: the engine's own counters show no prefix cache at work that was declared off."""
    limit = f"{HITS_WARN:.0%} of the prompt tokens found in the engine's cache, undeclared: WARN"
    hits, asked = (rise(frame, f"prefix_{noun}_tokens_total") for noun in ("hit", "query"))
    if isinstance(hits, Unmeasured) or isinstance(asked, Unmeasured):
        reason = hits.reason if isinstance(hits, Unmeasured) else "it does not say of how many"
        return _not_compared("prefix hits", reason, limit)
    share = hits / asked if asked > 0 else 0.0
    is_declared = frame.manifest.engine.prefix_cache
    verdict = graded(0.0 if is_declared else share, HITS_WARN, math.inf)
    return Finding(f"engine found {share:.1%} of {asked:,.0f} tokens in its cache", limit, verdict)


def check_ttft_against_engine(frame: RunFrame) -> Check:
    """V22: the engine says of its first tokens what the client saw."""
    return _check_timings(frame, ("V22", "TTFT agrees with the engine's", "ttft_s"))


def check_e2e_against_engine(frame: RunFrame) -> Check:
    """V23: the engine says of its whole answers what the client saw."""
    return _check_timings(frame, ("V23", "end-to-end agrees with the engine's", "e2e_s"))


def _check_timings(frame: RunFrame, names: tuple[str, str, str]) -> Check:
    """Means of the engine's histogram and of the client's times from sending on.

    What the client measured more is the network, the HTTP server and the client. Less it cannot be:
    then the two do not speak of the same requests, or one of them is wrong.
    """
    check_id, title, name = names
    limit = (
        f"client above the engine by {OVERHEAD_WARN:.0%} and {OVERHEAD_IGNORED_S * 1e3:.0f} ms, "
        "or below it: WARN"
    )
    if is_virtual(frame.manifest):
        return skipped(check_id, title, limit)
    found = timings(frame, name)
    if isinstance(found, Unmeasured):
        return skipped(check_id, title, limit, found.reason)
    ours_s = _seen_s(frame, name)
    if not len(ours_s) or abs(found.requests - len(ours_s)) > REQUESTS_OFF * len(ours_s):
        reason = f"the engine timed {found.requests:,.0f} requests, the client {len(ours_s):,}"
        return skipped(check_id, title, limit, reason)
    mean_s = float(ours_s.mean())
    over_s = mean_s - found.mean_s
    value = (
        f"mean: engine {found.mean_s * 1e3:.2f} ms, client {mean_s * 1e3:.2f} ms, so "
        f"{over_s * 1e3:.2f} ms ({over_s / max(found.mean_s, TINY_S):.1%}) network and client"
    )
    value += _farthest_bucket(found, ours_s)
    is_slow = over_s > max(OVERHEAD_IGNORED_S, OVERHEAD_WARN * found.mean_s)
    is_impossible = over_s < -max(CLOCKS_OFF_S, CLOCKS_OFF * found.mean_s)
    verdict = CheckVerdict.WARN if is_slow or is_impossible else CheckVerdict.PASS
    return Check(check_id, title, value, limit, verdict)


def _seen_s(frame: RunFrame, name: str) -> Floats:
    """The client's times from sending on, of the requests that ended well."""
    requests = frame.requests[frame.requests["outcome"] == Outcome.OK.value]
    column = {"ttft_s": "first_token_s", "e2e_s": "last_token_s"}[name]
    seen = requests[column] - requests["sent_s"]
    return seen.dropna().to_numpy(dtype=np.float64)


def _farthest_bucket(found: Timings, ours_s: Floats) -> str:
    """In which bucket the two shares of requests lie farthest apart, in words."""
    apart = {
        bound: share - float((ours_s <= bound).mean()) for bound, share in found.shares.items()
    }
    bound = max(apart, key=lambda b: abs(apart[b]), default=None)
    if bound is None or abs(apart[bound]) < SHARES_OFF:
        return "; the same shares in each bucket" if apart else ""
    theirs = found.shares[bound]
    return f"; within {bound:g} s: engine {theirs:.1%}, client {theirs - apart[bound]:.1%}"


def _not_compared(what: str, reason: str, limit: str) -> Finding:
    return Finding(f"engine's {what} not compared: {reason}", limit, CheckVerdict.SKIPPED)
