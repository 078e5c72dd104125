"""The options that several commands share and that no dataclass of flags holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.core.flag import Flag, Word

BASELINES = Path("baselines")

Baselines = Annotated[Path, Flag("Where named baselines are kept; meant for git.")]
Why = Annotated[str, Flag("The reason, kept with the baseline.")]
AsJson = Annotated[bool, Flag("Print JSON.", "--json")]
JsonAlone = Annotated[bool, Flag("Print JSON, and all else on standard error.", "--json")]
WorkloadName = Annotated[str, Word("WORKLOAD", "A workload's name, or a TOML file.")]
RunFolder = Annotated[Path, Word("RUN", "A run folder.")]
Repeats = Annotated[tuple[Path, ...], Word("RUN...", "Run folders: repeats of one setting.")]
