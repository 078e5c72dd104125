"""Reads what a safetensors file says about itself: a length (u64), as many bytes of JSON, data."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a safetensors file, as its header describes it; `kind` is such as `BF16`."""

    shape: tuple[int, ...]
    kind: str


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors of the file at `path`, by name.

    Raises ModelFileError when it is not a safetensors file, or truncated.
    """
    found_bytes = path.stat().st_size
    tensors: dict[str, StoredTensor] = {}
    with path.open("rb") as file:
        start = file.read(8)
        header_bytes = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        needed_bytes = 8 + header_bytes
        if header_bytes and needed_bytes <= found_bytes:
            try:
                header = json.loads(file.read(header_bytes))
                header.pop("__metadata__", None)
                needed_bytes += max((t["data_offsets"][1] for t in header.values()), default=0)
                tensors = {
                    n: StoredTensor(tuple(t["shape"]), t["dtype"]) for n, t in header.items()
                }
            except (ValueError, AttributeError, KeyError, TypeError) as error:
                msg = f"{path} is not a safetensors file: {error}; download it again"
                raise ModelFileError(msg) from error
    if not header_bytes or needed_bytes > found_bytes:
        msg = (
            f"{path} is truncated: it needs {needed_bytes} bytes, "
            f"the file has {found_bytes}; download it again"
        )
        raise ModelFileError(msg)
    return tensors
