"""A GGUF file written as a Hugging Face folder: the same model, under the same name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="transformers is not installed (extra: huggingface)")
pytest.importorskip("accelerate", reason="accelerate is not installed (extra: huggingface)")

from engines.hosted.export import export_folder
from engines.inhouse.engine import EngineOptions, build_engine
from engines.local_model import local_model, require_readable
from engines.models.identity import model_digest
from engines.models.tokenizer import load_codec
from harness.core.clock import VirtualClock
from harness.core.errors import ModelFileError, UsageError


@pytest.fixture(scope="module")
def folder(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("exported") / "tiny"
    export_folder(tiny_gguf, made, "bfloat16")
    return made


def test_the_folder_is_one_that_other_engines_read(folder: Path) -> None:
    require_readable("vllm", "folder", str(folder))
    config = json.loads((folder / "config.json").read_text())

    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    assert (folder / "tokenizer.json").is_file()


def test_it_has_the_name_of_the_file_and_says_what_it_was_made_from(
    folder: Path, tiny_gguf: Path
) -> None:
    found: Any = local_model(str(folder))
    origin = json.loads((folder / "batchmark.json").read_text())

    assert (found.title, found.weights) == ("tiny-llama", "BF16 safetensors")
    assert origin["made_from"] == {"weights": "Q8_0 GGUF", "sha256": model_digest(tiny_gguf)}


def test_the_in_house_engine_runs_it_as_the_same_model(folder: Path, tiny_gguf: Path) -> None:
    options = EngineOptions(slots=1, dtype="bfloat16", version="0")
    names = {
        build_engine(path, options, VirtualClock(), None).facts().model
        for path in (folder, tiny_gguf)
    }

    assert names == {"tiny-llama"}


def test_its_tokenizer_reads_and_writes_as_that_of_the_file(folder: Path, tiny_gguf: Path) -> None:
    ours, theirs = load_codec(folder), load_codec(tiny_gguf)

    for text in ("hello there", "a  b\n", "1234"):
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))


def test_nothing_is_left_behind_by_an_export_that_fails(tiny_gguf: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_gguf.read_bytes()[:-64])

    with pytest.raises(ModelFileError):
        export_folder(broken, tmp_path / "out" / "x", "bfloat16")
    with pytest.raises(UsageError, match="unknown dtype 'int8'; choose from bfloat16"):
        export_folder(tiny_gguf, tmp_path / "out" / "x", "int8")

    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_is_there_already_is_not_written_over(folder: Path, tiny_gguf: Path) -> None:
    with pytest.raises(UsageError, match="tiny exists already; name a new folder"):
        export_folder(tiny_gguf, folder, "bfloat16")
