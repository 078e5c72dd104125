"""The table of engine versions and container images, versions.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.jsonable import from_json

TABLE = Path(__file__).with_name("versions.toml")
_IMAGES = {"default": "image", "default-cpu": "image_cpu"}


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """What an adapter was written for, how to get it, and its images for GPUs and for CPUs."""

    written_for: str
    works_with: tuple[str, ...]
    install: str
    image: str | None = None
    image_cpu: str | None = None


@cache
def versions() -> Mapping[str, EngineVersion]:
    """The table, by kind of engine."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {kind: from_json(EngineVersion, row) for kind, row in table.items()}


def image_of(kind: str, image: str) -> str:
    """`image` itself, or the pinned one that `default` or `default-cpu` stands for.

    Raises UsageError when there is none for this kind of engine.
    """
    if image not in _IMAGES:
        return image
    version = versions().get(kind)
    pinned = getattr(version, _IMAGES[image]) if version else None
    if not isinstance(pinned, str):
        msg = f"{kind} has no pinned image for {image!r}; name the image itself with --image"
        raise UsageError(msg)
    return pinned


def is_tried(kind: str, version: str | None) -> bool | None:
    """Whether `version` speaks as the adapter expects; None when that is not known."""
    if version is None or kind not in versions():
        return None
    return version.removeprefix("v").startswith(versions()[kind].works_with)
