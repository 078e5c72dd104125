"""What a format is: a name, a test on the start of a file, and a reading of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import TimeUnit
from workloads.importers.source import TraceFile
from workloads.shape import Shape


@dataclass(frozen=True, slots=True)
class Format:
    """One format of traces or prompts, known by `name` to --format.

    `licence` is that of the published data in this format, in words, empty where there is none to
    name. `time` is the unit of the times in the file, None where it has none.

    `read` yields a shape for each request, in the order of the file. It gives `due_ns` and
    `delay_ns` as the file has them, taken to be in `time`: `open_trace` takes them to the unit that
    was asked for, sorts the shapes, counts from the first one, and numbers the turns of sessions.
    It counts in the Losses what it does not take, and raises TraceError for what it cannot read.

    `drawn` is of a format whose files hold rates and distributions in place of requests: it says
    in words what was drawn from a file that was read, and with which seed.
    """

    name: str
    title: str
    licence: str
    time: TimeUnit | Literal["wall clock"] | None
    detect: Callable[[Head], bool]
    read: Callable[[TraceFile, Losses], Iterator[Shape]]
    drawn: Callable[[TraceFile], str] | None = None
