"""A model on this machine: found, refused when an engine cannot read it, and named like ours."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from pathlib import Path

import pytest

from engines.local_model import LocalModel, local_model, located, require_readable
from harness.core.clock import VirtualClock
from harness.core.errors import ModelFileError


def safetensors(path: Path, **tensors: list[int]) -> Path:
    """A file of bfloat16 tensors of these shapes, all zero."""
    header, at = {}, 0
    for name, shape in tensors.items():
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smol"
    made.mkdir()
    (made / "config.json").write_text("{}")
    return made


def test_what_exists_is_located_and_what_does_not_is_a_hubs_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)

    assert located("smol") == str(folder)
    assert located("org/model") == "org/model"


def test_a_model_that_is_known_but_not_fetched_says_how_to_fetch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf")
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path))

    with pytest.raises(ModelFileError, match="run `batchmark model fetch smollm2-135m`"):
        located("smollm2-135m")


@pytest.mark.parametrize(
    ("reads", "name", "message"),
    [
        (
            "folder",
            "no/such/model",
            "e reads a Hugging Face folder or a model of a hub, and 'no/such/",
        ),
        ("folder", "./nowhere", "'./nowhere' is none; give --model one that exists"),
        ("folder", "x.gguf", "'x.gguf' is none"),
        ("any", "org/model", "'org/model' is none"),
        ("gguf", "org/model", "e reads a GGUF file, and 'org/model' is none"),
        (
            "any",
            "no/such/model",
            "e reads a model that was fetched, a GGUF file or a Hugging Face fol",
        ),
    ],
)
def test_what_no_engine_could_read_is_refused(reads: str, name: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        require_readable("e", reads, name)


def test_an_engine_of_folders_reads_folders_and_one_of_files_reads_files(folder: Path) -> None:
    gguf = folder.parent / "m.gguf"
    gguf.write_bytes(b"GGUF")

    require_readable("vllm", "folder", str(folder))
    require_readable("vllm", "folder", "org/model")
    require_readable("llama-cpp", "gguf", str(gguf))
    require_readable("inhouse", "any", str(gguf))
    require_readable("inhouse", "any", str(folder))
    with pytest.raises(ModelFileError, match="`batchmark model export MODEL FOLDER` writes one"):
        require_readable("vllm", "folder", str(gguf))
    with pytest.raises(ModelFileError, match="llama-cpp reads GGUF files, .*smol is none"):
        require_readable("llama-cpp", "gguf", str(folder))


def test_a_folder_is_known_by_its_weights_and_how_most_of_them_are_stored(folder: Path) -> None:
    files = [
        safetensors(folder / "a.safetensors", w=[10, 10]),
        safetensors(folder / "b.safetensors", v=[5]),
    ]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    assert local_model(str(folder)) == LocalModel("smol", digest, "BF16 safetensors")


def test_a_folder_that_was_made_from_another_file_has_the_name_of_that(folder: Path) -> None:
    safetensors(folder / "a.safetensors", w=[1])
    (folder / "batchmark.json").write_text('{"model": "SmolLM2-135M"}')

    assert local_model(str(folder)).title == "SmolLM2-135M"  # type: ignore[union-attr]


def test_a_file_is_known_by_its_name_without_the_quantisation(tmp_path: Path) -> None:
    file = tmp_path / "SmolLM2-135M.Q4_1.gguf"
    file.write_bytes(b"GGUF")

    assert local_model(str(file)) == LocalModel(
        "SmolLM2-135M", hashlib.sha256(b"GGUF").hexdigest(), None
    )


def test_a_model_of_a_hub_and_a_folder_without_weights_say_nothing(folder: Path) -> None:
    assert local_model("org/model") is None
    assert local_model(str(folder)) is None


def test_without_the_extra_that_reads_models_nothing_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    safetensors(folder / "a.safetensors", w=[1])
    for name in ("engines.models", "engines.models.identity", "engines.models.model_store"):
        monkeypatch.setitem(sys.modules, name, None)

    assert local_model(str(folder)) is None
    assert located("smollm2-135m") == "smollm2-135m"


def test_the_name_and_the_words_are_those_of_the_in_house_engine(tiny_model: Path) -> None:
    """Two engines on the same files must be seen to run the same model."""
    engine = pytest.importorskip("engines.inhouse.engine")
    options = engine.EngineOptions(slots=1, dtype="float32", version="0")
    facts = engine.build_engine(tiny_model, options, VirtualClock(), None).facts()

    found = local_model(str(tiny_model))

    assert found == LocalModel(facts.model, facts.model_digest, facts.weights)
