"""What may be done to the times of a trace before it is replayed, besides stretching them.

Thinning and stretching are different experiments. With times scaled by s the rate is 1/s of what it
was, gaps have the same coefficient of variation, and a burst has as many requests over another
time. Thinned to a share p, the rate is p of what it was and a burst lasts as long with fewer
requests; the excess of its index of dispersion over 1 is p of what it was too.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise

from workloads.shape import Shape

# A clock ticks coarsely when a tick is longer than this share of the mean gap, and this share of
# requests has the same stamp as the one before.
_COARSE = 0.1
_TIES = 0.01
# Stamps of a real clock come a little early or late; by this share of a tick at most.
_JITTER = 0.02


def thinned(rows: Iterable[Shape], share: float, rng: random.Random) -> Iterator[Shape]:
    """Each of `rows` with probability `share`, independently; a session is kept or left as a whole.

    Of one seed, a smaller share keeps rows of those that a larger one keeps.
    """
    sessions: dict[str, bool] = {}
    for row in rows:
        is_kept = None if row.session is None else sessions.get(row.session)
        if is_kept is None:
            is_kept = rng.random() < share
            if row.session is not None:
                sessions[row.session] = is_kept
        if is_kept:
            yield row


def spread_ticks(due_ns: Iterable[int], tick_ns: int, rng: random.Random) -> Iterator[int]:
    """`due_ns`, with those of one stamp moved to instants drawn from the tick that it begins.

    In order within a stamp, and none is moved to the next stamp or past it.
    """
    stamps = ((due, sum(1 for _ in run)) for due, run in groupby(due_ns))
    for (due, count), (after, _) in pairwise(chain(stamps, [(-1, 0)])):
        width = min(tick_ns, after - due) if after > due else tick_ns
        yield from sorted(due + int(rng.random() * width) for _ in range(count))


def detect_tick(due_ns: Sequence[int]) -> int | None:
    """The tick of the clock that stamped `due_ns`, in ns; None when it is fine enough to replay.

    A tick is coarse when many requests share a stamp, and stamps lie whole ticks apart: such a
    trace, replayed as it is, sends requests in volleys that its users never sent.
    """
    gaps = [after - before for before, after in pairwise(due_ns)]
    steps = [gap for gap in gaps if gap > 0]
    if not steps or len(gaps) - len(steps) < _TIES * len(gaps):
        return None
    least = min(steps)
    ticks = [step / round(step / least) for step in steps]
    tick = statistics.median(ticks)
    is_whole = all(abs(step - round(step / tick) * tick) <= _JITTER * tick for step in steps)
    return round(tick) if is_whole and tick > _COARSE * statistics.fmean(gaps) else None
