"""Where requests come from: what was named, how it was to be read, and what became of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Flag, require_positive

DAY_S = 86_400
# The words that some of the flags take.
CHOICES = {
    "time_unit": ("s", "ms", "us", "ns"),
    "oversize": ("drop", "clamp"),
    "prompts": ("random", "natural"),
    "chat_form": ("template", "plain"),
}
_OF_A_TRACE = (
    "format",
    "time_unit",
    "time_scale",
    "thin",
    "spread",
    "requests",
    "oversize",
    "output_tokens",
    "chat_form",
    "draw_seed",
)


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """The flags that say how a trace is read, and what prompts are made of; None where not given.

    Those for times and rows say something only of a trace. `context_tokens` is not among them: what
    `oversize` counts against is what the engine is told.
    """

    format: Annotated[str | None, Flag("A trace's format, where it is not to be detected.")] = None
    time_unit: Annotated[str | None, Flag("What a trace's times are in: s, ms, us or ns.")] = None
    time_scale: Annotated[
        float | None, Flag("Replay a trace in so many times its time: 0.5 is twice as fast.")
    ] = None
    thin: Annotated[
        float | None, Flag("Keep this share of a trace's sessions, drawn by --draw-seed.")
    ] = None
    spread: Annotated[
        float | None, Flag("Move requests of one tick of a trace apart within so many seconds.")
    ] = None
    requests: Annotated[int | None, Flag("Take the first so many requests of a trace.")] = None
    oversize: Annotated[
        str | None, Flag("Requests longer than --context-tokens: drop them, or clamp the prompt.")
    ] = None
    tokenizer: Annotated[
        str | None, Flag("Model that cuts text into tokens; that of --model by default.")
    ] = None
    prompts: Annotated[
        str | None, Flag("Prompts made for a length: random tokens, or natural text.")
    ] = None
    output_tokens: Annotated[
        int | None, Flag("Answer length of requests whose source does not say one.")
    ] = None
    chat_form: Annotated[
        str | None, Flag("Messages to text: by the model's template, or plain.")
    ] = None
    draw_seed: Annotated[
        int | None,
        Flag(
            "Which requests a trace has where they are drawn: by --thin, or from the rates of "
            "ServeGen. 0 by default; not --seed, so that every repeat has the same work."
        ),
    ] = None
    yes: Annotated[bool, Flag("A schedule of more than a day is meant.", "--yes")] = False

    @property
    def of_a_trace(self) -> tuple[str, ...]:
        """The flags that were given and say nothing of a workload that is no trace."""
        return tuple(_option(name) for name in _OF_A_TRACE if getattr(self, name) is not None)


def require_sound(flags: SourceFlags) -> None:
    """Raise UsageError naming the flag whose value is wrong."""
    for name, choices in CHOICES.items():
        value = getattr(flags, name)
        if value is not None and value not in choices:
            msg = f"{_option(name)} is {value!r}; choose from {', '.join(choices)}"
            raise UsageError(msg)
    for name in ("time_scale", "thin", "spread", "requests", "output_tokens"):
        number = getattr(flags, name)
        if number is not None:
            require_positive(_option(name), number)
    if flags.thin is not None and flags.thin > 1:
        msg = f"--thin is {flags.thin:g}; it is the share that is kept, 1 at most"
        raise UsageError(msg)


def _option(field_name: str) -> str:
    return f"--{field_name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What was named when a run was asked for, so that it can be asked for again.

    `workload` is a name of the catalog or an absolute path; `schedule` the absolute path of a
    locked file, replayed at `speed`.
    """

    workload: str
    schedule: str | None = None
    speed: float | None = None
    reading: SourceFlags = field(default_factory=SourceFlags)


@dataclass(frozen=True, slots=True)
class LostRows:
    """Rows that were not taken as they were: `kind` says dropped, clamped or repaired."""

    kind: str
    reason: str
    rows: int
    first_row: int

    def __str__(self) -> str:
        """Such as `3 rows dropped: no answer (first: row 7)`."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{rows} {self.kind}: {self.reason} (first: row {self.first_row})"


@dataclass(frozen=True, slots=True)
class Source:
    """The file that a workload was read from, how it was understood, and what was lost.

    `time` says in words what its times were taken for; `residue` what of a promise could not be
    kept to the token, None where all was.
    """

    file: str
    sha256: str
    format: str
    is_guessed: bool
    time: str
    licence: str = ""
    losses: tuple[LostRows, ...] = ()
    residue: str | None = None
