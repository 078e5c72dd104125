"""`batchmark model`: get models that can be measured offline."""

from __future__ import annotations

from engines.inhouse.model_store import CATALOGUE, fetch_model, is_fetched
from harness import console
from harness.core.cache import default_cache_folder
from harness.core.errors import ExitCode


def fetch(name: str) -> ExitCode:
    """Download the model `name` into the cache, and check it."""
    path = fetch_model(name, default_cache_folder())
    console.print_line(f"model {name}: {path}")
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
