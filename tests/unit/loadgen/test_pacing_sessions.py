"""Sessions in virtual time: no turn before its turn, and none later than it must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.workload import After
from harness.loadgen import pacing
from harness.loadgen.pacing import ClosedLoop, Due, OpenLoop, Pacer

US, MS = 1_000, 1_000_000
TICK_NS = 1 * US
LATE_NS = 50 * US


class TimeLine:
    """Time that passes when it is read, when the alarm rings (late), and when an answer ends.

    `lasts_ns[i]` is how long the answer to request i takes. Whatever happens is noted.
    """

    def __init__(self, lasts_ns: Sequence[int]) -> None:
        self.at_ns = 0
        self.lasts_ns = lasts_ns
        self.rings_ns: int | None = None
        self.on_ring: Callable[[], None] = lambda: None
        self.ends: list[tuple[int, int]] = []
        self.sent_ns: dict[int, int] = {}
        self.ended_ns: dict[int, int] = {}
        self.most_in_flight = 0

    def open(self, _clock: object, on_ring: Callable[[], None]) -> TimeLine:
        self.on_ring = on_ring
        return self

    def now_ns(self) -> int:
        self.at_ns += TICK_NS
        return self.at_ns

    async def sleep_until_ns(self, instant_ns: int) -> None:
        self.at_ns = max(self.at_ns, instant_ns)

    def set(self, instant_ns: int) -> None:
        self.rings_ns = instant_ns

    def close(self) -> None:
        self.rings_ns = None

    def send(self, index: int) -> None:
        assert index not in self.sent_ns
        self.sent_ns[index] = self.now_ns()
        heappush(self.ends, (self.at_ns + self.lasts_ns[index], index))
        self.most_in_flight = max(self.most_in_flight, len(self.ends))

    def next(self, pacer: Pacer) -> bool:
        """Let happen what happens next; False when nothing will."""
        rings_ns = self.rings_ns
        if self.ends and (rings_ns is None or self.ends[0][0] < rings_ns):
            ends_ns, index = heappop(self.ends)
            self.at_ns = max(self.at_ns, ends_ns)
            self.ended_ns[index] = self.at_ns
            pacer.note_end(index, self.at_ns)
            return True
        if rings_ns is None:
            return False
        self.at_ns, self.rings_ns = max(self.at_ns, rings_ns + LATE_NS), None
        self.on_ring()
        return True


Turn = tuple[int, int, int]  # the delay before it, how long its answer takes, and its earliest
times = st.integers(0, 5 * MS)
sessions_of_turns = st.lists(
    st.lists(st.tuples(times, times, st.sampled_from([0, 0, 3 * MS])), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


def laid_out(sessions: Sequence[Sequence[Turn]], every_ns: int) -> tuple[list[Due], list[int]]:
    """The turns of sessions that begin `every_ns`, one session after another; and their lengths."""
    dues: list[Due] = []
    lasts_ns: list[int] = []
    for number, turns in enumerate(sessions):
        for place, (delay_ns, lasts, least_ns) in enumerate(turns):
            own_ns = number * every_ns + (least_ns if place else 0)
            after = After(len(dues) - 1, delay_ns) if place else None
            dues.append(Due(len(dues), own_ns, after))
            lasts_ns.append(lasts)
    return dues, lasts_ns


def due_ns(due: Due, line: TimeLine) -> int:
    if due.after is None:
        return due.due_ns
    return max(due.due_ns, line.ended_ns[due.after.index] + due.after.delay_ns)


def virtual(monkeypatch: pytest.MonkeyPatch, lasts_ns: Sequence[int]) -> TimeLine:
    line = TimeLine(lasts_ns)
    monkeypatch.setattr(pacing, "Alarm", line.open)
    return line


several = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@several
@given(sessions=sessions_of_turns, every_ns=st.sampled_from([0, 300 * US, 2 * MS]))
def test_an_open_loop_sends_each_turn_as_soon_as_it_may_and_no_sooner(
    monkeypatch: pytest.MonkeyPatch, sessions: list[list[Turn]], every_ns: int
) -> None:
    dues, lasts_ns = laid_out(sessions, every_ns)
    line = virtual(monkeypatch, lasts_ns)
    pacer = OpenLoop(dues, line, line.send)
    pacer.start(0)
    while line.next(pacer):
        pass

    assert pacer.is_done
    assert len(line.sent_ns) == len(dues)
    # Late by its own alarm, by the sends that came just before, and by what was waited for there.
    most_late_ns = LATE_NS + pacing.RETURN_NS + 10 * len(dues) * TICK_NS
    for due in dues:
        late_ns = line.sent_ns[due.index] - due_ns(due, line)
        assert 0 <= late_ns <= most_late_ns


@several
@given(sessions=sessions_of_turns, slots=st.integers(1, 4))
def test_a_closed_loop_keeps_to_its_slots_and_leaves_none_empty_while_a_turn_is_due(
    monkeypatch: pytest.MonkeyPatch, sessions: list[list[Turn]], slots: int
) -> None:
    dues, lasts_ns = laid_out(sessions, every_ns=0)
    line = virtual(monkeypatch, lasts_ns)
    pacer = ClosedLoop(dues, slots, line, line.send)
    pacer.start(0)
    while line.next(pacer):
        may_be_sent = [
            due
            for due in dues
            if due.index not in line.sent_ns
            and (due.after is None or due.after.index in line.ended_ns)
        ]
        if len(line.ends) < slots and line.rings_ns is not None:
            assert all(due.after is not None for due in may_be_sent)
            assert all(due_ns(due, line) > line.at_ns - 10 * TICK_NS for due in may_be_sent)

    assert pacer.is_done
    assert len(line.sent_ns) == len(dues)
    assert line.most_in_flight <= slots
    for due in dues:
        assert line.sent_ns[due.index] >= due_ns(due, line)


def test_a_backlog_of_sessions_starts_all_first_turns_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dues, lasts_ns = laid_out([[(0, 5 * MS, 0)] * 3] * 4, every_ns=0)
    line = virtual(monkeypatch, lasts_ns)
    pacer = OpenLoop(dues, line, line.send)
    pacer.start(0)
    line.next(pacer)

    assert sorted(line.sent_ns) == [0, 3, 6, 9]


def test_sessions_of_an_open_loop_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second begins while the first is in its answer, and ends before the first goes on."""
    slow, quick = [(0, 50 * MS, 0), (0, MS, 0)], [(0, MS, 0), (0, MS, 0)]
    dues, lasts_ns = laid_out([slow, quick], every_ns=5 * MS)
    line = virtual(monkeypatch, lasts_ns)
    pacer = OpenLoop(dues, line, line.send)
    pacer.start(0)
    while line.next(pacer):
        pass

    assert list(line.sent_ns) == [0, 2, 3, 1]


def test_in_a_closed_loop_a_turn_that_is_due_goes_before_a_new_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the first session thinks, its only slot is used by others; then it comes next."""
    dues, lasts_ns = laid_out([[(0, 2 * MS, 0), (3 * MS, 2 * MS, 0)], *[[(0, 2 * MS, 0)]] * 4], 0)
    line = virtual(monkeypatch, lasts_ns)
    pacer = ClosedLoop(dues, 1, line, line.send)
    pacer.start(0)
    while line.next(pacer):
        pass

    assert list(line.sent_ns) == [0, 2, 3, 1, 4, 5]


@pytest.mark.parametrize("is_open", [True, False])
def test_the_end_of_a_turn_sends_nothing_once_the_pacer_was_stopped(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    dues, lasts_ns = laid_out([[(0, MS, 0), (0, MS, 0)]], every_ns=0)
    line = virtual(monkeypatch, lasts_ns)
    pacer = OpenLoop(dues, line, line.send) if is_open else ClosedLoop(dues, 1, line, line.send)
    pacer.start(0)
    line.next(pacer)
    pacer.stop()
    while line.next(pacer):
        pass

    assert (list(line.sent_ns), list(line.ended_ns)) == ([0], [0])
