"""Which engines could be started on this machine, as far as a look at it tells."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from engines.gpu import open_gpus
from engines.hosted.libraries import LIBRARIES, Library, missing_modules
from engines.kinds import KINDS
from engines.registry import adapter_of
from harness.core.fitness import Finding, Fitness, finding

_INHOUSE = Library(("torch", "tokenizers", "gguf", "safetensors"), "inhouse")
_FOREIGN_WARN = 0.05
_GET_ENGINES = "`batchmark engines plan KIND` says how to get one"


def what_is_missing(kind: str) -> str | None:
    """What `kind`, which comes with batchmark, lacks here; None when nothing is known to be."""
    library = {"inhouse": _INHOUSE, **LIBRARIES}.get(kind)
    if library is not None:
        missing = missing_modules(library)
        return ", ".join(missing) or None
    adapter = adapter_of(kind)
    if adapter is None or adapter.program is None:
        return None  # it is only attached to
    program = os.environ.get(adapter.variable) or adapter.program
    beside_us = str(Path(sys.executable).parent)
    is_there = shutil.which(program) or shutil.which(program, path=beside_us)
    return None if is_there else f"program {program}"


def engine_findings() -> tuple[Finding, ...]:
    """Which engines are here, which are not, and which models were fetched."""
    lacking = {kind: what_is_missing(kind) for kind in KINDS}
    here = ", ".join(kind for kind, what in lacking.items() if what is None)
    absent = ", ".join(kind for kind, what in lacking.items() if what is not None)
    own = Fitness.FIT if lacking["inhouse"] is None else Fitness.WARN
    return (
        finding("engines here", here, own, "pip install 'batchmark[inhouse]' for our own engine"),
        Finding("not here", absent or "none", remedy=_GET_ENGINES if absent else ""),
        _models(),
    )


def gpu_findings(names: tuple[str, ...]) -> tuple[Finding, ...]:
    """What the GPUs called `names` say of themselves."""
    if not names:
        return (Finding("GPU", "none"),)
    readings = open_gpus().readings(None)
    if not readings:
        remedy = "pip install 'batchmark[gpu]', so that runs record clock, power and load"
        return (Finding("GPU", ", ".join(names), Fitness.WARN, remedy),)
    return tuple(_gpu(str(i), name, readings) for i, name in enumerate(names))


def _gpu(index: str, name: str, readings: Mapping[str, float]) -> Finding:
    load = readings.get(f"{index}.utilisation_share")
    used = readings.get(f"{index}.memory_used_bytes")
    said = [name]
    said += [] if load is None else [f"{load:.0%} busy"]
    said += [] if used is None else [f"{used / 2**30:.1f} GiB in use"]
    is_idle = load is None or load < _FOREIGN_WARN
    fitness = Fitness.FIT if is_idle else Fitness.WARN
    return finding(f"GPU {index}", ", ".join(said), fitness, "end what else computes on it")


def _models() -> Finding:
    try:
        from engines.models.model_store import CATALOGUE, is_fetched  # noqa: PLC0415 - an extra
    except ImportError:
        return Finding("models", "none: what reads model files is not installed")
    fetched = [name for name in CATALOGUE if is_fetched(name)]
    if fetched:
        return Finding("models", ", ".join(fetched))
    remedy = f"batchmark model fetch {next(iter(CATALOGUE))}, or name a folder with --model"
    return Finding("models", "none fetched", Fitness.WARN, remedy)
