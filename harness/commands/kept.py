"""What commands keep as JSON in the folders that they make, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import RunFolderError
from harness.core.jsonable import from_json

T = TypeVar("T")


def read_kept(cls: type[T], folder: Path, name: str, what: str) -> T:
    """The `what`, such as a sweep, that is kept in `folder` as the file `name`.

    Raises RunFolderError when it cannot be read, or was written by another version.
    """
    file = folder / name
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        _require_version(cls, data)
        return from_json(cls, data)
    except (FileNotFoundError, NotADirectoryError):
        msg = f"{folder} is no {what}: it has no {name}; name a folder that holds one"
        raise RunFolderError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"cannot read {file}: {error}; restore it, or measure again"
        raise RunFolderError(msg) from error


def _require_version(cls: type, data: Any) -> None:
    """Raise ValueError where `data` says that it is of another version than `cls` is."""
    known = cls.__dataclass_fields__["schema_version"].default  # type: ignore[attr-defined]
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != known:
        msg = f"it has format version {version!r}, and this batchmark reads {known}"
        raise ValueError(msg)
