"""A model that lies on this machine: where it is, whether an engine reads it, and what it is.

The same words as the in-house engine's, so that two engines on the same files are seen to be alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ModelFileError

_READS = {
    "folder": "a Hugging Face folder or a model of a hub",
    "gguf": "a GGUF file",
    "any": "a model that was fetched, a GGUF file or a Hugging Face folder",
}
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """What a model's files say: a name, the sha256 of the weights, and how these are stored."""

    title: str
    digest: str
    weights: str | None


def located(model: str) -> str:
    """The absolute path of `model` when it lies on this machine; or else `model`, a hub's id.

    On this machine are files, folders, and the models that `batchmark model fetch` has fetched.
    """
    path = Path(model).expanduser()
    if path.exists():
        return str(path.resolve())
    try:
        from engines.models.model_store import CATALOGUE, resolve_model  # noqa: PLC0415
    except ImportError:  # the extra that reads GGUF files is not installed
        return model
    return str(resolve_model(model).resolve()) if model in CATALOGUE else model


def require_readable(kind: str, reads: str, model: str) -> None:
    """Raise ModelFileError unless an engine that reads `reads` can read `model`, a located one."""
    path = Path(model)
    is_gguf = path.suffix == ".gguf"
    if not path.is_absolute():
        if reads != "folder" or is_gguf or not _HUB_ID.fullmatch(model):
            msg = (
                f"{kind} reads {_READS[reads]}, and {model!r} is none; give --model one that exists"
            )
            raise ModelFileError(msg)
    elif reads == "gguf" and not is_gguf:
        msg = f"{kind} reads GGUF files, {model} is none; convert it, or give another --model"
        raise ModelFileError(msg)
    elif reads == "folder" and not (path / "config.json").is_file():
        how = "`batchmark model export MODEL FOLDER` writes one from a GGUF file"
        msg = f"{kind} reads a Hugging Face folder, {model} is none; {how}"
        raise ModelFileError(msg)


def local_model(model: str) -> LocalModel | None:
    """What the files of `model` say; None when it does not lie on this machine, or has no weights.

    Also None where the extra that reads model files is not installed.
    """
    path = Path(model)
    try:
        from engines.models import identity, model_store  # noqa: PLC0415 - needs an extra
    except ImportError:
        return None
    if not path.is_absolute() or not model_store.weight_files(path):
        return None
    # What llama.cpp stores in a file it tells itself, and may know types that we do not.
    weights = identity.describe_weights(path) if path.is_dir() else None
    return LocalModel(identity.model_name(path), identity.model_digest(path), weights)
