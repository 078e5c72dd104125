"""All formats, and the way from a file to its requests: tell the format, read it, set the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from workloads.importers.aiperf import AIPERF_INPUTS, AIPERF_MULTI_TURN, AIPERF_SINGLE_TURN
from workloads.importers.azure import AZURE
from workloads.importers.bailian import BAILIAN
from workloads.importers.burstgpt import BURSTGPT
from workloads.importers.format import Format
from workloads.importers.genai_bench import GENAI_BENCH
from workloads.importers.guidellm import GUIDELLM_PROMPTS, GUIDELLM_TRACE
from workloads.importers.lmcache import LMCACHE
from workloads.importers.losses import Losses
from workloads.importers.mooncake import MOONCAKE
from workloads.importers.openai_chat import OPENAI_BATCH, OPENAI_CHAT
from workloads.importers.otel import OTEL
from workloads.importers.row import TimeUnit
from workloads.importers.servegen import SERVEGEN
from workloads.importers.sglang import (
    SGLANG_AGENTIC,
    SGLANG_AUTOBENCH,
    SGLANG_CUSTOM,
    SGLANG_CUSTOM_SESSIONS,
)
from workloads.importers.sharegpt import SHAREGPT, SHAREGPT_SESSIONS
from workloads.importers.source import TraceFile
from workloads.importers.timeline import on_one_clock
from workloads.importers.vidur import VIDUR
from workloads.importers.vllm_custom import VLLM_CUSTOM
from workloads.importers.weka import WEKA
from workloads.shape import Shape

FORMATS: tuple[Format, ...] = (
    AIPERF_INPUTS,
    AIPERF_MULTI_TURN,
    AIPERF_SINGLE_TURN,
    AZURE,
    BAILIAN,
    BURSTGPT,
    GENAI_BENCH,
    GUIDELLM_PROMPTS,
    GUIDELLM_TRACE,
    LMCACHE,
    MOONCAKE,
    OPENAI_BATCH,
    OPENAI_CHAT,
    OTEL,
    SERVEGEN,
    SGLANG_AGENTIC,
    SGLANG_AUTOBENCH,
    SGLANG_CUSTOM,
    SGLANG_CUSTOM_SESSIONS,
    SHAREGPT,
    SHAREGPT_SESSIONS,
    VIDUR,
    VLLM_CUSTOM,
    WEKA,
)


@dataclass(frozen=True, slots=True)
class Detected:
    """The format of a file, whether it was guessed from the file's start, and that in words."""

    format: Format
    guessed: bool
    words: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The requests of a file, to be read once, in order of time, and what is known of them.

    `losses` is whole only when all shapes were read. `time` says in words how times were read, and
    what was drawn, where the file holds no requests.
    """

    file: TraceFile
    detected: Detected
    shapes: Iterator[Shape]
    losses: Losses
    time: str

    @property
    def format(self) -> Format:
        """The format that the file is read in."""
        return self.detected.format

    @property
    def is_guessed(self) -> bool:
        """True when the format was told from the file's start."""
        return self.detected.guessed

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    @property
    def sha256(self) -> str:
        """The digest of the file's bytes, in hex. Reads all of it."""
        return self.file.sha256


def detect_format(file: TraceFile, named: str | None) -> Detected:
    """The format called `named`, or the one that the start of `file` looks like.

    Raises UsageError when there is no format of that name, and when the file looks like none, or
    like several.
    """
    if named is not None:
        found = next((f for f in FORMATS if f.name == named), None)
        if found is None:
            msg = f"--format is {named!r}, which is no format; take one of {_names(FORMATS)}"
            raise UsageError(msg)
        return Detected(found, guessed=False, words=f"{found.title}, as --format says")
    candidates = [f for f in FORMATS if f.detect(file.head)]
    if len(candidates) == 1:
        words = f"{candidates[0].title}, by its fields; --format names another"
        return Detected(candidates[0], guessed=True, words=words)
    if candidates:
        choices = " or ".join(f"--format {f.name} ({_about(f)})" for f in candidates)
        msg = f"{file.path} has the fields of more than one format; add {choices}"
    else:
        seen = ", ".join(map(repr, sorted(file.head.fields)))[:200] or "no fields with names"
        msg = (
            f"{file.path} looks like no format that is known ({seen}); if it is one, name it with "
            f"--format: {_names(FORMATS)}"
        )
    raise UsageError(msg)


def open_trace(
    path: Path,
    named_format: str | None = None,
    time_unit: TimeUnit | None = None,
    draw_seed: int = 0,
) -> Trace:
    """The requests of the file at `path`, in the format called `named_format`, or the one guessed.

    `time_unit` is that of the file's times, where it is not the format's. Requests are drawn with
    `draw_seed` where the file has only rates. Rows are read as the shapes are taken, up to 32,768
    of them ahead, so that those out of order are put right.

    Raises UsageError as `TraceFile`, `detect_format` and `on_one_clock` do, and TraceError for a
    row that is not what the format says: here, or when the shapes are taken.
    """
    file = TraceFile(path, draw_seed)
    detected = detect_format(file, named_format)
    losses = Losses()
    shapes = detected.format.read(file, losses)
    ordered, clock = on_one_clock(shapes, file, detected.format, time_unit, losses)
    said = clock.words
    if detected.format.drawn is not None:
        said += f"; {detected.format.drawn(file)}"
    return Trace(file, detected, ordered, losses, said)


def _about(source: Format) -> str:
    """What tells a format from others with the same fields: whose it is, and in what its times."""
    if source.time is None or source.time == "wall clock":
        return source.title
    return f"{source.title}, times in {source.time}"


def _names(formats: tuple[Format, ...] | list[Format]) -> str:
    return ", ".join(f.name for f in formats)
