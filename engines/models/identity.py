"""What a model is: the words and the digest by which two runs are seen to have had the same one."""

from __future__ import annotations

import json
import re
from collections import Counter
from math import prod
from pathlib import Path

from engines.models.gguf_file import read_gguf
from engines.models.model_store import sha256_of, weight_files
from engines.models.safetensors_file import read_safetensors

# Beside the weights of a model that was made from another one: what that was.
ORIGIN = "batchmark.json"
_QUANTISATION = re.compile(r"[.-](I?Q\d\w*|F16|BF16|F32)$", re.IGNORECASE)


def model_name(path: Path) -> str:
    """The name of the model at `path`: its folder's, or its file's without the quantisation.

    A folder that was made from another model has the name of that one.
    """
    if path.is_dir():
        return _origin(path) or path.resolve().name
    return _QUANTISATION.sub("", path.stem)


def _origin(folder: Path) -> str | None:
    """The name of the model that `folder` was made from, where that is on record."""
    try:
        record = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        return str(record["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def model_digest(path: Path) -> str:
    """sha256, in hex, of the weights of the model at `path`, files one after the other."""
    return sha256_of(weight_files(path))


def describe_weights(path: Path) -> str:
    """The type that most weights are stored in, and the file format, such as `Q4_1 GGUF`."""
    counts: Counter[str] = Counter()
    if path.is_dir():
        for file in weight_files(path):
            for stored in read_safetensors(file).values():
                counts[stored.kind] += prod(stored.shape)
        return f"{counts.most_common(1)[0][0]} safetensors"
    for tensor in read_gguf(path).tensors.values():
        counts[tensor.kind.name] += prod(tensor.shape)
    return f"{counts.most_common(1)[0][0]} GGUF"
