"""What can be sent: a mix, a locked schedule, a trace; a workload is made when asked for."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

from harness.commands.tokenizing import prompt_options
from harness.core.errors import UsageError
from harness.core.source import Source, SourceFlags
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from workloads.catalog import build_warmup, make_arrivals, spec_of
from workloads.exact_text import Residue
from workloads.fitting import Oversize
from workloads.materialise import PromptOptions
from workloads.schedule_file import Outline, store_workload, write_schedule
from workloads.spec import WorkloadSpec
from workloads.trace_workload import OpenTrace, TracePlan, open_requests

# More are kept in a file: in memory a token takes 36 bytes.
_MOST_TOKENS_IN_MEMORY = 5_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """How something is to be sent. `load` None: none was named.

    `model` is the one whose tokenizer reads texts, unless `source` names another.
    """

    load: Load | None
    repeat_mix: int | None
    source: SourceFlags
    model: str | None = None
    context_tokens: int | None = None


class Sendable(Protocol):
    """Something to send."""

    def workload(self, asked: Asked, seed: int) -> Workload:
        """All of it, from `seed`. Raises UsageError where it cannot be made."""
        ...

    def lock(self, asked: Asked, seed: int, path: Path) -> Workload:
        """All of it, written to the new file `path`."""
        ...

    def warmup(self, asked: Asked, count: int, seed: int) -> tuple[Request, ...]:
        """`count` requests to send before measuring, of like lengths and with other prompts."""
        ...


class Shelf:
    """Workloads that are too large for memory, in a temporary folder that goes with the program."""

    def __init__(self) -> None:
        """Make no folder before there is something to put into it."""
        self._folder: Path | None = None
        self._stored = 0

    def store(self, outline: Outline, arrivals: Iterable[Arrival]) -> Workload:
        """The workload of `arrivals`, of which few are in memory at a time."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="batchmark-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._stored += 1
        return store_workload(self._folder / f"{self._stored}.jsonl", outline, arrivals)


@dataclass(frozen=True, slots=True)
class Mix:
    """A specification."""

    spec: WorkloadSpec
    shelf: Shelf = field(default_factory=Shelf)

    def workload(self, asked: Asked, seed: int) -> Workload:
        """As Sendable says."""
        outline, residue = self._outline(asked, seed), Residue()
        arrivals = self._arrivals(asked, seed, residue)
        tokens = sum(row.prompt_tokens for row in self.spec.requests) * (asked.repeat_mix or 1)
        if tokens > _MOST_TOKENS_IN_MEMORY:
            made = self.shelf.store(outline, arrivals)
        else:
            made = Workload(outline.name, seed, outline.repeat_mix, outline.load, tuple(arrivals))
        return self._told(made, residue)

    def lock(self, asked: Asked, seed: int, path: Path) -> Workload:
        """As Sendable says."""
        residue = Residue()
        arrivals = self._arrivals(asked, seed, residue)
        return self._told(store_workload(path, self._outline(asked, seed), arrivals), residue)

    def warmup(self, asked: Asked, count: int, seed: int) -> tuple[Request, ...]:
        """As Sendable says."""
        return build_warmup(self.spec, count, seed, prompt_options(asked.source, asked.model))

    def _told(self, made: Workload, residue: Residue) -> Workload:
        """`made`, with what is to be said of prompts that are not of the length asked for."""
        if not str(residue):
            return made
        source = Source(
            file=self.spec.name,
            sha256="",
            format="specification",
            is_guessed=False,
            time="as the load says",
            residue=str(residue),
        )
        return with_source(made, source)

    def _outline(self, asked: Asked, seed: int) -> Outline:
        load = asked.load or Load(LoadKind.BACKLOG)
        return Outline(self.spec.name, seed, asked.repeat_mix, load)

    def _arrivals(self, asked: Asked, seed: int, residue: Residue) -> Iterator[Arrival]:
        options = prompt_options(asked.source, asked.model)
        load = self._outline(asked, seed).load
        return make_arrivals(self.spec, load, asked.repeat_mix, seed, options, residue)


@dataclass(frozen=True, slots=True)
class Locked:
    """A locked schedule: the same bytes whatever the seed."""

    locked: Workload

    def workload(self, asked: Asked, seed: int) -> Workload:  # noqa: ARG002 - it is locked
        """As Sendable says."""
        return self.locked

    def lock(self, asked: Asked, seed: int, path: Path) -> Workload:  # noqa: ARG002
        """As Sendable says."""
        write_schedule(path, self.locked)
        return self.locked

    def warmup(self, asked: Asked, count: int, seed: int) -> tuple[Request, ...]:  # noqa: ARG002
        """As Sendable says."""
        return build_warmup(spec_of(self.locked), count, seed)


@dataclass(slots=True)
class Traced:
    """A trace. What is made of it is kept, so that nothing is made twice."""

    path: Path
    name: str
    shelf: Shelf = field(default_factory=Shelf)
    made: dict[tuple[Asked, int], Workload] = field(default_factory=dict)

    def workload(self, asked: Asked, seed: int) -> Workload:
        """As Sendable says."""
        if (asked, seed) not in self.made:
            self.made[asked, seed] = self._make(asked, seed)
        return self.made[asked, seed]

    def warmup(self, asked: Asked, count: int, seed: int) -> tuple[Request, ...]:
        """As Sendable says."""
        return build_warmup(spec_of(self.workload(asked, seed)), count, seed)

    def lock(self, asked: Asked, seed: int, path: Path) -> Workload:
        """As Sendable says."""
        workload = self.workload(asked, seed)
        write_schedule(path, workload)
        return workload

    def opened(self, asked: Asked, seed: int) -> OpenTrace:
        """The rows of the trace as they are due, before prompts are made."""
        return open_requests(TracePlan(self.path, asked.source, asked.load, seed))

    def arrivals(self, opened: OpenTrace, asked: Asked, seed: int) -> Iterator[Arrival]:
        """The requests that are made of the rows of `opened`."""
        options = prompt_options(asked.source, asked.model, has_text=opened.has_text)
        options = options or PromptOptions(output_tokens=asked.source.output_tokens)
        return opened.arrivals(options, seed, _room(asked))

    def _make(self, asked: Asked, seed: int) -> Workload:
        opened = self.opened(asked, seed)
        outline = Outline(self.name, seed, None, opened.load)
        stored = self.shelf.store(outline, self.arrivals(opened, asked, seed))
        if not stored.arrivals:
            lost = "; ".join(str(loss) for loss in opened.source().losses)
            msg = f"nothing of {self.path.name} is left to send: {lost}"
            raise UsageError(f"{msg}; take a longer context, or another file")
        return with_source(stored, opened.source())


def with_source(workload: Workload, source: Source) -> Workload:
    """`workload`, read from `source`."""
    of_source = replace(workload, source=source)
    of_source.remember(workload.totals)
    return of_source


def _room(asked: Asked) -> tuple[int, Oversize] | None:
    """The context that requests must fit into, and how; None where they are left as they are."""
    if asked.source.oversize is None:
        return None
    if asked.context_tokens is None:
        msg = f"--oversize is {asked.source.oversize}, but how long is too long is not known"
        raise UsageError(f"{msg}; give --context-tokens")
    return asked.context_tokens, cast("Oversize", asked.source.oversize)
