"""Weka's agentic coding traces: the calls of one conversation, their lengths, and their blocks.

    {"id": "t1", "block_size": 64, "hash_id_scope": "local", "requests": [
        {"t": 0.0, "type": "n", "in": 130, "out": 20, "hash_ids": [1, 2, 3], "api_time": 0.8}, ...]}

`t` counts seconds from the conversation's own start, so that a turn waits as long as it did after
the answer before it (`t` + `api_time`), and sessions start when the load says. A request of type
`subagent` holds the calls of a sub-agent on the same clock: they are sent in turn with the others,
since a session has one request in flight. Hashes of one conversation mean nothing in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from workloads.importers.chat_messages import Notes, UnusableRow, session_of, usable_shapes
from workloads.importers.documents import objects_of
from workloads.importers.format import Format
from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile
from workloads.shape import PrefixBlocks, Shape


@dataclass(slots=True)
class _Blocks:
    """The blocks of one conversation, under ids that no other conversation of the file has."""

    tokens: int
    fresh: Iterator[int]
    known: dict[int, int] = field(default_factory=dict)

    def of(self, request: Row, prompt_tokens: int, notes: Notes) -> PrefixBlocks | None:
        """The blocks of a prompt: too many hashes are cut, and too few end in new blocks."""
        if not request.has("hash_ids"):
            return None
        hashes = request.ids("hash_ids")
        wanted = -(-prompt_tokens // self.tokens)
        if len(hashes) != wanted:
            notes.repaired.add("as many blocks made of hash_ids as the prompt has")
        known = [self._id_of(h) for h in hashes[:wanted]]
        own = [next(self.fresh) for _ in range(wanted - len(known))]
        return PrefixBlocks((*known, *own), self.tokens)

    def _id_of(self, block_hash: int) -> int:
        if block_hash not in self.known:
            self.known[block_hash] = next(self.fresh)
        return self.known[block_hash]


def _read(file: TraceFile, losses: Losses) -> Iterator[Shape]:
    fresh = count()
    return usable_shapes(
        objects_of(file, losses), losses, lambda row, notes: _turns(row, notes, fresh)
    )


def _turns(row: Row, notes: Notes, fresh: Iterator[int]) -> Sequence[Shape]:
    if row.text("hash_id_scope") != "local":
        row.refuse("hash_id_scope", "'local'")
    if not row.whole("block_size"):
        row.refuse("block_size", "at least 1")
    blocks = _Blocks(row.whole("block_size"), fresh)
    session = session_of(row, "id")
    shapes: list[Shape] = []
    before: Row | None = None
    for request in sorted(_calls(row, notes), key=_start_ns):
        prompt_tokens, output_tokens = request.whole("in"), request.whole("out")
        if not prompt_tokens or not output_tokens:
            notes.dropped.append("a call without tokens")
            continue
        shapes.append(
            Shape(
                prompt_tokens,
                output_tokens,
                label=request.optional_text("model") or "",
                blocks=blocks.of(request, prompt_tokens, notes),
                session=session,
                turn=len(shapes),
                delay_ns=0 if before is None else _pause_ns(before, request, notes),
            )
        )
        before = request
    if not shapes and not notes.dropped:
        raise UnusableRow("a conversation without calls")
    return shapes


def _calls(row: Row, notes: Notes) -> Iterator[Row]:
    for request in row.objects("requests"):
        if request.fields.get("type") == "subagent":
            notes.repaired.add("calls of sub-agents sent in turn, not beside those of their parent")
            yield from _calls(request, notes)
        else:
            yield request


def _start_ns(request: Row) -> int:
    return request.instant_ns("t", "s")


def _pause_ns(before: Row, request: Row, notes: Notes) -> int:
    """From the end of the call before to the start of this one."""
    took_ns = before.optional_instant_ns("api_time", "s")
    if took_ns is None and request.has("think_time"):
        return request.instant_ns("think_time", "s")
    if took_ns is None:
        notes.repaired.add("no api_time nor think_time, so that pauses are from start to start")
    pause_ns = _start_ns(request) - _start_ns(before) - (took_ns or 0)
    if pause_ns < 0:
        notes.clamped.add("a call that began before the one before it ended")
    return max(0, pause_ns)


WEKA = Format(
    name="weka",
    title="Weka agentic coding traces (JSON, or JSON lines)",
    licence="",
    time="s",
    detect=lambda head: "hash_id_scope" in head.keys,
    read=_read,
)
