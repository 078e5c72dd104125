"""The flags of `batchmark plot`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from harness.core.errors import UsageError
from harness.core.flag import Flag, Word, choice


class Kind(StrEnum):
    """What is drawn."""

    ECDF = "ecdf"
    TIMELINE = "timeline"
    PARETO = "pareto"
    WATERFALL = "waterfall"
    STEPS = "steps"
    TURNS = "turns"


class Form(StrEnum):
    """What kind of file a figure is written as."""

    SVG = "svg"
    PNG = "png"
    PDF = "pdf"


@dataclass(frozen=True, slots=True)
class PlotFlags:
    """The flags of `batchmark plot`, as typed."""

    runs: Annotated[
        tuple[Path, ...],
        Word("RUN...", "Run folders; a sweep's folder for pareto, an ablation's for waterfall."),
    ]
    kind: Annotated[
        str,
        Flag(
            "ecdf (latencies), timeline (in flight, KV use), pareto (latency against throughput), "
            "waterfall (an ablation), steps (slots, padding) or turns (of sessions)."
        ),
    ] = "ecdf"
    metric: Annotated[
        str | None,
        Flag("Of several figures which one: ttft, tpot, e2e; of a waterfall output_tok_s ..."),
    ] = None
    format: Annotated[str | None, Flag("svg, png or pdf; as --out ends, or svg.")] = None
    out: Annotated[Path | None, Flag("The file to write; KIND.svg by default.", "--out -o")] = None
    dark: Annotated[bool, Flag("Draw on a dark ground.", "--dark")] = False
    force: Annotated[bool, Flag("Replace the file if it is there already.", "--force")] = False

    @property
    def chosen(self) -> tuple[Kind, Form, Path]:
        """What is drawn, as which kind of file, and where that is written.

        Raises UsageError for what cannot be drawn, or a file whose name says another kind.
        """
        kind = choice("--kind", self.kind, Kind)
        known = [form.value for form in Form]
        ending = "" if self.out is None else self.out.suffix.removeprefix(".").lower()
        if self.format is not None:
            form = choice("--format", self.format, Form)
        elif self.out is None:
            form = Form.SVG
        elif ending in known:
            form = Form(ending)
        else:
            msg = f"{self.out} ends in no known format; name one with --format: {', '.join(known)}"
            raise UsageError(msg)
        if ending in known and ending != form:
            msg = f"{self.out} is named as {ending}, but --format is {form}; change one of them"
            raise UsageError(msg)
        return kind, form, Path(f"{kind}.{form}") if self.out is None else self.out
