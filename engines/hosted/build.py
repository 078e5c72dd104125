"""From the kind of a hosted engine to the engine, imported only when it is asked for."""

from __future__ import annotations

from pathlib import Path

from engines.hosted.libraries import LIBRARIES, require_library
from engines.hosted.options import HostedOptions
from engines.serving.generation import TokenEngine
from harness.core.clock import Clock
from harness.core.errors import UsageError
from harness.core.rundir import LineWriter


def build_engine(
    kind: str, path: Path, options: HostedOptions, clock: Clock, step_log: LineWriter | None
) -> TokenEngine:
    """The engine `kind` around the model at `path`, loaded. Only some kinds log their steps.

    Raises UsageError when there is no such kind, its library is not installed, or an option is
    wrong, and ModelFileError when it cannot read the model.
    """
    if kind not in LIBRARIES:
        msg = f"no library is hosted as {kind!r}; known are {', '.join(LIBRARIES)}"
        raise UsageError(msg)
    require_library(kind)
    if kind == "openvino":
        from engines.hosted import openvino_engine  # noqa: PLC0415 - only what is used

        return openvino_engine.build_engine(path, options, clock)
    from engines.hosted import huggingface_static  # noqa: PLC0415 - only what is used

    return huggingface_static.build_engine(path, options, clock, step_log)
