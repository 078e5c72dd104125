"""The batching policies, behind one question: how many of the waiting may start now?

static       waits for a full batch, and starts no other until the whole batch has ended
dynamic      the same, but starts what is there once the oldest has waited for a window
continuous   a slot that is freed in step k is filled in step k+1 (Orca, OSDI 2022, §3.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

DYNAMIC_WINDOW_NS = 50_000_000


@dataclass(frozen=True, slots=True)
class QueueView:
    """What a policy may know when it is asked.

    `held` slots belong to running sequences and to padding. `oldest_arrived_ns` is None when nobody
    waits. `is_draining`: the caller promises that no more requests will come.
    """

    now_ns: int
    waiting: int
    held: int
    slots: int
    oldest_arrived_ns: int | None
    is_draining: bool


class Policy(Protocol):
    """When sequences start, and whether an ended one keeps its slot."""

    @property
    def name(self) -> str: ...

    @property
    def holds_slots(self) -> bool:
        """True when ended sequences stay in the batch as padding until all of it has ended."""
        ...

    def admit_count(self, view: QueueView) -> int:
        """How many from the head of the queue may start in this step."""
        ...

    def decision_ns(self, view: QueueView) -> int | None:
        """When the answer changes though nothing happens; None when only an event changes it."""
        ...


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Static and dynamic batching: one batch at a time, formed when full or after `window_ns`.

    `window_ns` None waits for a full batch however long that takes.
    """

    name: str
    window_ns: int | None
    holds_slots: bool = True

    def admit_count(self, view: QueueView) -> int:
        """A whole batch, or nothing."""
        if view.held or not view.waiting:
            return 0
        is_full = view.waiting >= view.slots
        due_ns = self.decision_ns(view)
        is_due = due_ns is not None and view.now_ns >= due_ns
        return min(view.waiting, view.slots) if is_full or is_due or view.is_draining else 0

    def decision_ns(self, view: QueueView) -> int | None:
        """The end of the oldest sequence's window."""
        if self.window_ns is None or view.oldest_arrived_ns is None:
            return None
        return view.oldest_arrived_ns + self.window_ns


@dataclass(frozen=True, slots=True)
class ContinuousPolicy:
    """Iteration-level scheduling: every free slot is filled at every step."""

    name: str = "continuous"
    holds_slots: bool = False

    def admit_count(self, view: QueueView) -> int:
        """As many as there are free slots."""
        return min(view.waiting, view.slots - view.held)

    def decision_ns(self, view: QueueView) -> int | None:  # noqa: ARG002 - the protocol's question
        """None: only arrivals and endings change the answer."""
        return None


POLICY_NAMES = ("static", "dynamic", "continuous")


def make_policy(name: str, window_ns: int | None = None) -> Policy:
    """The policy called `name`; `window_ns` overrides how long a batch policy waits to be full.

    Raises ValueError when there is no such policy.
    """
    match name:
        case "static":
            return BatchPolicy("static", window_ns)
        case "dynamic":
            return BatchPolicy("dynamic", DYNAMIC_WINDOW_NS if window_ns is None else window_ns)
        case "continuous":
            return ContinuousPolicy()
        case _:
            msg = f"unknown policy {name!r}; choose from {', '.join(POLICY_NAMES)}"
            raise ValueError(msg)
