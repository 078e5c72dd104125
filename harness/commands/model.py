"""`batchmark model`: get models that can be measured offline."""

from __future__ import annotations

from pathlib import Path

from engines.hosted.libraries import require_library
from engines.models.model_store import CATALOGUE, fetch_model, is_fetched, resolve_model
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.errors import ExitCode, UsageError


def fetch(name: str) -> ExitCode:
    """Download the model `name` into the cache, and check it."""
    path = fetch_model(name, default_cache_folder())
    console.print_line(f"model {name}: {path}")
    return ExitCode.OK


def export(name: str, folder: Path, dtype: str) -> ExitCode:
    """Write the GGUF file of the model `name` as a Hugging Face folder."""
    cache = default_cache_folder()
    path = resolve_model(name, cache)
    if path.is_dir():
        msg = f"{path} is a folder already; give the name of a model, or a GGUF file"
        raise UsageError(msg)
    require_library("huggingface-static")
    from engines.hosted.export import export_folder  # noqa: PLC0415 - torch, and slow to load

    export_folder(path, folder, dtype)
    console.print_line(f"model {name}, {dtype}: {folder}")
    return ExitCode.OK


def list_models() -> ExitCode:
    """Print the models that can be fetched."""
    folder = default_cache_folder()
    console.print_table(
        f"Models (cache: {folder})",
        ("name", "fetched", "what it is"),
        [
            (name, "yes" if is_fetched(name, folder) else "no", model.description)
            for name, model in CATALOGUE.items()
        ],
    )
    return ExitCode.OK
