"""Reads what a GGUF file says about itself: its metadata, and where each tensor lies.

Written out here because the reader of the `gguf` package takes seconds for a vocabulary of 49 152
tokens, and cannot say how many bytes a truncated file lacks. The layout is that of GGUF versions 2
and 3, little-endian: magic, version, counts, key-value pairs, tensor descriptions, aligned data.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from harness.core.errors import ModelFileError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a GGUF file: `shape` slowest dimension first, `offset` from the file's start."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A GGUF file as its header describes it; all its tensors lie inside the file."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """The header of the GGUF file at `path`.

    Raises ModelFileError when it is not GGUF, of an unknown version, damaged, or truncated.
    """
    with path.open("rb") as file:
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            msg = f"{path} is not a GGUF file: it begins with {magic!r}, not {MAGIC!r}; give a GGUF"
            raise ModelFileError(msg)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _read_header(path, _Cursor(data))
            _check_extents(header, len(data))
            return header


class _Cursor:
    """Takes values off the front of `data`. Raises EOFError where it ends too early."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.at = len(MAGIC)

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        start, self.at = self.at, self.at + struct.calcsize("<" + code) * count
        self._check()
        return struct.unpack_from(f"<{count}{code}", self._data, start)

    def text(self) -> str:
        length = self.number("Q")
        start, self.at = self.at, self.at + length
        self._check()
        return self._data[start : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in _SCALARS:
                return list(self.numbers(_SCALARS[inner], count))
            return [self.value(inner) for _ in range(count)]
        if kind not in _SCALARS:
            msg = f"value type {kind} does not exist"
            raise ValueError(msg)
        return self.number(_SCALARS[kind])

    def _check(self) -> None:
        if self.at > len(self._data):
            raise EOFError(self.at)


def _read_header(path: Path, cursor: _Cursor) -> GgufFile:
    try:
        version = cursor.number("I")
        if version not in _VERSIONS:
            msg = f"{path} has GGUF version {version}; versions 2 and 3 are read; convert it again"
            raise ModelFileError(msg)
        tensor_count, value_count = cursor.number("Q"), cursor.number("Q")
        metadata = {}
        for _ in range(value_count):
            key = cursor.text()
            metadata[key] = cursor.value(cursor.number("I"))
        described = [_read_tensor(cursor) for _ in range(tensor_count)]
    except EOFError as end:
        msg = (
            f"{path} is truncated: its header needs at least {end.args[0]} bytes, "
            f"the file has {path.stat().st_size}; download it again"
        )
        raise ModelFileError(msg) from None
    except ValueError as error:
        msg = f"{path} has a damaged GGUF header: {error}; download it again"
        raise ModelFileError(msg) from error
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    start = -(-cursor.at // alignment) * alignment
    tensors = {tensor.name: replace(tensor, offset=start + tensor.offset) for tensor in described}
    return GgufFile(path, metadata, tensors)


def _read_tensor(cursor: _Cursor) -> GgufTensor:
    """The next tensor as described; its offset counts from the start of the data."""
    name = cursor.text()
    shape = cursor.numbers("Q", cursor.number("I"))
    kind = GGMLQuantizationType(cursor.number("I"))
    values_per_block, bytes_per_block = GGML_QUANT_SIZES[kind]
    byte_count = prod(shape) // values_per_block * bytes_per_block
    return GgufTensor(name, tuple(reversed(shape)), kind, cursor.number("Q"), byte_count)


def _check_extents(file: GgufFile, found_bytes: int) -> None:
    needed_bytes = max((t.offset + t.byte_count for t in file.tensors.values()), default=0)
    if needed_bytes > found_bytes:
        msg = (
            f"{file.path} is truncated: its tensors need {needed_bytes} bytes, "
            f"the file has {found_bytes}; download it again"
        )
        raise ModelFileError(msg)
