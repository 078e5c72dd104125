from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType

from engines.models.gguf_file import read_gguf
from engines.models.model_store import resolve_model
from harness.core.errors import ModelFileError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_uint32("a.count", 7)
    writer.add_float32("an.epsilon", 0.5)
    writer.add_bool("a.flag", True)
    writer.add_string("a.text", "zwölf 一")
    writer.add_array("some.numbers", [1, -2, 3])
    writer.add_array("some.words", ["one", "", "três"])
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    packed = gguf.quants.quantize(np.ones((2, 64), np.float32), GGMLQuantizationType.Q4_1)
    writer.add_tensor("second", packed, raw_dtype=GGMLQuantizationType.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_of_every_kind_reads_as_written(path: Path) -> None:
    metadata = dict(read_gguf(path).metadata)

    assert metadata.pop("general.architecture") == "llama"
    assert metadata == {
        "a.count": 7,
        "an.epsilon": 0.5,
        "a.flag": True,
        "a.text": "zwölf 一",
        "some.numbers": [1, -2, 3],
        "some.words": ["one", "", "três"],
    }


def test_a_tensor_lies_where_the_header_says(path: Path) -> None:
    first, second = read_gguf(path).tensors.values()
    data = path.read_bytes()[first.offset : first.offset + first.byte_count]

    assert (first.shape, first.kind.name) == ((2, 3), "F32")
    assert np.array_equal(np.frombuffer(data, np.float32), np.arange(6))
    assert (second.shape, second.kind.name, second.byte_count) == ((2, 64), "Q4_1", 80)


def test_a_file_cut_anywhere_is_refused_with_both_sizes(path: Path) -> None:
    whole = path.read_bytes()
    tensor = read_gguf(path).tensors["second"]
    end = tensor.offset + tensor.byte_count
    for length in range(4, end):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=f"is truncated: .* the file has {length};"):
            resolve_model(str(path))
    path.write_bytes(whole[: end - 1])
    with pytest.raises(ModelFileError, match=f"its tensors need {end} bytes"):
        resolve_model(str(path))


def test_an_unknown_version_is_named(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\x63\0\0\0" + whole[8:])

    with pytest.raises(ModelFileError, match="has GGUF version 99; versions 2 and 3"):
        read_gguf(path)


def test_a_header_that_makes_no_sense_is_called_damaged(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"a.count\x04", b"a.count\x4d"))

    with pytest.raises(ModelFileError, match="damaged GGUF header: value type 77"):
        read_gguf(path)
