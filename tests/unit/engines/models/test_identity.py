"""What a model is called, and what its weights are."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType

from engines.models.identity import describe_weights, model_digest, model_name


def safetensors_of(shapes: dict[str, tuple[str, list[int]]]) -> bytes:
    """A file whose tensors hold nothing but zeros, two bytes each."""
    header, at = {}, 0
    for name, (kind, shape) in shapes.items():
        end = at + 2 * int(np.prod(shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def test_weights_of_a_folder_are_described_by_the_type_that_most_are_stored_in(
    tmp_path: Path,
) -> None:
    first = safetensors_of({"a": ("F16", [3, 3]), "b": ("BF16", [2, 2])})
    (tmp_path / "1.safetensors").write_bytes(first)
    (tmp_path / "2.safetensors").write_bytes(safetensors_of({"c": ("BF16", [6])}))

    assert describe_weights(tmp_path) == "BF16 safetensors"


def test_weights_of_a_gguf_file_are_described_by_the_type_that_most_are_stored_in(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    packed = gguf.quants.quantize(np.ones((2, 64), np.float32), GGMLQuantizationType.Q4_1)
    writer.add_tensor("big", packed, raw_dtype=GGMLQuantizationType.Q4_1)
    writer.add_tensor("small", np.ones(64, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    assert describe_weights(path) == "Q4_1 GGUF"


def test_the_digest_covers_every_weights_file_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(b"second")
    (tmp_path / "a.safetensors").write_bytes(b"first")

    assert model_digest(tmp_path) == hashlib.sha256(b"firstsecond").hexdigest()
    assert model_digest(tmp_path / "a.safetensors") == hashlib.sha256(b"first").hexdigest()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct"),
        ("Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B"),
        ("plain.gguf", "plain"),
    ],
)
def test_the_quantisation_is_no_part_of_the_name(tmp_path: Path, file: str, name: str) -> None:
    assert model_name(tmp_path / file) == name


def test_a_folder_is_called_as_it_is(tmp_path: Path) -> None:
    assert model_name(tmp_path) == tmp_path.name
