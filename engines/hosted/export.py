"""A GGUF file as a Hugging Face folder, for the engines that read folders alone."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

from engines.models.identity import ORIGIN, describe_weights, model_digest, model_name
from harness.core.errors import ModelFileError, UsageError

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def export_folder(path: Path, folder: Path, dtype: str) -> None:
    """Write the model in the GGUF file `path`, its weights unpacked to `dtype`, to a new `folder`.

    What it was made from is on record in it. The folder appears in one move, when all is written.
    Raises UsageError when it exists or the dtype is unknown, ModelFileError when `path` cannot be
    read.
    """
    if dtype not in DTYPES:
        msg = f"unknown dtype {dtype!r}; choose from {', '.join(DTYPES)}"
        raise UsageError(msg)
    if folder.exists():
        msg = f"{folder} exists already; name a new folder"
        raise UsageError(msg)
    origin = {
        "model": model_name(path),
        "made_from": {"weights": describe_weights(path), "sha256": model_digest(path)},
    }
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        made = Path(partial) / folder.name
        made.mkdir()
        _plain_model(path, DTYPES[dtype]).save_pretrained(made)
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(made)
        (made / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        shutil.move(made, folder)


def _plain_model(path: Path, dtype: torch.dtype) -> Any:
    """The model without any trace of the packed file: one that was loaded from it is not saved."""
    try:
        packed = AutoModelForCausalLM.from_pretrained(
            path.parent,
            gguf_file=path.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
            local_files_only=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        said = str(error).strip().splitlines()[0]
        msg = f"transformers cannot load {path}: {said}; use another model"
        raise ModelFileError(msg) from error
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain: Any = type(packed)(config)
    plain.to(dtype)
    plain.load_state_dict(packed.state_dict())
    plain.generation_config = packed.generation_config
    return plain
