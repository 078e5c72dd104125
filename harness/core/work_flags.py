"""The flags of the commands that look at a workload, and send nothing: show, preview, lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from harness.core.engine_flags import ContextTokens
from harness.core.flag import Flag, Word
from harness.core.load_flags import LoadFlags
from harness.core.source import SourceFlags


@dataclass(frozen=True, slots=True)
class WorkFlags:
    """What would be sent, as typed."""

    workload: Annotated[
        str | None,
        Word("WORKLOAD", "A workload's name, a TOML file or a trace; not needed with --schedule."),
    ] = None
    seed: Annotated[int | None, Flag("Prompts and due times; 0 by default.")] = None
    load: LoadFlags = field(default_factory=LoadFlags)
    source: SourceFlags = field(default_factory=SourceFlags)
    context_tokens: ContextTokens = None
