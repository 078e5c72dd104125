"""Which packages each hosted engine needs, and the one line to say when they are not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from harness.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Library:
    """The modules that an engine imports, and the extra of batchmark that installs them."""

    modules: tuple[str, ...]
    extra: str


LIBRARIES: Mapping[str, Library] = {
    "huggingface-static": Library(("torch", "transformers", "accelerate", "gguf"), "huggingface"),
    "openvino": Library(("openvino_genai", "tokenizers", "gguf"), "openvino"),
}


def missing_modules(library: Library) -> tuple[str, ...]:
    """Which modules of `library` are not installed; imports nothing."""
    return tuple(module for module in library.modules if find_spec(module) is None)


def require_library(kind: str) -> None:
    """Raise UsageError unless what the hosted engine `kind` needs is installed; imports nothing."""
    library = LIBRARIES[kind]
    if missing := missing_modules(library):
        msg = (
            f"{kind} needs {', '.join(missing)}, not installed here; "
            f"run `pip install 'batchmark[{library.extra}]'`"
        )
        raise UsageError(msg)
